// SPDX-License-Identifier: Apache-2.0
//
// Limits of a task that will hurt a training job, found before it begins. Pure, but for the one
// function that asks the system.
#pragma once

#include <cstdint>
#include <vector>

#include "spank/bind.h"

namespace hvd {

struct Limits {
  static constexpr int64_t kUnlimited = INT64_MAX;
  int64_t locked_bytes = kUnlimited;  // RLIMIT_MEMLOCK
  int64_t open_files = kUnlimited;    // RLIMIT_NOFILE
  int64_t shared_bytes = kUnlimited;  // free in /dev/shm
};

Limits limits_here();  // what cannot be found out counts as unlimited

// For the report, of a node with so many ranks.
std::vector<BindWarning> limit_warnings(const Limits& limits, const Topology& topology, int ranks);

}  // namespace hvd
