// SPDX-License-Identifier: Apache-2.0
//
// The instruction sets the kernels are compiled for; kernels.cc chooses among them at run time.
#pragma once

#include "libhvd/data/kernels.h"

namespace hvd {

extern const Kernels kPortable;  // what the compiler's target has: SSE2; NEON on aarch64
#if defined(__x86_64__)
extern const Kernels kAvx2;    // avx2, f16c
extern const Kernels kAvx512;  // avx512f, avx512bw, avx512vl
#endif

}  // namespace hvd
