// SPDX-License-Identifier: Apache-2.0
//
// Where the ranks of a job are, for people: made of what each node has told as JSON (report_of in
// spank/bind_report.h has the keys), by whatever version of the plugin. Pure.
#pragma once

#include <string>
#include <vector>

#include "libhvd/base/json.h"

namespace hvd {

// One row for each rank of these reports, in the order of ranks. With a line of titles.
std::string report_table(const std::vector<Json>& nodes);

// One line for each: "horovod: node0: ranks 0-3 share GPU 0; srun --gpus-per-node=4 ...".
std::vector<std::string> report_warnings(const std::vector<Json>& nodes);

// The node in plain characters: what is where, and which rank is beside it.
std::string report_drawing(const Json& node);

// Nodes that have told of their ranks one by one, as one each.
std::vector<Json> merged_nodes(const std::vector<Json>& reports);

// All of it: table, drawings, warnings.
std::string places_text(const std::vector<Json>& nodes);
Json places_json(const std::vector<Json>& nodes);  // {"nodes": [...]}

}  // namespace hvd
