// SPDX-License-Identifier: Apache-2.0
//
// What hvd-info says about the libraries of GPUs.
#pragma once

#include "libhvd/base/json.h"
#include "libhvd/transport/gpu/gpu_libraries.h"

namespace hvd::info {

// {"cuda": {"version", "path", "usable", "reason"}, "nccl": the same and {"enabled", "remarks"}}.
// Without CUDA there is no NCCL to speak of: null.
Json gpu_json(const CudaLibrary& cuda, const NcclLibrary& nccl);

}  // namespace hvd::info
