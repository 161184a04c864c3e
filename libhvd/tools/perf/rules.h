// SPDX-License-Identifier: Apache-2.0
//
// What goes together on hvd-perf's command line, and what follows from what was not said. Pure.
#pragma once

#include "libhvd/tools/perf/options.h"

namespace hvd::perf {

// Fills in what was not given; an error is a sentence with the way out.
Status settle(Options& options, bool op_given);

}  // namespace hvd::perf
