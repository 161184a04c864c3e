// SPDX-License-Identifier: Apache-2.0
//
// What a node is made of, as far as binding needs it: packages, NUMA nodes, cores, GPUs, NICs, and
// how far they are from each other. Plain data: whoever binds or reports does not know hwloc.
// read_topology makes it; tests make their own. The lists are in the order that
// finish_topology gives them, so that the same node looks the same to every task.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libhvd/base/status.h"
#include "spank/cpu_set.h"

namespace hvd {

struct Package {
  int os_index = 0;
  CpuSet cpus;
};

struct NumaNode {  // one with CPUs: memory alone (of a GPU, say) is no place to run
  int os_index = 0;
  CpuSet cpus;
};

struct Core {
  CpuSet cpus;       // its hardware threads
  int numa = -1;     // index in Topology::numas, -1: unknown
  int package = -1;  // index in Topology::packages, -1: unknown
};

// Where a PCI device is attached.
struct Place {
  std::string pci;  // "0000:c1:00.0"
  CpuSet cpus;      // those nearest to it: of an L3 cache, a NUMA node, a package, or the machine
  // The bridges and switches above it, the host bridge first; numbers mean nothing but identity.
  std::vector<uint64_t> bridges;
  int numa = -1;     // index of the NUMA node that all of `cpus` belong to, -1: of several
  int package = -1;  // the same of packages
};

enum class Vendor { kNvidia, kAmd, kIntel };
const char* vendor_text(Vendor vendor);  // "NVIDIA"

// A way from one GPU to another that is no bus of the processors: NVLink, also across NVSwitches,
// or XGMI. Both ends have it.
struct GpuLink {
  int to = -1;           // index in Topology::gpus
  int64_t mb_per_s = 0;  // in one direction, as hwloc has it; 0: unknown
};

struct Gpu {
  Vendor vendor = Vendor::kNvidia;
  Place place;
  std::string model;                 // "" if unknown
  std::string uuid;                  // "GPU-…" of NVIDIA's; "" if unknown
  std::vector<std::string> devices;  // as hwloc calls it: "nvml0", "rsmi4", "card1"
  // To whom it is linked, in order; nothing if that is unknown.
  std::optional<std::vector<GpuLink>> links;
};

// In order of preference for the tensors' traffic.
enum class Fabric { kInfiniBand, kSlingshot, kOmniPath, kRoce, kEthernet };
const char* fabric_text(Fabric fabric);  // "InfiniBand"

struct Nic {
  Fabric fabric = Fabric::kEthernet;
  Place place;
  std::string device;     // "mlx5_0"; "" if it has no verbs
  int port = 1;           // of the device: the first that is up
  std::string interface;  // "ib0"; "" if it has none
  const std::string& name() const { return device.empty() ? interface : device; }
};

struct Topology {
  std::vector<Package> packages;
  std::vector<NumaNode> numas;
  std::vector<Core> cores;
  std::vector<Gpu> gpus;  // in PCI order: Slurm's GPU i is gpus[i]
  std::vector<Nic> nics;  // in PCI order

  CpuSet cpus() const;
};

// Sorts the lists and fills in the indices of NUMA nodes and packages. Links follow their GPUs.
void finish_topology(Topology* topology);

// The link between two GPUs; nullptr if there is none, or it is unknown.
const GpuLink* link_of(const Topology& topology, int gpu, int other);

// Hops between a device and a CPU: 0 if nothing is nearer, 1 in the same NUMA node, 2 in the same
// package, 3 elsewhere.
constexpr int kMostHops = 3;
int hops(const Topology& topology, const Place& place, int cpu);

// The mean of the hops to these CPUs, in thousandths; 0 if there are none.
int64_t distance(const Topology& topology, const Place& place, const CpuSet& cpus);

// Between devices: below 100 behind the same host bridge (the bridges on the way), else 100 times
// 1: same nearest CPUs, 2: same NUMA node, 3: same package, 4: elsewhere.
int64_t distance(const Place& a, const Place& b);

struct TopologySource {
  enum class Kind { kMachine, kFile, kXml };
  Kind kind = Kind::kMachine;
  std::string text;  // the file's path, or XML

  static TopologySource machine() { return {}; }
  static TopologySource file(std::string path) { return {Kind::kFile, std::move(path)}; }
  static TopologySource xml(std::string text) { return {Kind::kXml, std::move(text)}; }
};

// The machine is asked through hwloc's library, which is opened here (topology_hwloc.h); XML of
// hwloc 2, of at most 32 MB, is read without it. What cannot be read is an error.
Expected<Topology> read_topology(const TopologySource& source);

}  // namespace hvd
