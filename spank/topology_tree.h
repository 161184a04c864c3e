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

constexpr const char* kNvswitch = "NVSwitch";  // a subtype

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
  uint64_t id = 0;  // hwloc's gp_index; 0: none
  CpuSet cpus;
  struct Pci {
    unsigned domain = 0, bus = 0, device = 0, function = 0;
    int class_id = 0;  // 0x0302
    int vendor = 0;    // 0x10de
  } pci;
  bool nvswitch = false;  // by hwloc's subtype; what PCI tells may be missing
  std::string name;
  std::vector<std::pair<std::string, std::string>> infos;
};

// What hwloc calls distances: a number from each of some objects to each.
struct TreeMatrix {
  std::string name;
  std::vector<uint64_t> ids;    // TreeObject::id of each; the tree may have no such object
  std::vector<int64_t> values;  // as many as ids times ids: the row of the first object, and so on
};

// The matrices that tell of links between GPUs.
constexpr const char* kNvlinkBandwidth = "NVLinkBandwidth";
constexpr const char* kXgmiBandwidth = "XGMIBandwidth";
constexpr const char* kXgmiHops = "XGMIHops";
constexpr const char* kLinkMatrices[] = {kNvlinkBandwidth, kXgmiBandwidth, kXgmiHops};
constexpr size_t kMostLinked = 256;  // objects in one; a DGX-2 has 28

struct Tree {
  std::vector<TreeObject> objects;
  std::vector<TreeMatrix> matrices;  // those of kLinkMatrices that are there, once each
};

Topology topology_of(const Tree& tree);

// topology_links.cc: Gpu::links. [gpu_of]: by object of the tree, index in Topology::gpus or -1.
void read_links(const Tree& tree, const std::vector<int>& gpu_of, Topology* topology);

// The XML of hwloc 2 (lstopo FILE.xml), read without hwloc: its own reader crashes on files that
// are damaged (2.9.0). What is not needed is passed over. An error continues "the topology ... ".
constexpr size_t kMostXmlBytes = size_t{32} << 20;
Expected<Tree> parse_tree(std::string_view xml);

}  // namespace hvd
