// SPDX-License-Identifier: Apache-2.0
//
// --horovod=env=torch: the variables by which torch.distributed's init_process_group("env://")
// finds the other ranks, as torchrun sets them. Nothing is asked of anybody: each task computes
// the same address and port from what Slurm has told all of them. Pure.
//
// Not set are torchrun's TORCHELASTIC_* and ROLE_*: they tell of an agent that is not there.
#pragma once

#include <string>
#include <string_view>

#include "libhvd/base/handoff.h"
#include "libhvd/base/settings.h"
#include "libhvd/topo/layout.h"

namespace hvd {

// For the task of `handoff` (its step, node and rank) on the node that Slurm calls `node_name`;
// `get` reads the task's environment. A MASTER_ADDR or MASTER_PORT that is there is the user's and
// is not in the result. An error says what Slurm did not tell, and the way out.
Expected<Variables> torch_variables(const Layout& layout, const Handoff& handoff,
                                    const std::string& node_name, const Getenv& get);

// For "JOB.STEP": in 20000 to 28191, below what Linux gives away by itself (32768 and up) and
// above what Slurm's documentation proposes for itself. Different for 61 steps each of 134
// successive jobs; any two further steps meet with a chance of 1 in 8192.
int port_of_step(std::string_view step);

}  // namespace hvd
