// SPDX-License-Identifier: Apache-2.0
#include "libhvd/tools/perf/pattern.h"

#include <algorithm>
#include <cstring>

namespace hvd::perf {
namespace {

// From -128 to 127, so that float32 still holds the sum of 131,072 ranks exactly. The mixing is
// that of splitmix64 (Steele, Lea, Flood 2014).
int64_t number(int rank, int64_t position) {
  uint64_t x = static_cast<uint64_t>(rank) * Pattern::kPeriod + static_cast<uint64_t>(position);
  x = (x + 1) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return static_cast<int64_t>((x ^ (x >> 31)) & 255) - 128;
}

template <typename T>
void store(int64_t value, unsigned char* at) {
  const T typed = static_cast<T>(value);
  memcpy(at, &typed, sizeof typed);
}

void store(hvd_type type, int64_t value, unsigned char* at) {
  switch (type) {
    case HVD_FLOAT32:
      return store<float>(value, at);
    case HVD_FLOAT64:
      return store<double>(value, at);
    case HVD_INT32:
      return store<int32_t>(value, at);
    default:
      return store<int64_t>(value, at);
  }
}

}  // namespace

Pattern::Pattern(const ElementType& type, int first, int ranks)
    : element_bytes_(type.bytes), period_(static_cast<size_t>(kPeriod * type.bytes)) {
  for (int64_t position = 0; position < kPeriod; ++position) {
    int64_t sum = 0;
    for (int rank = first; rank < first + ranks; ++rank) sum += number(rank, position);
    store(type.number, sum, period_.data() + position * element_bytes_);
  }
}

// Calls piece(offset in the data, first byte of the pattern, bytes) for one period after the other.
template <typename Piece>
void Pattern::for_pieces(int64_t count, int64_t shift, Piece piece) const {
  int64_t position = shift % kPeriod;
  for (int64_t done = 0; done < count;) {
    const int64_t elements = std::min(count - done, kPeriod - position);
    piece(done * element_bytes_, period_.data() + position * element_bytes_,
          static_cast<size_t>(elements * element_bytes_));
    done += elements;
    position = 0;
  }
}

void Pattern::fill(void* data, int64_t count, int64_t shift) const {
  for_pieces(count, shift, [&](int64_t offset, const unsigned char* from, size_t bytes) {
    memcpy(static_cast<unsigned char*>(data) + offset, from, bytes);
  });
}

int64_t Pattern::count_wrong(const void* data, int64_t count, int64_t shift) const {
  int64_t wrong = 0;
  for_pieces(count, shift, [&](int64_t offset, const unsigned char* expected, size_t bytes) {
    const auto* seen = static_cast<const unsigned char*>(data) + offset;
    if (memcmp(seen, expected, bytes) == 0) return;
    const auto size = static_cast<size_t>(element_bytes_);
    for (size_t at = 0; at < bytes; at += size)
      wrong += memcmp(seen + at, expected + at, size) != 0;
  });
  return wrong;
}

}  // namespace hvd::perf
