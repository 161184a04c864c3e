// SPDX-License-Identifier: Apache-2.0
//
// float16 where the processor converts it by itself: the loops that do nothing else in half.h's
// arithmetic, as many elements at a time as HalfLanes (of the instruction set's file) holds. The
// bits are half.h's. What is left behind the last whole vector travels in a copy.
#pragma once

#include <cstddef>
#include <cstring>

#include "libhvd/data/loops.h"

namespace hvd {
namespace {

constexpr size_t kLanes = HalfLanes::kCount;

inline HalfLanes::Vector lanes_at(const Half::Bits* from) { return HalfLanes::widen(from); }
inline HalfLanes::Vector lanes_at(const Wide<float>* from) { return HalfLanes::load(from); }
inline HalfLanes::Vector lanes_at(const Float32::Bits* from) { return HalfLanes::load(from); }
inline void put_lanes(Half::Bits* to, HalfLanes::Vector value) {
  HalfLanes::narrow(to, HalfLanes::one_nan(value));
}
inline void put_lanes(Wide<float>* to, HalfLanes::Vector value) { HalfLanes::store(to, value); }
inline void put_lanes(Float32::Bits* to, HalfLanes::Vector value) {
  HalfLanes::store(to, HalfLanes::one_nan(value));
}

template <typename Op, int kRest>
struct Pass<Half, Op, kRest> {
  template <typename To, typename First>
  static void step(To* to, const First* a, const Half::Bits* b, const Half::Bits* c,
                   const Half::Bits* d) {
    HalfLanes::Vector value = Op::apply(lanes_at(a), lanes_at(b));
    if (kRest > 1) value = Op::apply(value, lanes_at(c));
    if (kRest > 2) value = Op::apply(value, lanes_at(d));
    put_lanes(to, value);
  }

  template <typename To, typename First>
  static void run(To* to, const First* a, const Half::Bits* const* rest, size_t n) {
    const Half::Bits* b = rest[0];
    const Half::Bits* c = kRest > 1 ? rest[1] : b;
    const Half::Bits* d = kRest > 2 ? rest[2] : b;
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) step(to + i, a + i, b + i, c + i, d + i);
    if (i == n) return;
    To result[kLanes];
    First first[kLanes] = {};
    Half::Bits others[3][kLanes] = {};
    memcpy(first, a + i, (n - i) * sizeof(First));
    memcpy(others[0], b + i, (n - i) * sizeof(Half::Bits));
    memcpy(others[1], c + i, (n - i) * sizeof(Half::Bits));
    memcpy(others[2], d + i, (n - i) * sizeof(Half::Bits));
    step(result, first, others[0], others[1], others[2]);
    memcpy(to + i, result, (n - i) * sizeof(To));
  }
};

template <typename To, typename From>
inline void convert_lanes(To* to, const From* from, size_t n) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) put_lanes(to + i, lanes_at(from + i));
  if (i == n) return;
  To result[kLanes];
  From left[kLanes] = {};
  memcpy(left, from + i, (n - i) * sizeof(From));
  put_lanes(result, lanes_at(left));
  memcpy(to + i, result, (n - i) * sizeof(To));
}

template <>
void convert_apart<Half, Float32>(Half::Bits* to, const Float32::Bits* from, size_t n) {
  convert_lanes(to, from, n);
}

template <>
void convert_apart<Float32, Half>(Float32::Bits* to, const Half::Bits* from, size_t n) {
  convert_lanes(to, from, n);
}

}  // namespace
}  // namespace hvd
