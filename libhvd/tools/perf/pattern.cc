// SPDX-License-Identifier: Apache-2.0
#include "libhvd/tools/perf/pattern.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace hvd::perf {
namespace {

// The mixing is that of splitmix64 (Steele, Lea, Flood 2014).
uint64_t random_bits(int rank, int64_t position) {
  uint64_t x = static_cast<uint64_t>(rank) * Pattern::kPeriod + static_cast<uint64_t>(position);
  x = (x + 1) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

bool is_unsigned(const ElementType& type) {
  return type.number == HVD_UINT8 || type.number == HVD_UINT16;
}

// As far as a sum may go: floating types have all integers up to here; integers wrap around, which
// only an average does not allow.
int64_t largest_sum(const ElementType& type, hvd_op op) {
  switch (type.number) {
    case HVD_BFLOAT16:
      return 1 << 8;
    case HVD_FLOAT16:
      return 1 << 11;
    case HVD_FLOAT32:
      return 1 << 24;
    case HVD_INT8:
      return op == HVD_AVERAGE ? INT8_MAX : INT32_MAX;
    case HVD_UINT8:
      return op == HVD_AVERAGE ? UINT8_MAX : INT32_MAX;
    default:
      return op == HVD_AVERAGE ? INT16_MAX : INT32_MAX;
  }
}

bool adds(hvd_op op) { return op == HVD_SUM || op == HVD_AVERAGE; }

// One in ranks + 1 is decisive, so that an "or" or an "and" of many ranks is not always the same.
int64_t truth(uint64_t bits, hvd_op op, int ranks) {
  const bool decides = bits % (static_cast<uint64_t>(ranks) + 1) == 0;
  return decides == (op == HVD_SUM || op == HVD_MAX) ? 1 : 0;
}

int64_t number(const ElementType& type, hvd_op op, int rank, int ranks, int64_t position) {
  const uint64_t bits = random_bits(rank, position);
  if (type.number == HVD_BOOL) return truth(bits, op, ranks);
  const auto small = static_cast<int64_t>(bits & 255) - 128;
  if (op == HVD_ADASUM) return position % ranks == rank ? small : 0;
  if (op == HVD_PRODUCT) {
    if (!type.is_floating()) return small | 1;
    const int64_t size = rank < 8 && (bits & 2) != 0 ? 2 : 1;
    return (bits & 1) != 0 ? size : -size;
  }
  if (!adds(op)) return small;
  const int64_t most = largest_sum(type, op);
  if (rank >= most) return 0;
  const int64_t limit = std::clamp<int64_t>(most / ranks, 1, 128);
  if (op == HVD_AVERAGE && is_unsigned(type)) return small & (limit - 1 > 0 ? limit - 1 : 1);
  return static_cast<int64_t>(bits % static_cast<uint64_t>(2 * limit)) - limit;
}

// What the type makes of it; floating types have every number that comes here.
int64_t wrapped(const ElementType& type, int64_t value) {
  switch (type.number) {
    case HVD_UINT8:
      return static_cast<uint8_t>(value);
    case HVD_INT8:
      return static_cast<int8_t>(value);
    case HVD_UINT16:
      return static_cast<uint16_t>(value);
    case HVD_INT16:
      return static_cast<int16_t>(value);
    case HVD_INT32:
      return static_cast<int32_t>(value);
    case HVD_BOOL:
      return value != 0 ? 1 : 0;
    default:
      return value;
  }
}

int64_t combined(const ElementType& type, hvd_op op, int64_t a, int64_t b) {
  switch (op) {
    case HVD_MIN:
      return std::min(a, b);
    case HVD_MAX:
      return std::max(a, b);
    case HVD_PRODUCT:
      return wrapped(type,
                     static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)));
    default:
      return wrapped(type, a + b);
  }
}

template <typename T>
void store(T value, unsigned char* at) {
  memcpy(at, &value, sizeof value);
}

// Integers up to 2^11 exactly; fractions are cut off.
uint16_t half_of(double value) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = frexp(fabs(value), &exponent);
  const int bits = (exponent + 14) << 10 | (static_cast<int>(fraction * 2048) & 1023);
  return static_cast<uint16_t>(bits | (value < 0 ? 0x8000 : 0));
}

