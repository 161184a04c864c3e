// SPDX-License-Identifier: Apache-2.0
//
// The table type x operation of one instruction set. Not a header for others: set_portable.cc,
// set_avx2.cc, set_avx512.cc each set their target, include this, and so compile all loops once
// more. Therefore everything in the headers below it is in an unnamed namespace, and no function of
// another header is instantiated in them: the linker would give one set's code to all.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libhvd/data/kernels.h"
#include "libhvd/data/loops.h"
#include "libhvd/data/products.h"
#ifdef HVD_HALF_LANES
#include "libhvd/data/half_lanes.h"
#endif

#ifdef __FAST_MATH__
#error "libhvd's results are the same everywhere only without -ffast-math"
#endif

namespace hvd {
namespace {

struct Row {
  using Reduce = void (*)(void*, const void* const*, int, size_t);
  using Convert = void (*)(void*, const void*, size_t);
  Reduce reduce[kOpCount];  // by number of the operation
  void (*scale)(void*, const void*, size_t, Scale);
  // The rest is null where the type is not floating.
  Convert to_half;
  Convert to_brain;
  Convert to_float32;
  Convert to_float64;
  void (*dot)(const void*, const void*, size_t, double*);
  void (*combine)(void*, double, const void*, double, const void*, size_t);
};

// Sums and products are unsigned: they wrap around.
template <typename T, typename Unsigned>
constexpr Row integer_row() {
  constexpr Row::Reduce sum = reduce<Integer<Unsigned>, Add>;
  return {{sum, sum, nullptr, reduce<Integer<T>, Least>, reduce<Integer<T>, Most>,
           reduce<Integer<Unsigned>, Multiply>},
          scale_integer<T>,
          nullptr,
          nullptr,
          nullptr,
          nullptr,
          nullptr,
          nullptr};
}

constexpr Row truth_row() {
  constexpr Row::Reduce any = reduce<Truth, Most>;
  constexpr Row::Reduce all = reduce<Truth, Least>;
  return {{any, any, nullptr, all, any, all},
          scale_truth,
          nullptr,
          nullptr,
          nullptr,
          nullptr,
          nullptr,
          nullptr};
}

template <typename E>
constexpr Row narrow_row() {
  constexpr Row::Reduce sum = reduce<E, Add>;
  constexpr Row::Reduce least = reduce<Ordered<E, INT16_MIN>, Least>;
  constexpr Row::Reduce most = reduce<Ordered<E, INT16_MAX>, Most>;
  return {{sum, sum, nullptr, least, most, reduce<E, Multiply>},
          scale_narrow<E>,
          convert_through<Half, E>,
          convert_through<Brain, E>,
          convert<Float32, E>,
          convert_through<Float64, E>,
          dot_narrow<E>,
          combine_narrow<E>};
}

template <typename E>
constexpr Row floating_row(Row::Convert to_half, Row::Convert to_brain) {
  constexpr Row::Reduce sum = reduce<E, Add>;
  constexpr Row::Reduce least = reduce<E, LeastValue>;
  constexpr Row::Reduce most = reduce<Negative<E>, LeastValue>;
  return {{sum, sum, nullptr, least, most, reduce<E, Multiply>},
          scale_float<E>,
          to_half,
          to_brain,
          convert<Float32, E>,
          convert<Float64, E>,
          dot<E>,
          combine<E>};
}

// In the order of the numbers.
constexpr Row kRows[kTypeCount] = {
    integer_row<uint8_t, uint8_t>(),
    integer_row<int8_t, uint8_t>(),
    integer_row<uint16_t, uint16_t>(),
    integer_row<int16_t, uint16_t>(),
    integer_row<int32_t, uint32_t>(),
    integer_row<int64_t, uint64_t>(),
    narrow_row<Half>(),
    floating_row<Float32>(convert<Half, Float32>, convert<Brain, Float32>),
    floating_row<Float64>(convert_through<Half, Float64, OddFloat32>,
                          convert_through<Brain, Float64, OddFloat32>),
    truth_row(),
    narrow_row<Brain>(),
};

inline const Row& row(DataType type) { return kRows[static_cast<int>(type)]; }

void reduce_any(DataType type, ReduceOp op, void* to, const void* const* from, int count,
                size_t n) {
  const void* twice[2] = {from[0], from[0]};
  if (count > 1) {
    row(type).reduce[static_cast<int>(op)](to, from, count, n);
  } else if (type == DataType::kBool) {
    row(type).reduce[static_cast<int>(ReduceOp::kMax)](to, twice, 2, n);
  } else {
    copy(to, from[0], n * size_of(type));
  }
}

void scale_any(DataType type, void* to, const void* from, size_t n, Scale scale) {
  if (scale.identity()) return copy(to, from, n * size_of(type));
  row(type).scale(to, from, n, scale);
}

void convert_any(DataType to_type, void* to, DataType from_type, const void* from, size_t n) {
  const Row& r = row(from_type);
  if (to_type == from_type) {
    copy(to, from, n * size_of(from_type));
  } else if (to_type == DataType::kFloat16) {
    r.to_half(to, from, n);
  } else if (to_type == DataType::kBfloat16) {
    r.to_brain(to, from, n);
  } else if (to_type == DataType::kFloat32) {
    r.to_float32(to, from, n);
  } else {
    r.to_float64(to, from, n);
  }
}

void dot_any(DataType type, const void* a, const void* b, size_t n, double* out) {
  row(type).dot(a, b, n, out);
}

void combine_any(DataType type, void* to, double ca, const void* a, double cb, const void* b,
                 size_t n) {
  row(type).combine(to, ca, a, cb, b, n);
}

constexpr Kernels set_of(const char* name) {
  return {name, reduce_any, scale_any, convert_any, dot_any, combine_any};
}

}  // namespace
}  // namespace hvd
