// SPDX-License-Identifier: Apache-2.0
//
// CUDA's driver and NCCL as this process can have them: opened when somebody asks, and not before.
// Nothing is initialised and no GPU is touched.
//
// Both are values whose functions may be called where `status` is fine. Where it is not, path and
// version are told as far as they are known.
#pragma once

#include <string>
#include <vector>

#include "libhvd/base/status.h"
#include "libhvd/transport/gpu/cuda_abi.h"
#include "libhvd/transport/gpu/nccl_abi.h"
#include "libhvd/transport/gpu/nccl_policy.h"
#include "libhvd/transport/gpu/shared_object.h"

namespace hvd {

struct CudaLibrary {
  Status status;
  std::string path;
  int version = 0;  // of the newest CUDA that the driver knows: 13000
  std::vector<std::string> missing;
  cuda::Functions call;
};

struct NcclLibrary {
  Status status;
  std::string path;
  int version = 0;  // 22809
  std::vector<std::string> missing;
  NcclPolicy policy;
  nccl::Functions call;

  // Of policy and functions both: "non-blocking", "split", "registered memory" ...
  std::vector<std::string> enabled() const;
};

LibrarySearch cuda_search();
// `chosen`: the setting nccl-lib.
LibrarySearch nccl_search(const std::string& chosen);

CudaLibrary open_cuda(const LibrarySearch& search);
NcclLibrary open_nccl(const LibrarySearch& search);

}  // namespace hvd
