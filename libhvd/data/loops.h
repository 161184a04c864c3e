// SPDX-License-Identifier: Apache-2.0
//
// The bodies of the kernels and the table type x operation made of them. Not a header for others:
// each instruction set (set_portable.cc, set_avx2.cc, set_avx512.cc) sets its target, includes
// this, and so compiles all of it once more. Therefore everything is in an unnamed namespace, and
// nothing of another header is instantiated here: the linker would give one set's code to all.
//
// The loops go through loads of unaligned elements, so any pointer will do, and are simple enough
// for the compiler to vectorise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "libhvd/data/half.h"
#include "libhvd/data/kernels.h"

#ifdef __FAST_MATH__
#error "libhvd's results are the same everywhere only without -ffast-math"
#endif

namespace hvd {
namespace {

// The iterations of the next loop do not depend on each other.
#if defined(__clang__)
#define HVD_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define HVD_INDEPENDENT _Pragma("GCC ivdep")
#endif

template <typename T>
struct __attribute__((packed, may_alias)) Unaligned {
  T value;
};

// What is computed on the way stays in a piece of this many elements, in the first-level cache.
constexpr size_t kChunk = 1024;

template <typename Fn>
inline void for_each_chunk(size_t n, Fn fn) {
  for (size_t begin = 0; begin < n; begin += kChunk) {
    fn(begin, n - begin < kChunk ? n - begin : kChunk);
  }
}

// ---- Elements: how one is stored (Bits), and what it is reduced as (Value) ----

template <typename T>
struct Integer {
  using Bits = T;
  using Value = T;
  static T load(T bits) { return bits; }
  static T store(T value) { return value; }
};

struct Truth {
  using Bits = uint8_t;
  using Value = uint8_t;
  static uint8_t load(uint8_t bits) { return bits != 0; }
  static uint8_t store(uint8_t value) { return value; }
};

struct Float32 {
  using Bits = float;
  using Value = float;
  static float load(float bits) { return bits; }
  static float store(float value) { return value == value ? value : float_of(kNanFloat); }
};

struct Float64 {
  using Bits = double;
  using Value = double;
  static double load(double bits) { return bits; }
  static double store(double value) { return value == value ? value : __builtin_nan(""); }
};

struct Half {
  using Bits = uint16_t;
  using Value = float;
  static float load(uint16_t bits) { return float_of_half(bits); }
  static uint16_t store(float value) { return half_of_float(value); }
};

struct Brain {
  using Bits = uint16_t;
  using Value = float;
  static float load(uint16_t bits) { return float_of_brain(bits); }
  static uint16_t store(float value) { return brain_of_float(value); }
};

// A floating type in the order of its numbers, as integers: -0.0 before +0.0, and NaN, whatever its
// sign, where the reduction finds it: before all (kNan the smallest integer) or behind.
template <typename T, T kInfinity, T kNan>
struct Ordered {
  using Bits = T;
  using Value = T;
  static constexpr T kMagnitude = static_cast<T>(~(T{1} << (8 * sizeof(T) - 1)));
  static T flip(T x) { return static_cast<T>(x ^ (x < 0 ? kMagnitude : 0)); }
  static T load(T bits) { return (bits & kMagnitude) > kInfinity ? kNan : flip(bits); }
  static T store(T value) { return flip(value); }
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

// ---- Reductions ----

// One source after the other into a running value per element.
template <typename E, typename Op>
void reduce(void* to_bytes, const void* const* sources, int count, size_t n) {
  using Bits = Unaligned<typename E::Bits>;
  using Value = typename E::Value;
  for_each_chunk(n, [&](size_t begin, size_t m) {
    Value running[kChunk];
    const Bits* from = static_cast<const Bits*>(sources[0]) + begin;
    HVD_INDEPENDENT
    for (size_t i = 0; i < m; ++i) running[i] = E::load(from[i].value);
    for (int k = 1; k < count; ++k) {
      from = static_cast<const Bits*>(sources[k]) + begin;
      HVD_INDEPENDENT
      for (size_t i = 0; i < m; ++i) running[i] = Op::apply(running[i], E::load(from[i].value));
    }
    Bits* to = static_cast<Bits*>(to_bytes) + begin;
    HVD_INDEPENDENT
    for (size_t i = 0; i < m; ++i) to[i].value = E::store(running[i]);
  });
}

// ---- Scale ----

template <typename E>
void scale_float(void* to_bytes, const void* from_bytes, size_t n, Scale scale) {
  using Bits = Unaligned<typename E::Bits>;
  Bits* to = static_cast<Bits*>(to_bytes);
  const Bits* from = static_cast<const Bits*>(from_bytes);
  const auto factor =
      static_cast<typename E::Value>(scale.multiply / static_cast<double>(scale.divide));
  HVD_INDEPENDENT
  for (size_t i = 0; i < n; ++i) to[i].value = E::store(E::load(from[i].value) * factor);
}

// The value a double truncates to, the nearest end of T's range where it does not fit.
template <typename T>
T truncate(double x) {
  constexpr bool kSigned = static_cast<T>(-1) < 0;
  constexpr double kPast =
      (kSigned ? 0.5 : 1.0) * 256.0 * static_cast<double>(uint64_t{1} << (8 * (sizeof(T) - 1)));
  constexpr T kLeast = kSigned ? static_cast<T>(uint64_t{1} << (8 * sizeof(T) - 1)) : 0;
  constexpr T kMost = static_cast<T>(~kLeast);
  if (!(x == x)) return 0;
  if (x >= kPast) return kMost;
  if (x <= static_cast<double>(kLeast)) return kLeast;
  return static_cast<T>(x);
}

template <typename T>
void scale_integer(void* to_bytes, const void* from_bytes, size_t n, Scale scale) {
  auto* to = static_cast<Unaligned<T>*>(to_bytes);
  auto* from = static_cast<const Unaligned<T>*>(from_bytes);
  if (scale.multiply == 1) {
    for (size_t i = 0; i < n; ++i) to[i].value = static_cast<T>(from[i].value / scale.divide);
    return;
  }
  const double divide = static_cast<double>(scale.divide);
  for (size_t i = 0; i < n; ++i) {
    to[i].value = truncate<T>(static_cast<double>(from[i].value) * scale.multiply / divide);
  }
}

inline void scale_truth(void* to, const void* from, size_t n, Scale) {
  if (to != from && n > 0) memcpy(to, from, n);
}

// ---- Conversions, products ----

inline float to_float(double x, Float32) { return static_cast<float>(x); }
inline double to_float(double x, Float64) { return x; }
inline float to_float(double x, Half) { return odd_float_of(x); }
inline float to_float(double x, Brain) { return odd_float_of(x); }
template <typename To>
inline typename To::Value to_float(float x, To) {
  return x;
}

template <typename To, typename From>
void convert(void* to_bytes, const void* from_bytes, size_t n) {
  auto* to = static_cast<Unaligned<typename To::Bits>*>(to_bytes);
  auto* from = static_cast<const Unaligned<typename From::Bits>*>(from_bytes);
  for (size_t i = 0; i < n; ++i) {
    to[i].value = To::store(to_float(From::load(from[i].value), To()));
  }
}

// Element i belongs to partial sum i % kParts; the partial sums are added pairwise.
constexpr size_t kParts = 8;

template <typename E>
void dot(const void* a_bytes, const void* b_bytes, size_t n, double* out) {
  using Bits = Unaligned<typename E::Bits>;
  const Bits* a = static_cast<const Bits*>(a_bytes);
  const Bits* b = static_cast<const Bits*>(b_bytes);
  double sums[3][kParts] = {};
  for (size_t i = 0; i < n; ++i) {
    const double x = E::load(a[i].value);
    const double y = E::load(b[i].value);
    sums[0][i % kParts] += x * y;
    sums[1][i % kParts] += x * x;
    sums[2][i % kParts] += y * y;
  }
  for (int k = 0; k < 3; ++k) {
    for (size_t half = kParts / 2; half > 0; half /= 2) {
      for (size_t i = 0; i < half; ++i) sums[k][i] += sums[k][i + half];
    }
    out[k] += sums[k][0];
  }
}

template <typename E>
void combine(void* to_bytes, double ca, const void* a_bytes, double cb, const void* b_bytes,
             size_t n) {
  using Bits = Unaligned<typename E::Bits>;
  using Value = typename E::Value;
  Bits* to = static_cast<Bits*>(to_bytes);
  const Bits* a = static_cast<const Bits*>(a_bytes);
  const Bits* b = static_cast<const Bits*>(b_bytes);
  const Value fa = static_cast<Value>(ca);
  const Value fb = static_cast<Value>(cb);
  HVD_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    to[i].value = E::store(fa * E::load(a[i].value) + fb * E::load(b[i].value));
  }
}

// ---- The table: type x operation ----

struct Row {
  using Reduce = void (*)(void*, const void* const*, int, size_t);
  Reduce reduce[kOpCount];  // by number of the operation
  void (*scale)(void*, const void*, size_t, Scale);
  // The rest is null where the type is not floating.
  void (*to_half)(void*, const void*, size_t);
  void (*to_brain)(void*, const void*, size_t);
  void (*to_float32)(void*, const void*, size_t);
  void (*to_float64)(void*, const void*, size_t);
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

template <typename E, typename T, T kInfinity>
constexpr Row floating_row() {
  constexpr T kFirst = static_cast<T>(uint64_t{1} << (8 * sizeof(T) - 1));
  constexpr T kLast = static_cast<T>(~kFirst);
  constexpr Row::Reduce sum = reduce<E, Add>;
  return {{sum, sum, nullptr, reduce<Ordered<T, kInfinity, kFirst>, Least>,
           reduce<Ordered<T, kInfinity, kLast>, Most>, reduce<E, Multiply>},
          scale_float<E>,
          convert<Half, E>,
          convert<Brain, E>,
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
    floating_row<Half, int16_t, 0x7c00>(),
    floating_row<Float32, int32_t, 0x7f800000>(),
    floating_row<Float64, int64_t, 0x7ff0000000000000>(),
    truth_row(),
    floating_row<Brain, int16_t, 0x7f80>(),
};

inline const Row& row(DataType type) { return kRows[static_cast<int>(type)]; }

void reduce_any(DataType type, ReduceOp op, void* to, const void* const* from, int count,
                size_t n) {
  row(type).reduce[static_cast<int>(op)](to, from, count, n);
}

void scale_any(DataType type, void* to, const void* from, size_t n, Scale scale) {
  if (!scale.identity()) return row(type).scale(to, from, n, scale);
  if (to != from && n > 0) memcpy(to, from, n * size_of(type));
}

void convert_any(DataType to_type, void* to, DataType from_type, const void* from, size_t n) {
  const Row& r = row(from_type);
  if (to_type == from_type) {
    if (to != from && n > 0) memcpy(to, from, n * size_of(from_type));
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
