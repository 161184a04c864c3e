// SPDX-License-Identifier: Apache-2.0
//
// A rank is one process at a time: it holds an abstract unix socket whose name follows from the
// rank, so that a second one of the same node finds it taken whatever its environment says (a
// copy of the environment from before hvd_init does not have kProcessVariable). It says nothing
// across network namespaces; there the variable is all there is.
#pragma once

#include <string>

#include "libhvd/base/fd.h"
#include "libhvd/base/settings.h"
#include "libhvd/base/status.h"

namespace hvd {

// What tells this rank from those of all other jobs of the machine.
std::string rank_identity(const Getenv& get);

// Held until it is closed. An empty descriptor where the name cannot be had for another reason
// than a second process of the rank; kState, as check_process_mark says it, for that.
Expected<Fd> claim_rank(const std::string& identity);

}  // namespace hvd
