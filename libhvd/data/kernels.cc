// SPDX-License-Identifier: Apache-2.0
//
// One body per loop, compiled once per instruction set: the bodies are always inlined into
// functions that carry a target attribute, and the compiler vectorises them there. A set is chosen
// at run time by asking the processor.
//
// The bodies go through memcpy-like loads of unaligned elements, so any pointer will do.
#include "libhvd/data/kernels.h"

#include <cstdint>
#include <cstring>

namespace hvd {
namespace {

#define HVD_INLINE inline __attribute__((always_inline))

// The iterations of the next loop do not depend on each other.
#if defined(__clang__)
#define HVD_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define HVD_AVX512 "avx512f,avx512bw,avx512vl"
#else
#define HVD_INDEPENDENT _Pragma("GCC ivdep")
#define HVD_AVX512 "avx512f,avx512bw,avx512vl,prefer-vector-width=512"
#endif

template <typename T>
struct __attribute__((packed, may_alias)) Unaligned {
  T value;
};

// Sources per pass: with more, the running sum stays in `to` between passes.
template <typename T, int kCount>
HVD_INLINE void sum_pass(Unaligned<T>* to, const Unaligned<T>* const* from, size_t n) {
  const Unaligned<T>* a = from[0];
  const Unaligned<T>* b = from[1];
  const Unaligned<T>* c = kCount > 2 ? from[2] : nullptr;
  const Unaligned<T>* d = kCount > 3 ? from[3] : nullptr;
  HVD_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    T sum = a[i].value + b[i].value;
    if (kCount > 2) sum += c[i].value;
    if (kCount > 3) sum += d[i].value;
    to[i].value = sum;
  }
}

// Chunked so that the running sum of many sources is still in the first-level cache.
template <typename T>
HVD_INLINE void sum_body(void* to_bytes, const void* const* sources, int count, size_t n) {
  constexpr size_t kChunk = 2048;
  for (size_t begin = 0; begin < n; begin += kChunk) {
    const size_t m = n - begin < kChunk ? n - begin : kChunk;
    auto* to = static_cast<Unaligned<T>*>(to_bytes) + begin;
    const Unaligned<T>* from[4] = {static_cast<const Unaligned<T>*>(sources[0]) + begin};
    if (count == 1 && to != from[0]) memcpy(to, from[0], m * sizeof(T));
    for (int next = 1; next < count;) {
      int k = 1;
      for (; k < 4 && next < count; ++k, ++next) {
        from[k] = static_cast<const Unaligned<T>*>(sources[next]) + begin;
      }
      if (k == 2) sum_pass<T, 2>(to, from, m);
      if (k == 3) sum_pass<T, 3>(to, from, m);
      if (k == 4) sum_pass<T, 4>(to, from, m);
      from[0] = to;
    }
  }
}

template <typename T>
HVD_INLINE void scale_float(void* to_bytes, const void* from_bytes, size_t n, Scale scale) {
  auto* to = static_cast<Unaligned<T>*>(to_bytes);
  auto* from = static_cast<const Unaligned<T>*>(from_bytes);
  const T factor = static_cast<T>(scale.multiply / static_cast<double>(scale.divide));
  HVD_INDEPENDENT
  for (size_t i = 0; i < n; ++i) to[i].value = from[i].value * factor;
}

// The value a double truncates to, the nearest end of T's range where it does not fit.
template <typename T>
HVD_INLINE T truncate(double x) {
  if (!(x == x)) return 0;
  if (x >= -static_cast<double>(INT64_MIN >> (64 - 8 * sizeof(T)))) {
    return static_cast<T>(INT64_MAX >> (64 - 8 * sizeof(T)));
  }
  if (x <= static_cast<double>(INT64_MIN >> (64 - 8 * sizeof(T)))) {
    return static_cast<T>(INT64_MIN >> (64 - 8 * sizeof(T)));
  }
  return static_cast<T>(x);
}

template <typename T>
HVD_INLINE void scale_integer(void* to_bytes, const void* from_bytes, size_t n, Scale scale) {
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

HVD_INLINE void sum_any(DataType type, void* to, const void* const* from, int count, size_t n) {
  switch (type) {
    // Integers wrap around, as unsigned arithmetic does.
    case DataType::kInt32:
      return sum_body<uint32_t>(to, from, count, n);
    case DataType::kInt64:
      return sum_body<uint64_t>(to, from, count, n);
    case DataType::kFloat32:
      return sum_body<float>(to, from, count, n);
    case DataType::kFloat64:
      return sum_body<double>(to, from, count, n);
  }
}

HVD_INLINE void scale_any(DataType type, void* to, const void* from, size_t n, Scale scale) {
  if (scale.identity()) {
    if (to != from && n > 0) memcpy(to, from, n * size_of(type));
    return;
  }
  switch (type) {
    case DataType::kInt32:
      return scale_integer<int32_t>(to, from, n, scale);
    case DataType::kInt64:
      return scale_integer<int64_t>(to, from, n, scale);
    case DataType::kFloat32:
      return scale_float<float>(to, from, n, scale);
    case DataType::kFloat64:
      return scale_float<double>(to, from, n, scale);
  }
}

// One instruction set: two functions and their table row.
#define HVD_KERNEL_SET(set, attribute)                                                           \
  attribute void sum_##set(DataType type, void* to, const void* const* from, int count,          \
                           size_t n) {                                                           \
    sum_any(type, to, from, count, n);                                                           \
  }                                                                                              \
  attribute void scale_##set(DataType type, void* to, const void* from, size_t n, Scale scale) { \
    scale_any(type, to, from, n, scale);                                                         \
  }                                                                                              \
  constexpr Kernels k_##set = {#set, sum_##set, scale_##set};

HVD_KERNEL_SET(portable, )
#if defined(__x86_64__)
HVD_KERNEL_SET(avx2, __attribute__((target("avx2"))))
HVD_KERNEL_SET(avx512, __attribute__((target(HVD_AVX512))))
#endif

struct Available {
  const Kernels* sets[3] = {&k_portable};
  int count = 1;
  Available() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) sets[count++] = &k_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl")) {
      sets[count++] = &k_avx512;
    }
#endif
  }
};

const Available& available() {
  static const Available found;
  return found;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& best = *available().sets[available().count - 1];
  return best;
}

const Kernels* const* all_kernels(int* count) {
  *count = available().count;
  return available().sets;
}

}  // namespace hvd
