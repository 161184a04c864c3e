// SPDX-License-Identifier: Apache-2.0
//
// See batch.h.
#include "libhvd/coll/batch.h"

#include <algorithm>

namespace hvd {
namespace {

// Sums with many sources and a scale afterwards go in pieces that stay in the first-level cache.
constexpr size_t kPieceBytes = 8 << 10;

}  // namespace

Batch::Batch(BatchPlan plan, std::vector<Segment> segments)
    : plan_(plan), segments_(std::move(segments)) {
  size_t begin = 0;
  for (const Segment& segment : segments_) {
    begins_.push_back(begin);
    begin += segment.elements;
  }
}

template <typename Fn>
void Batch::for_each_piece(uint64_t block, size_t most_bytes, Fn fn) const {
  const size_t size = size_of(plan_.type);
  const size_t most = std::max<size_t>(1, most_bytes / size);
  const size_t begin = (block - plan_.first_block) * plan_.block_elements;
  const size_t end = begin + plan_.elements_of(block);
  auto it = std::upper_bound(begins_.begin(), begins_.end(), begin);
  size_t index = static_cast<size_t>(it - begins_.begin()) - 1;
  for (size_t at = begin; at < end;) {
    const Segment& segment = segments_[index];
    const size_t within = at - begins_[index];
    const size_t n = std::min({segment.elements - within, end - at, most});
    if (n > 0) fn(segment, within, (at - begin) * size, n);
    at += n;
    if (within + n == segment.elements) ++index;
  }
}

void Batch::pack(uint64_t block, char* slot) const {
  const size_t size = size_of(plan_.type);
  for_each_piece(block, SIZE_MAX, [&](const Segment& s, size_t within, size_t offset, size_t n) {
    kernels().scale(plan_.type, slot + offset, s.input + within * size, n, s.before);
  });
}

void Batch::unpack(uint64_t block, const char* slot) const {
  const size_t size = size_of(plan_.type);
  for_each_piece(block, SIZE_MAX, [&](const Segment& s, size_t within, size_t offset, size_t n) {
    kernels().scale(plan_.type, s.output + within * size, slot + offset, n, s.after);
  });
}

void Batch::sum(uint64_t block, const char* const* slots, int count) const {
  const size_t size = size_of(plan_.type);
  std::vector<const void*> from(static_cast<size_t>(count));
  for_each_piece(block, kPieceBytes, [&](const Segment& s, size_t within, size_t offset, size_t n) {
    for (int i = 0; i < count; ++i) from[i] = slots[i] + offset;
    char* to = s.output + within * size;
    kernels().sum(plan_.type, to, from.data(), count, n);
    if (!s.after.identity()) kernels().scale(plan_.type, to, to, n, s.after);
  });
}

}  // namespace hvd
