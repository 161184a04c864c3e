// SPDX-License-Identifier: Apache-2.0
//
// The kernels that libhvd brings along, by name (pack_body.h has what they do). Compiled to a
// fatbin that module.S embeds; no CUDA library is linked for them.
#include "libhvd/transport/gpu/pack_body.h"

#define HVD_KERNEL(name, From, To)                                          \
  extern "C" __global__ void __launch_bounds__(hvd::kPackThreads)           \
      name(const __grid_constant__ hvd::PackArguments arguments) {          \
    hvd::pack_body<hvd::From, hvd::To>(arguments, blockIdx.x, gridDim.x,    \
                                       hvd::Turn{threadIdx.x, blockDim.x}); \
  }

HVD_PACK_KERNELS(HVD_KERNEL)
