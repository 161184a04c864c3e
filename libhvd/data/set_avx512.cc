// SPDX-License-Identifier: Apache-2.0
//
// The kernels for AVX-512 F, BW and VL. The target begins below the headers of others: their inline
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
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl"))), \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512vl,prefer-vector-width=512")
#endif

namespace hvd {
namespace {

// See half_lanes.h.
struct HalfLanes {
  using Vector = __m512;
  static constexpr size_t kCount = 16;
  // g++ 12 warns about its own undefined value in the forms without a mask (its bug 105593).
  static constexpr __mmask16 kAll = 0xffff;
  static Vector widen(const void* from) {
    return _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(static_cast<const __m256i*>(from)));
  }
  static void narrow(void* to, Vector x) {
    _mm256_storeu_si256(static_cast<__m256i*>(to),
                        _mm512_maskz_cvtps_ph(kAll, x, _MM_FROUND_TO_NEAREST_INT));
  }
  static Vector load(const void* from) { return _mm512_loadu_ps(from); }
  static void store(void* to, Vector x) { _mm512_storeu_ps(to, x); }
  static Vector one_nan(Vector x) {
    return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q),
                              _mm512_set1_ps(__builtin_nanf("")));
  }
};

}  // namespace
}  // namespace hvd

#define HVD_HALF_LANES
#define HVD_VECTOR_BYTES 64
#include "libhvd/data/table.h"

namespace hvd {

const Kernels kAvx512 = set_of("avx512");

}  // namespace hvd

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
