// SPDX-License-Identifier: Apache-2.0
//
// The kernels for what the compiler's target has: on aarch64 this is NEON.
#include "libhvd/data/loops.h"
#include "libhvd/data/sets.h"

namespace hvd {

#if defined(__aarch64__)
const Kernels kPortable = set_of("neon");
#else
const Kernels kPortable = set_of("portable");
#endif

}  // namespace hvd
