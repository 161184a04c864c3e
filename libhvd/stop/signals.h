// SPDX-License-Identifier: Apache-2.0
//
// The signals by which Slurm tells a job that its end is near: SIGUSR1, which users ask for
// (--signal=USR1@120), and SIGTERM, which comes before SIGKILL at a time limit, scancel and
// requeue. Handlers are the process's own, so this is the one part besides c_api.cc that has
// globals. Not installed by hvd_init: who never asks whether to stop dies by them as ever.
#pragma once

#include "libhvd/base/status.h"

namespace hvd {

// Puts the handlers in place; once in a process, later calls do nothing. A handler that the program
// has is called after ours; one that it installs later replaces ours. Any thread.
Status watch_stop_signals();

// The last of these signals that has come to this process, 0 for none. Any thread.
int stop_signal();

}  // namespace hvd
