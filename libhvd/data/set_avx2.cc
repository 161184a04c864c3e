// SPDX-License-Identifier: Apache-2.0
//
// The kernels for AVX2 and F16C. The target begins below the headers of others: their inline
// functions must not be compiled for it.
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

#include "libhvd/data/loops.h"

namespace hvd {

const Kernels kAvx2 = set_of("avx2");

}  // namespace hvd

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
