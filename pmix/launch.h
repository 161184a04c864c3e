// SPDX-License-Identifier: Apache-2.0
//
// How was this process started, and may it believe what its environment says? Pure: the answer is
// made from variables and numbers. Environments are inherited by nested steps and children, so a
// variable counts only where it fits the others; a job must never come up as many jobs of one rank.
#pragma once

#include <string>

#include "libhvd/base/settings.h"
#include "libhvd/base/status.h"

namespace hvd {

struct Launch {
  bool pmix = false;        // PMIx's variables are for this process; else a job of one rank
  bool slurm_step = false;  // and the PMIx server is that of our own Slurm step
};

// kSystem if this is one of several processes that have no PMIx to find each other, or a task of a
// step with --horovod on a node without the plugin.
Expected<Launch> find_launch(const Getenv& get);

// In our own Slurm step: PMIx and Slurm must agree. kMismatch with all the numbers if they do not.
Status compare_with_slurm(const Getenv& get, int rank, int size);

// Left in the environment by the process that first connects to the launcher, for its children: a
// second client of the same rank would wait in PMIx for ever.
constexpr const char* kProcessVariable = "HOROVOD_INTERNAL_PROCESS";
std::string process_mark(const std::string& pmix_namespace, int rank, int pid);

// kState if kProcessVariable says that another process of this rank was here first.
Status check_process_mark(const Getenv& get, int pid);
// That error; `first`: the process that was here first, 0 if it cannot be seen.
Status second_process(int first);

}  // namespace hvd
