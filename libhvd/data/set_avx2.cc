// SPDX-License-Identifier: Apache-2.0
//
// The kernels for AVX2 and F16C. The target begins below the headers of others: their inline
// functions must not be compiled for it.
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "libhvd/data/sets.h"

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,f16c")
#endif

namespace hvd {
namespace {

// See half_lanes.h.
struct HalfLanes {
  using Vector = __m256;
  static constexpr size_t kCount = 8;
  static Vector widen(const void* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(from)));
  }
  static void narrow(void* to, Vector x) {
    _mm_storeu_si128(static_cast<__m128i*>(to), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
  static Vector load(const void* from) { return _mm256_loadu_ps(static_cast<const float*>(from)); }
  static void store(void* to, Vector x) { _mm256_storeu_ps(static_cast<float*>(to), x); }
  static Vector one_nan(Vector x) {
    return _mm256_blendv_ps(x, _mm256_set1_ps(__builtin_nanf("")),
                            _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  }
};

}  // namespace
}  // namespace hvd

#define HVD_HALF_LANES
#define HVD_VECTOR_BYTES 32
#include "libhvd/data/table.h"

namespace hvd {

const Kernels kAvx2 = set_of("avx2");

}  // namespace hvd

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
