// SPDX-License-Identifier: Apache-2.0
//
// What a rank costs that has nothing to do: CPU time of all its threads while the library is up
// and nobody calls it, and of rank 0 while it waits for a barrier that the others join late.
#pragma once

#include <vector>

#include "libhvd/base/status.h"
#include "libhvd/tools/perf/options.h"

namespace hvd::perf {

struct IdleRow {
  int rank = 0;
  bool waiting = false;  // in hvd_wait, rather than out of the library
  double percent = 0;    // of one core
};

// All ranks together; all get the same rows. Takes twice options.idle_ns (once with one rank: it
// has nobody to wait for).
Expected<std::vector<IdleRow>> measure_idle(const Options& options);

}  // namespace hvd::perf