// Integers up to 2^8 exactly; fractions are cut off.
uint16_t brain_of(double value) {
  const auto single = static_cast<float>(value);
  uint32_t bits = 0;
  memcpy(&bits, &single, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

template <typename T>
bool differ(const unsigned char* seen, const unsigned char* expected, int64_t tolerance) {
  T a;
  T b;
  memcpy(&a, seen, sizeof a);
  memcpy(&b, expected, sizeof b);
  // Neighbours of one sign have neighbouring bits.
  return (a < 0) != (b < 0) || std::llabs(static_cast<int64_t>(a) - b) > tolerance;
}

bool differ(const ElementType& type, const unsigned char* seen, const unsigned char* expected,
            int64_t tolerance) {
  if (memcmp(seen, expected, static_cast<size_t>(type.bytes)) == 0) return false;
  if (tolerance == 0) return true;
  if (type.bytes == 2) return differ<int16_t>(seen, expected, tolerance);
  if (type.bytes == 4) return differ<int32_t>(seen, expected, tolerance);
  return differ<int64_t>(seen, expected, tolerance);
}

}  // namespace

Pattern::Pattern(const ElementType& type, int tolerance)
    : type_(&type), tolerance_(tolerance), period_(static_cast<size_t>(kPeriod * type.bytes)) {}

Pattern Pattern::moved(const ElementType& type) { return sent(type, HVD_MAX, 0, 1); }

Pattern Pattern::sent(const ElementType& type, hvd_op op, int rank, int ranks) {
  Pattern pattern(type, 0);
  for (int64_t position = 0; position < kPeriod; ++position) {
    pattern.set(position, number(type, op, rank, ranks, position));
  }
  return pattern;
}

Pattern Pattern::reduced(const ElementType& type, hvd_op op, int ranks) {
  Pattern pattern(type, op == HVD_AVERAGE && type.is_floating() ? 2 : 0);
  for (int64_t position = 0; position < kPeriod; ++position) {
    int64_t value = wrapped(type, number(type, op, 0, ranks, position));
    for (int rank = 1; rank < ranks; ++rank) {
      value = combined(type, op, value, wrapped(type, number(type, op, rank, ranks, position)));
    }
    pattern.set(position, value, op == HVD_AVERAGE ? ranks : 1);
  }
  return pattern;
}

void Pattern::set(int64_t position, int64_t value, int64_t divisor) {
  unsigned char* at = period_.data() + position * type_->bytes;
  const double quotient = static_cast<double>(value) / static_cast<double>(divisor);
  switch (type_->number) {
    case HVD_FLOAT16:
      return store(half_of(quotient), at);
    case HVD_BFLOAT16:
      return store(brain_of(quotient), at);
    case HVD_FLOAT32:
      return store(static_cast<float>(quotient), at);
    case HVD_FLOAT64:
      return store(quotient, at);
    case HVD_UINT16:
    case HVD_INT16:
      return store(static_cast<int16_t>(value / divisor), at);
    case HVD_INT32:
      return store(static_cast<int32_t>(value / divisor), at);
    case HVD_INT64:
      return store(value / divisor, at);
    default:
      return store(static_cast<int8_t>(value / divisor), at);
  }
}

// Calls piece(offset in the data, first byte of the pattern, bytes) for one period after the other.
template <typename Piece>
void Pattern::for_pieces(int64_t count, int64_t shift, Piece piece) const {
  int64_t position = shift % kPeriod;
  for (int64_t done = 0; done < count;) {
    const int64_t elements = std::min(count - done, kPeriod - position);
    piece(done * type_->bytes, period_.data() + position * type_->bytes,
          static_cast<size_t>(elements * type_->bytes));
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
    const auto size = static_cast<size_t>(type_->bytes);
    for (size_t at = 0; at < bytes; at += size) {
      wrong += differ(*type_, seen + at, expected + at, tolerance_);
    }
  });
  return wrong;
}

}  // namespace hvd::perf
