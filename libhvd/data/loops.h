// SPDX-License-Identifier: Apache-2.0
//
// The loops of the kernels: reductions, conversions, scaling. Like all that table.h includes it is
// compiled once per instruction set.
//
// The loops are simple enough for the compiler to vectorise; only float16 has loops of its own
// (half_lanes.h) where the processor converts it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "libhvd/data/elements.h"
#include "libhvd/data/kernels.h"

namespace hvd {
namespace {

// The iterations of the next loop do not depend on each other.
#if defined(__clang__)
#define HVD_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define HVD_INDEPENDENT _Pragma("GCC ivdep")
#endif

inline void copy(void* to, const void* from, size_t bytes) {
  if (to != from && bytes > 0) memcpy(to, from, bytes);
}

// What is computed on the way stays in pieces of this size, in the first-level cache.
constexpr size_t kChunkBytes = 8192;
constexpr size_t kFloats = kChunkBytes / sizeof(float);

template <typename T, typename Fn>
inline void for_each_chunk(size_t n, Fn fn) {
  constexpr size_t kChunk = kChunkBytes / sizeof(T);
  for (size_t begin = 0; begin < n; begin += kChunk) {
    fn(begin, n - begin < kChunk ? n - begin : kChunk);
  }
}

// ---- Reductions ----

// What a pass begins with, and what it leaves: elements, or running values.
template <typename E>
inline auto load(const typename E::Bits& from) {
  return E::load(from.value);
}
template <typename E, typename T>
inline T load(const Wide<T>& from) {
  return from.value;
}
template <typename E, typename T>
inline void store(typename E::Bits* to, T value) {
  to->value = E::store(value);
}
template <typename E, typename T>
inline void store(Wide<T>* to, T value) {
  to->value = value;
}

// One pass: `first`, then kRest (1 to 3) other sources.
template <typename E, typename Op, int kRest>
struct Pass {
  template <typename To, typename First>
  static void run(To* to, const First* first, const typename E::Bits* const* rest, size_t n) {
    const auto* b = rest[0];
    const auto* c = kRest > 1 ? rest[1] : nullptr;
    const auto* d = kRest > 2 ? rest[2] : nullptr;
    HVD_INDEPENDENT
    for (size_t i = 0; i < n; ++i) {
      auto value = Op::apply(load<E>(first[i]), load<E>(b[i]));
      if (kRest > 1) value = Op::apply(value, load<E>(c[i]));
      if (kRest > 2) value = Op::apply(value, load<E>(d[i]));
      store<E>(&to[i], value);
    }
  }
};

template <typename E, typename Op, typename First>
void last_pass(void* to_bytes, const First* first, const typename E::Bits* const* rest, int count,
               size_t n) {
  auto* to = static_cast<typename E::Bits*>(to_bytes);
  if (count == 1) Pass<E, Op, 1>::run(to, first, rest, n);
  if (count == 2) Pass<E, Op, 2>::run(to, first, rest, n);
  if (count == 3) Pass<E, Op, 3>::run(to, first, rest, n);
}

// More than four sources: four make a running value, which takes three more at a time.
template <typename E, typename Op>
void reduce_many(void* to, const void* const* sources, int count, size_t n) {
  using Bits = typename E::Bits;
  using Running = typename E::Running;
  for_each_chunk<Running>(n, [=](size_t begin, size_t m) {
    alignas(64) Running running[kChunkBytes / sizeof(Running)];
    const Bits* rest[3];
    const auto take = [&](int next, int k) {
      for (int i = 0; i < k; ++i) rest[i] = static_cast<const Bits*>(sources[next + i]) + begin;
    };
    take(1, 3);
    Pass<E, Op, 3>::run(running, static_cast<const Bits*>(sources[0]) + begin, rest, m);
    int next = 4;
    for (; count - next > 3; next += 3) {
      take(next, 3);
      Pass<E, Op, 3>::run(running, running, rest, m);
    }
    take(next, count - next);
    last_pass<E, Op>(static_cast<Bits*>(to) + begin, running, rest, count - next, m);
  });
}

template <typename E, typename Op>
void reduce(void* to, const void* const* sources, int count, size_t n) {
  using Bits = typename E::Bits;
  if (count > 4) return reduce_many<E, Op>(to, sources, count, n);
  const Bits* rest[3] = {};
  for (int i = 1; i < count; ++i) rest[i - 1] = static_cast<const Bits*>(sources[i]);
  last_pass<E, Op>(to, static_cast<const Bits*>(sources[0]), rest, count - 1, n);
}

// ---- Conversions ----

// Of elements that do not overlap.
template <typename To, typename From>
void convert_apart(typename To::Bits* to, const typename From::Bits* from, size_t n) {
  HVD_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    to[i].value = To::store(static_cast<typename To::Value>(From::load(from[i].value)));
  }
}

// In place elements shrink or keep their size: what is written has been read by then, if it is
// written chunk by chunk.
template <typename To, typename From>
void convert(void* to_bytes, const void* from_bytes, size_t n) {
  using Bits = typename To::Bits;
  auto* to = static_cast<Bits*>(to_bytes);
  const auto* from = static_cast<const typename From::Bits*>(from_bytes);
  if (to_bytes != from_bytes) return convert_apart<To, From>(to, from, n);
  for_each_chunk<Bits>(n, [=](size_t begin, size_t m) {
    Bits chunk[kChunkBytes / sizeof(Bits)];
    convert_apart<To, From>(chunk, from + begin, m);
    memcpy(to + begin, chunk, m * sizeof(Bits));
  });
}

// With float32 between them: Step is how From becomes float32.
template <typename To, typename From, typename Step = Float32>
void convert_through(void* to_bytes, const void* from_bytes, size_t n) {
  auto* to = static_cast<typename To::Bits*>(to_bytes);
  const auto* from = static_cast<const typename From::Bits*>(from_bytes);
  for_each_chunk<float>(n, [=](size_t begin, size_t m) {
    Float32::Bits chunk[kFloats];
    convert_apart<Step, From>(chunk, from + begin, m);
    convert_apart<To, Float32>(to + begin, chunk, m);
  });
}

// ---- Scale ----

template <typename E>
void scale_float(void* to_bytes, const void* from_bytes, size_t n, Scale scale) {
  using Bits = typename E::Bits;
  auto* to = static_cast<Bits*>(to_bytes);
  const auto* from = static_cast<const Bits*>(from_bytes);
  const auto factor =
      static_cast<typename E::Value>(scale.multiply / static_cast<double>(scale.divide));
  HVD_INDEPENDENT
  for (size_t i = 0; i < n; ++i) to[i].value = E::store(E::load(from[i].value) * factor);
}

template <typename E>
void scale_narrow(void* to_bytes, const void* from_bytes, size_t n, Scale scale) {
  auto* to = static_cast<typename E::Bits*>(to_bytes);
  const auto* from = static_cast<const typename E::Bits*>(from_bytes);
  for_each_chunk<float>(n, [=](size_t begin, size_t m) {
    Float32::Bits chunk[kFloats];
    convert_apart<Float32, E>(chunk, from + begin, m);
    scale_float<Float32>(chunk, chunk, m, scale);
    convert_apart<E, Float32>(to + begin, chunk, m);
  });
}

template <typename T>
void scale_integer(void* to_bytes, const void* from_bytes, size_t n, Scale scale) {
  auto* to = static_cast<Unaligned<T>*>(to_bytes);
  auto* from = static_cast<const Unaligned<T>*>(from_bytes);
  // Up to 32 bits the quotient of doubles truncates to the quotient of integers.
  if (sizeof(T) == 8 && scale.multiply == 1) {
    for (size_t i = 0; i < n; ++i) to[i].value = static_cast<T>(from[i].value / scale.divide);
    return;
  }
  const double divide = static_cast<double>(scale.divide);
  HVD_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    to[i].value = truncate<T>(static_cast<double>(from[i].value) * scale.multiply / divide);
  }
}

inline void scale_truth(void* to, const void* from, size_t n, Scale) { copy(to, from, n); }

}  // namespace
}  // namespace hvd
