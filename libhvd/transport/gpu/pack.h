// SPDX-License-Identifier: Apache-2.0
//
// Launches of the pack kernels: which kernel, with which parameters. Pure; it knows nothing of
// CUDA, and launches nothing. Packing and unpacking are the same to a kernel: parts of tensors move
// from one place to another, scaled, and cast to another floating type.
//
// Values are data/kernels.h's: a cast with a scale is convert() to float32 (float64 where one of
// both is that), scale(), convert(); the same type without a scale is copied bit by bit.
#pragma once

#include <cstddef>
#include <vector>

#include "libhvd/data/kernels.h"
#include "libhvd/data/types.h"
#include "libhvd/transport/gpu/pack_arguments.h"

namespace hvd {

// `count` elements from one address of the device to another, of any alignment. They do not overlap
// other moves of a job, and `to` is `from` at most if their elements have the same size.
struct PackMove {
  const void* from;
  void* to;
  size_t count;
};

struct PackJob {
  DataType from;
  DataType to;
  Scale scale;
};

// The kernel's name in the module; null where there is none: integers and bool are not cast.
const char* pack_kernel(const PackJob& job);

// The parameters of as many launches as it takes, one after the other; none for no element.
std::vector<PackArguments> pack_launches(const PackJob& job, const std::vector<PackMove>& moves);

// Blocks of kPackThreads threads for a launch, `most` at most: more would find nothing to do.
unsigned pack_blocks(const PackArguments& launch, unsigned most);

// The module to load, as cuModuleLoadData takes it; null in a build without nvcc.
const void* pack_module();

}  // namespace hvd
