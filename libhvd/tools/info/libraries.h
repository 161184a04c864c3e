// SPDX-License-Identifier: Apache-2.0
//
// The libraries that a rank on this machine would use: those that come with libhvd are loaded into
// this process already, those of GPUs have been opened (gpu.h).
#pragma once

#include "libhvd/base/json.h"
#include "libhvd/transport/gpu/gpu_libraries.h"

namespace hvd::info {

// [{"name", "version", "path"}] of libhvd, PMIx, MPI, CUDA and NCCL; null is "not found".
Json libraries_here(const CudaLibrary& cuda, const NcclLibrary& nccl);

}  // namespace hvd::info
