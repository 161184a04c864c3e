// SPDX-License-Identifier: Apache-2.0
//
// Finds the socket on which a rank answers (engine/inspector.h is the other side) and asks it.
// Reads /proc; changes nothing in the rank.
#pragma once

#include "libhvd/base/clock.h"
#include "libhvd/base/json.h"
#include "libhvd/base/status.h"

namespace hvd::info {

// What process `pid` says about itself, with the paths of its libraries. An error is a sentence
// that says why there is no answer, and what to do.
Expected<Json> ask_rank(int pid, Deadline deadline);

}  // namespace hvd::info
