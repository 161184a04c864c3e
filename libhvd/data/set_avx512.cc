// SPDX-License-Identifier: Apache-2.0
//
// The kernels for AVX-512 F, BW and VL. The target begins below the headers of others: their inline
// functions must not be compiled for it.
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

#include "libhvd/data/loops.h"

namespace hvd {

const Kernels kAvx512 = set_of("avx512");

}  // namespace hvd

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
