// SPDX-License-Identifier: Apache-2.0
//
// What --horovod=report and hvd-info bind print. Each node says what it has done as JSON
// (report_of); tables, warnings and drawings are made of that, wherever they are printed and
// whatever version sent it. Pure.
#pragma once

#include <string>
#include <vector>

#include "libhvd/base/json.h"
#include "spank/bind.h"

namespace hvd {

// {"node", "ranks": [{"rank", "local_rank", "gpus": [tokens], "gpu": {"token", "pci", "model"},
//  "numa", "cores", "cpus", "nics": [names], "distance"}], "warnings": [{"ranks", "text",
//  "remedy"}], "packages": [{"package", "cpus", "parts": [{"numa", "cpus", "cores", "gpus":
//  [{"pci", "model", "token"}], "nics": [{"name", "fabric"}]}]}], "elsewhere": {"gpus", "nics"}}
// [ranks]: the job's number of each local rank.
Json report_of(const std::string& node, const std::vector<int>& ranks, const Topology& topology,
               const BindRequest& request, const Binding& binding);

// One row for each rank of these reports, in the order of ranks. With a line of titles.
std::string report_table(const std::vector<Json>& nodes);

// One line for each: "horovod: node0: ranks 0-3 share GPU 0; srun --gpus-per-node=4 ...".
std::vector<std::string> report_warnings(const std::vector<Json>& nodes);

// The node in plain characters: what is where, and which rank is beside it.
std::string report_drawing(const Json& node);

}  // namespace hvd
