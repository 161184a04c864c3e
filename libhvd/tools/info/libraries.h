// SPDX-License-Identifier: Apache-2.0
//
// The libraries that a rank on this machine would use: those that come with libhvd are loaded into
// this process already, those of GPUs are opened here as libhvd would open them.
#pragma once

#include <string>

#include "libhvd/base/json.h"

namespace hvd::info {

// [{"name", "version", "path"}] of libhvd, PMIx, MPI, CUDA and NCCL; null is "not found".
Json libraries_here();

// As people write them.
std::string cuda_version_text(int number);  // 12040: "12.4"
std::string nccl_version_text(int number);  // 22105: "2.21.5", 2804: "2.8.4"

}  // namespace hvd::info
