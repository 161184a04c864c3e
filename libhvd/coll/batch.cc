// SPDX-License-Identifier: Apache-2.0
//
// See batch.h.
#include "libhvd/coll/batch.h"

#include <string.h>

#include <algorithm>
#include <new>

namespace hvd {
namespace {

// Sums and what goes with them (a scale before or after) go in pieces that stay in the first-level
// cache.
constexpr size_t kPieceBytes = 8 << 10;

// Of the elements [within, within + n) of a segment, those whose result goes to the user.
Range wanted(const Segment& segment, size_t within, size_t n) {
  if (segment.output == nullptr) return {within, within};
  return overlap({within, within + n}, segment.keep);
}

}  // namespace

void AlignedBytes::Free::operator()(char* bytes) const { operator delete[](bytes, kAlign); }

void AlignedBytes::allocate(size_t bytes) {
  bytes_.reset(static_cast<char*>(operator new[](std::max<size_t>(1, bytes), kAlign)));
}

Batch::Batch(std::shared_ptr<const Team> team, BatchPlan plan, std::vector<Segment> segments,
             std::shared_ptr<StageTimes> times)
    : team_(std::move(team)),
      plan_(plan),
      segments_(std::move(segments)),
      times_(std::move(times)) {
  size_t begin = 0;
  for (const Segment& segment : segments_) {
    begins_.push_back(begin);
    begin += segment.elements;
  }
}

template <typename Fn>
void Batch::for_each_piece(uint64_t block, Range part, size_t most_bytes, Fn fn) const {
  if (part.size() == 0) return;
  const size_t size = size_of(plan_.type);
  const size_t most = std::max<size_t>(1, most_bytes / size);
  const size_t block_begin = (block - plan_.first_block) * plan_.block_elements;
  const size_t begin = block_begin + part.begin;
  const size_t end = block_begin + part.end;
  auto it = std::upper_bound(begins_.begin(), begins_.end(), begin);
  size_t index = static_cast<size_t>(it - begins_.begin()) - 1;
  for (size_t at = begin; at < end;) {
    const Segment& segment = segments_[index];
    const size_t within = at - begins_[index];
    const size_t n = std::min({segment.elements - within, end - at, most});
    if (n > 0) fn(segment, within, (at - block_begin) * size, n);
    at += n;
    if (within + n == segment.elements) ++index;
  }
}

void Batch::pack(uint64_t block, Range skip, char* slot) const {
  const size_t size = size_of(plan_.type);
  const Range all = all_of(block);
  for (Range part : {Range{0, skip.begin}, Range{std::max(skip.begin, skip.end), all.end}}) {
    for_each_piece(block, part, SIZE_MAX,
                   [&](const Segment& s, size_t within, size_t offset, size_t n) {
                     take(s, within, n, size, slot + offset);
                   });
  }
}

void Batch::take(const Segment& s, size_t within, size_t n, size_t size, char* to) const {
  if (s.input == nullptr) {
    memset(to, 0, n * size);
  } else {
    kernels().scale(plan_.type, to, s.input + within * size, n, s.before);
  }
}

void Batch::reduce(uint64_t block, Range shard, char* const* slots, int count, int me,
                   char* result) const {
  const size_t size = size_of(plan_.type);
  std::vector<const void*> from(static_cast<size_t>(count));
  for_each_piece(block, shard, kPieceBytes,
                 [&](const Segment& s, size_t within, size_t offset, size_t n) {
                   for (int i = 0; i < count; ++i) from[i] = slots[i] + offset;
                   if (s.input != nullptr && s.before.identity()) {
                     from[me] = s.input + within * size;
                   } else {
                     take(s, within, n, size, slots[me] + offset);
                   }
                   kernels().reduce(plan_.type, plan_.op, result + offset, from.data(), count, n);
                 });
}

void Batch::unpack(uint64_t block, const char* slot, bool not_in_place) const {
  const size_t size = size_of(plan_.type);
  for_each_piece(block, all_of(block), SIZE_MAX,
                 [&](const Segment& s, size_t within, size_t offset, size_t n) {
                   const Range part = wanted(s, within, n);
                   if (part.size() == 0 || (not_in_place && s.input == s.output)) return;
                   kernels().scale(plan_.type, s.output + (part.begin - s.keep.begin) * size,
                                   slot + offset + (part.begin - within) * size, part.size(),
                                   s.after);
                 });
}

void Batch::reduce_out(uint64_t block, const char* const* slots, int count, int me) const {
  const size_t size = size_of(plan_.type);
  std::vector<const void*> from(static_cast<size_t>(count));
  for_each_piece(block, all_of(block), kPieceBytes,
                 [&](const Segment& s, size_t within, size_t offset, size_t n) {
                   const Range part = wanted(s, within, n);
                   if (part.size() == 0) return;
                   offset += (part.begin - within) * size;
                   for (int i = 0; i < count; ++i) from[i] = slots[i] + offset;
                   char* to = s.output + (part.begin - s.keep.begin) * size;
                   // In place the own elements are where the sum goes: read them there, once.
                   if (s.input == s.output && s.keep.begin == 0 && s.before.identity() && me < 4) {
                     from[me] = to;
                   }
                   kernels().reduce(plan_.type, plan_.op, to, from.data(), count, part.size());
                   if (!s.after.identity()) {
                     kernels().scale(plan_.type, to, to, part.size(), s.after);
                   }
                 });
}

std::vector<Range> Batch::needs(uint64_t block, Range shard) const {
  std::vector<Range> needs;
  if (plan_.kind != OpKind::kReducescatter) return needs;
  needs.resize(static_cast<size_t>(team_->nodes));
  const size_t size = size_of(plan_.type);
  for_each_piece(block, shard, SIZE_MAX,
                 [&](const Segment& s, size_t within, size_t offset, size_t n) {
                   const size_t row = s.elements / s.rows;
                   for (int node = 0; node < team_->nodes; ++node) {
                     const auto& members = team_->members_by_node[node];
                     const size_t begin = rows_of(s.rows, team_->size, members.front()).begin * row;
                     const size_t end = rows_of(s.rows, team_->size, members.back()).end * row;
                     const Range part = overlap({within, within + n}, {begin, end});
                     const size_t at = offset / size - shard.begin + (part.begin - within);
                     if (part.size() > 0) needs[node] = hull(needs[node], {at, at + part.size()});
                   }
                 });
  return needs;
}

}  // namespace hvd
