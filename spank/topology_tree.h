// SPDX-License-Identifier: Apache-2.0
//
// hwloc's tree of objects without hwloc: what its library tells of this machine
// (topology_hwloc.cc) and what its XML tells of another (topology_xml.cc) become the same
// Topology. Values; pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spank/topology.h"

namespace hvd {

struct TreeObject {
  enum class Type {
    kOther,
    kPackage,
    kNumaNode,
    kCore,
    kPu,
    kBridge,
    kPciDevice,
    kNetwork,  // the rest are what the system calls a PCI device
    kVerbs,
    kOsDevice
  };

  int parent = -1;  // index in the tree; parents come before their children
  Type type = Type::kOther;
  int os_index = 0;
  uint64_t id = 0;  // of a bridge
  CpuSet cpus;
  struct Pci {
    unsigned domain = 0, bus = 0, device = 0, function = 0;
    int class_id = 0;  // 0x0302
    int vendor = 0;    // 0x10de
  } pci;
  std::string name;
  std::vector<std::pair<std::string, std::string>> infos;
};

using Tree = std::vector<TreeObject>;

Topology topology_of(const Tree& tree);

// The XML of hwloc 2 (lstopo FILE.xml), read without hwloc: its own reader crashes on files that
// are damaged (2.9.0). What is not needed is passed over. An error continues "the topology ... ".
constexpr size_t kMostXmlBytes = size_t{32} << 20;
Expected<Tree> parse_tree(std::string_view xml);

}  // namespace hvd
