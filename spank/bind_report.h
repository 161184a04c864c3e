// SPDX-License-Identifier: Apache-2.0
//
// What --horovod=report and hvd-info bind tell: each node says what it has done as JSON. Tables,
// warnings and drawings are made of that, wherever they are printed (libhvd/topo/places.h). Pure.
#pragma once

#include <string>
#include <vector>

#include "libhvd/base/json.h"
#include "libhvd/topo/places.h"
#include "spank/bind.h"

namespace hvd {

// {"node", "ranks": [{"rank", "local_rank", "gpus": [tokens], "gpu": {"token", "pci", "model"},
//  "numa", "cores", "cpus", "nics": [names], "distance"}], "warnings": [{"ranks", "text",
//  "remedy"}], "packages": [{"package", "cpus", "parts": [{"numa", "cpus", "cores", "gpus":
//  [{"pci", "model", "token"}], "nics": [{"name", "fabric"}]}]}], "elsewhere": {"gpus", "nics"},
//  "links": [{"gpus": [pci addresses], "mb_per_s"}]}
// [ranks]: the job's number of each local rank of the node, whether bound here or not.
// "links" is null where nothing is known of links between GPUs; else, of each group, every two GPUs
// are linked directly (NVLink, also across NVSwitches, or XGMI), with that many megabytes a second
// in one direction (null: unknown). Two GPUs that no group has both of are not linked.
Json report_of(const std::string& node, const std::vector<int>& ranks, const Topology& topology,
               const BindRequest& request, const Binding& binding);

}  // namespace hvd
