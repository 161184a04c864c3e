// SPDX-License-Identifier: Apache-2.0
//
// The kernels of libhvd's GPU module as functions of the host, compiled from the same bodies: what
// a fake device runs, and what the kernels are tested by. Not in the product.
//
// Every kernel NAME is `extern "C" void hvd_gpu_host_NAME(grid, block, parameters)`: so many
// blocks, so many threads each, cuLaunchKernel's array of pointers to parameters. Blocks and
// threads run one after the other, the last first. No thread rule: a twin only touches the kernel's
// memory. Which that is `extern "C" void hvd_gpu_touch_NAME(grid, block, parameters, touch,
// cookie)` says of a launch beforehand.
#pragma once

#include <cstddef>

using KernelTwin = void (*)(unsigned grid_x, unsigned block_x, void** parameters);

// Told of each piece of memory that a launch reads or writes.
using KernelTouch = void (*)(void* cookie, const void* device, size_t bytes, int writes);

extern "C" {

// The names of all kernels; null ends them.
extern const char* const hvd_gpu_host_names[];
// Their twins, in the same order.
extern const KernelTwin hvd_gpu_host_twins[];
}
