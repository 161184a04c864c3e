// SPDX-License-Identifier: Apache-2.0
#include "spank/limits.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>

#include "libhvd/base/parse.h"
#include "libhvd/base/status.h"

namespace hvd {
namespace {

// 8 MB, what distributions have, is too little for the first buffer of a fast network's card.
constexpr int64_t kLockedBytes = int64_t{64} << 20;
constexpr int64_t kOpenFiles = 1024;
// What libhvd takes at most by default, and something for NCCL and data loaders.
constexpr int64_t kSharedBytesOfRank = int64_t{64} << 20;

int64_t limit_of(int resource) {
  rlimit limit;
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return Limits::kUnlimited;
  if (limit.rlim_cur >= static_cast<rlim_t>(Limits::kUnlimited)) return Limits::kUnlimited;
  return static_cast<int64_t>(limit.rlim_cur);
}

bool registers_memory(const Topology& topology) {
  return std::any_of(topology.nics.begin(), topology.nics.end(),
                     [](const Nic& nic) { return nic.fabric != Fabric::kEthernet; });
}

}  // namespace

Limits limits_here() {
  Limits limits;
  limits.locked_bytes = limit_of(RLIMIT_MEMLOCK);
  limits.open_files = limit_of(RLIMIT_NOFILE);
  struct statvfs shm;
  if (statvfs("/dev/shm", &shm) == 0) {
    limits.shared_bytes = static_cast<int64_t>(shm.f_bavail) * static_cast<int64_t>(shm.f_frsize);
  }
  return limits;
}

std::vector<BindWarning> limit_warnings(const Limits& limits, const Topology& topology, int ranks) {
  std::vector<BindWarning> warnings;
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(rank);
  if (limits.locked_bytes < kLockedBytes && registers_memory(topology)) {
    warnings.push_back({all,
                        format("may lock no more than %s of memory, which network cards need",
                               size_text(limits.locked_bytes).c_str()),
                        "ulimit -l unlimited before srun, or LimitMEMLOCK=infinity for slurmd"});
  }
  if (limits.open_files < kOpenFiles) {
    warnings.push_back(
        {{},
         format("may open no more than %lld files", static_cast<long long>(limits.open_files)),
         "ulimit -n 4096 before srun"});
  }
  const int64_t needed = kSharedBytesOfRank * ranks;
  if (limits.shared_bytes < needed) {
    warnings.push_back({all,
                        format("have %s free in /dev/shm, less than %s",
                               size_text(limits.shared_bytes).c_str(), size_text(needed).c_str()),
                        "remove what is left there, or give it more (a container: --shm-size)"});
  }
  return warnings;
}

}  // namespace hvd
