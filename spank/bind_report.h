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
//  [{"pci", "model", "token"}], "nics": [{"name", "fabric"}]}]}], "elsewhere": {"gpus", "nics"}}
// [ranks]: the job's number of each local rank of the node, whether bound here or not.
Json report_of(const std::string& node, const std::vector<int>& ranks, const Topology& topology,
               const BindRequest& request, const Binding& binding);

}  // namespace hvd
