// SPDX-License-Identifier: Apache-2.0
//
// One name out of Slurm's short form of a list of nodes, as SLURM_STEP_NODELIST has it:
// "gpu08,node[00-03,7]". Slurm's own functions for this differ between its releases. Pure.
#pragma once

#include <string>
#include <string_view>

#include "libhvd/base/status.h"

namespace hvd {

// The name at `index`, from 0, in the order of the list; names with several brackets count up in
// the last one first. kInvalid if the list does not parse, or has fewer names.
Expected<std::string> name_in_list(std::string_view list, int index);

}  // namespace hvd
