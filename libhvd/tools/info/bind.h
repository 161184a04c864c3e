// SPDX-License-Identifier: Apache-2.0
//
// hvd-info bind: what the ranks of a job would get on a node, without a job. The same code as the
// plugin's decides. Reads a topology; changes nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libhvd/base/json.h"
#include "libhvd/base/status.h"
#include "spank/bind.h"

namespace hvd::info {

struct BindOptions {
  bool help = false;
  bool json = false;
  TopologySource topology;  // this machine, unless --topology names a file
  int tasks = 1;
  std::optional<std::string> gpus;  // none: all of the topology
  std::optional<CpuSet> cpus;       // none: all of the topology
  GpuChoice gpu;
  CpuPolicy cpu = CpuPolicy::kAuto;
  NicPolicy nic = NicPolicy::kAuto;
};

// [arguments]: what follows "hvd-info bind". An error is a sentence with the way out.
Expected<BindOptions> parse_bind_options(const std::vector<std::string_view>& arguments);

std::string bind_usage();

// "node" of "dir/node.xml"; this machine is `host`.
std::string name_of_node(const TopologySource& source, const std::string& host);

// What would be done, as report_of has it (spank/bind_report.h); each rank also has its
// "environment". `node` is the name that is printed.
Expected<Json> preview(const BindOptions& options, const std::string& node);

// For people: table, variables, warnings, drawing.
std::string text_of_preview(const Json& report);

}  // namespace hvd::info
