// SPDX-License-Identifier: Apache-2.0
//
// What the kernels' loops are made of: how an element is stored (Bits), what it is computed as
// (Value), as what it waits between two passes over sources (Running), and the operations on two of
// them. Like loops.h it is compiled once per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "libhvd/data/half.h"

namespace hvd {
namespace {

// Elements are read and written through this: any pointer will do.
template <typename T>
struct __attribute__((packed, may_alias)) Unaligned {
  T value;
};

template <typename T>
struct Wide {
  T value;
};

template <typename T>
struct Integer {
  using Bits = Unaligned<T>;
  using Running = Bits;
  HVD_ANYWHERE static T load(T bits) { return bits; }
  HVD_ANYWHERE static T store(T value) { return value; }
};

// The value a double truncates to, the nearest end of T's range where it does not fit.
template <typename T>
HVD_ANYWHERE inline T truncate(double x) {
  constexpr bool kSigned = static_cast<T>(-1) < 0;
  constexpr T kLeast = kSigned ? static_cast<T>(uint64_t{1} << (8 * sizeof(T) - 1)) : 0;
  constexpr T kMost = static_cast<T>(~kLeast);
  constexpr double kFirst = static_cast<double>(kLeast);
  constexpr double kPast = 2.0 * (static_cast<double>(kMost / 2) + 1);
  const T inside = static_cast<T>(x >= kFirst && x < kPast ? x : 0);
  return x >= kPast ? kMost : x < kFirst ? kLeast : inside;
}

struct Truth {
  using Bits = Unaligned<uint8_t>;
  using Running = Bits;
  HVD_ANYWHERE static uint8_t load(uint8_t bits) { return bits != 0; }
  HVD_ANYWHERE static uint8_t store(uint8_t value) { return value; }
};

struct Float32 {
  using Bits = Unaligned<float>;
  using Value = float;
  using Running = Bits;
  HVD_ANYWHERE static float load(float bits) { return bits; }
  HVD_ANYWHERE static float store(float value) {
    return value == value ? value : float_of(kNanFloat);
  }
};

struct Float64 {
  using Bits = Unaligned<double>;
  using Value = double;
  using Running = Bits;
  HVD_ANYWHERE static double load(double bits) { return bits; }
  HVD_ANYWHERE static double store(double value) {
    return value == value ? value : __builtin_nan("");
  }
};

// float64 on its way to a type that rounds once more.
struct OddFloat32 {
  using Bits = Unaligned<float>;
  using Value = double;
  HVD_ANYWHERE static float store(double value) { return odd_float_of(value); }
};

struct Half {
  static constexpr uint16_t kInfinity = 0x7c00;
  static constexpr uint16_t kNan = kNanHalf;
  using Bits = Unaligned<uint16_t>;
  using Value = float;
  using Running = Wide<float>;
  HVD_ANYWHERE static float load(uint16_t bits) { return float_of_half(bits); }
  HVD_ANYWHERE static uint16_t store(float value) { return half_of_float(value); }
};

struct Brain {
  static constexpr uint16_t kInfinity = 0x7f80;
  static constexpr uint16_t kNan = kNanBrain;
  using Bits = Unaligned<uint16_t>;
  using Value = float;
  using Running = Wide<float>;
  HVD_ANYWHERE static float load(uint16_t bits) { return float_of_brain(bits); }
  HVD_ANYWHERE static uint16_t store(float value) { return brain_of_float(value); }
};

// The 16-bit floating types in the order of their numbers, as integers: -0.0 before +0.0, and NaN,
// whatever its sign, where the reduction finds it: before all (kNan the smallest integer) or
// behind.
template <typename E, int16_t kNan>
struct Ordered {
  using Bits = Unaligned<int16_t>;
  using Running = Bits;
  static int16_t flip(int16_t x) { return static_cast<int16_t>(x ^ (x < 0 ? 0x7fff : 0)); }
  static int16_t load(int16_t bits) { return (bits & 0x7fff) > E::kInfinity ? kNan : flip(bits); }
  static int16_t store(int16_t value) {
    return value == kNan ? static_cast<int16_t>(E::kNan) : flip(value);
  }
};

// The largest is the negative of the least of the negatives.
template <typename E>
struct Negative {
  using Bits = typename E::Bits;
  using Value = typename E::Value;
  using Running = Bits;
  static Value load(Value bits) { return -bits; }
  static Value store(Value value) { return E::store(-value); }
};

// ---- Operations ----

struct Add {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a + b);
  }
};

struct Multiply {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a * b);
  }
  static uint16_t apply(uint16_t a, uint16_t b) { return static_cast<uint16_t>(1u * a * b); }
};

struct Least {
  template <typename T>
  static T apply(T a, T b) {
    return b < a ? b : a;
  }
};

struct Most {
  template <typename T>
  static T apply(T a, T b) {
    return a < b ? b : a;
  }
};

// Of floating values. Each of the two selections is one instruction, which prefers its second
// operand where there is a NaN or two zeros; "or" keeps the NaN and the minus.
struct LeastValue {
  template <typename T, typename Integer>
  static T either(T a, T b) {
    const T x = a < b ? a : b;
    const T y = b < a ? b : a;
    Integer i;
    Integer j;
    memcpy(&i, &x, sizeof(i));
    memcpy(&j, &y, sizeof(j));
    i |= j;
    T both;
    memcpy(&both, &i, sizeof(both));
    return both;
  }
  static float apply(float a, float b) { return either<float, uint32_t>(a, b); }
  static double apply(double a, double b) { return either<double, uint64_t>(a, b); }
};

}  // namespace
}  // namespace hvd
