// SPDX-License-Identifier: Apache-2.0
//
// What may be asked of a version of NCCL: known bugs, and since when something is there. Pure.
#pragma once

#include <string>
#include <vector>

#include "libhvd/base/status.h"

namespace hvd {

struct NcclPolicy {
  Status usable;
  bool nonblocking = true;            // communicators may be made without blocking
  bool split = true;                  // a communicator may be split
  bool windows = true;                // memory may be registered as a symmetric window
  bool abort_waits_for_all = false;   // ncclCommAbort ends when every rank has called it
  bool same_nvls_everywhere = false;  // ranks must agree whether NCCL_NVLS_ENABLE is on
  std::vector<std::string> remarks;   // sentences for people, each about one of the above
};

// `version` as ncclGetVersion gives it.
NcclPolicy nccl_policy(int version);

// As people write them.
std::string cuda_version_text(int number);  // 12040: "12.4"
std::string nccl_version_text(int number);  // 22105: "2.21.5", 2804: "2.8.4"

}  // namespace hvd
