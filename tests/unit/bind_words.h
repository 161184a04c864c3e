// SPDX-License-Identifier: Apache-2.0
//
// What tests of binding say in one word: nodes made by hand, the topologies of real nodes, and an
// answer as a line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "spank/bind.h"

namespace hvd::test {

// A node of equal packages. NUMA nodes and CPUs are numbered as Linux does on most machines: first
// thread of every core first.
struct NodeSpec {
  int packages = 1;
  int numas = 1;                // in a package
  int cores = 4;                // in a NUMA node
  int threads = 1;              // of a core
  std::vector<int> gpus;        // the NUMA node of each, in PCI order; kAnywhere: not known
  std::vector<int> nics;        // the same; InfiniBand
  std::vector<int> cores_of{};  // uneven: cores of each NUMA node
  Vendor vendor = Vendor::kNvidia;
};
constexpr int kAnywhere = -1;

Topology node_of(const NodeSpec& spec);

// "0-1 2-3": links between these GPUs, and it is known that there are no others.
void link_gpus(Topology* topology, const std::string& pairs, int64_t mb_per_s = 0);

// "0,1,GPU-x": in the topology as find_gpus finds them.
BindRequest request_of(const Topology& topology, int ranks, const std::string& gpus,
                       const std::string& cpus = "", const std::string& policy = "auto");

// "0-1;2-3": a set for each rank.
std::vector<CpuSet> masks_of(const std::string& text);

// By rank, "its GPU's token, visible list or * if all have the same : CPUs": "0* 0-1; 1* 2-3".
std::string shown(const BindRequest& request, const Binding& binding);

// The content of a file of $HVD_TOPOLOGIES, or of shared/topologies beside the checkout; nothing if
// it is not there.
std::optional<std::string> real_node(const std::string& name);

}  // namespace hvd::test
