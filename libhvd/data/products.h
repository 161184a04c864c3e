// SPDX-License-Identifier: Apache-2.0
//
// The loops of Adasum: dot products, and linear combinations of two tensors. Like all that table.h
// includes it is compiled once per instruction set.
#pragma once

#include <cstddef>
#include <cstring>

#include "libhvd/data/loops.h"

#ifndef HVD_VECTOR_BYTES
#define HVD_VECTOR_BYTES 16
#endif

namespace hvd {
namespace {

// Element i belongs to partial sum i % kParts, of which a vector holds several; in the end they are
// added pairwise.
constexpr size_t kParts = 8;
constexpr size_t kPerVector = HVD_VECTOR_BYTES / sizeof(double);
constexpr size_t kVectors = kParts / kPerVector;
typedef double Doubles __attribute__((vector_size(HVD_VECTOR_BYTES)));
typedef float Floats __attribute__((vector_size(HVD_VECTOR_BYTES / 2)));

inline Doubles doubles_at(const Float64::Bits* from) {
  Doubles x;
  memcpy(&x, from, sizeof(x));
  return x;
}

inline Doubles doubles_at(const Float32::Bits* from) {
  Floats x;
  memcpy(&x, from, sizeof(x));
  return __builtin_convertvector(x, Doubles);
}

// The elements behind the last whole vectors, and the end.
template <typename Bits>
inline double sum_of(const Doubles* vectors, const Bits* x, const Bits* y, size_t n) {
  double parts[kParts];
  memcpy(parts, vectors, sizeof(parts));
  for (size_t i = 0; i < n; ++i) {
    parts[i] += static_cast<double>(x[i].value) * static_cast<double>(y[i].value);
  }
  for (size_t half = kParts / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) parts[i] += parts[i + half];
  }
  return parts[0];
}

template <typename E>
void dot(const void* a_bytes, const void* b_bytes, size_t n, double* out) {
  const auto* a = static_cast<const typename E::Bits*>(a_bytes);
  const auto* b = static_cast<const typename E::Bits*>(b_bytes);
  Doubles ab[kVectors] = {};
  Doubles aa[kVectors] = {};
  Doubles bb[kVectors] = {};
  for (; n >= kParts; n -= kParts, a += kParts, b += kParts) {
    for (size_t k = 0; k < kVectors; ++k) {
      const Doubles x = doubles_at(a + k * kPerVector);
      const Doubles y = doubles_at(b + k * kPerVector);
      ab[k] += x * y;
      aa[k] += x * x;
      bb[k] += y * y;
    }
  }
  out[0] = Float64::store(out[0] + sum_of(ab, a, b, n));
  out[1] = Float64::store(out[1] + sum_of(aa, a, a, n));
  out[2] = Float64::store(out[2] + sum_of(bb, b, b, n));
}

template <typename E>
void dot_narrow(const void* a_bytes, const void* b_bytes, size_t n, double* out) {
  const auto* a = static_cast<const typename E::Bits*>(a_bytes);
  const auto* b = static_cast<const typename E::Bits*>(b_bytes);
  for_each_chunk<float>(n, [=](size_t begin, size_t m) {
    Float32::Bits x[kFloats];
    Float32::Bits y[kFloats];
    convert_apart<Float32, E>(x, a + begin, m);
    convert_apart<Float32, E>(y, b + begin, m);
    dot<Float32>(x, y, m, out);
  });
}

template <typename E>
void combine(void* to_bytes, double ca, const void* a_bytes, double cb, const void* b_bytes,
             size_t n) {
  using Bits = typename E::Bits;
  using Value = typename E::Value;
  auto* to = static_cast<Bits*>(to_bytes);
  const auto* a = static_cast<const Bits*>(a_bytes);
  const auto* b = static_cast<const Bits*>(b_bytes);
  const Value fa = static_cast<Value>(ca);
  const Value fb = static_cast<Value>(cb);
  HVD_INDEPENDENT
  for (size_t i = 0; i < n; ++i) to[i].value = E::store(fa * a[i].value + fb * b[i].value);
}

template <typename E>
void combine_narrow(void* to_bytes, double ca, const void* a_bytes, double cb, const void* b_bytes,
                    size_t n) {
  auto* to = static_cast<typename E::Bits*>(to_bytes);
  const auto* a = static_cast<const typename E::Bits*>(a_bytes);
  const auto* b = static_cast<const typename E::Bits*>(b_bytes);
  for_each_chunk<float>(n, [=](size_t begin, size_t m) {
    Float32::Bits x[kFloats];
    Float32::Bits y[kFloats];
    convert_apart<Float32, E>(x, a + begin, m);
    convert_apart<Float32, E>(y, b + begin, m);
    combine<Float32>(x, ca, x, cb, y, m);
    convert_apart<E, Float32>(to + begin, x, m);
  });
}

}  // namespace
}  // namespace hvd
