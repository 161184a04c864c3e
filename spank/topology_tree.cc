// SPDX-License-Identifier: Apache-2.0
#include "spank/topology_tree.h"

#include <algorithm>

namespace hvd {
namespace {

using Type = TreeObject::Type;

// Vendors and classes of PCI.
constexpr int kNvidia = 0x10de;
constexpr int kAmd = 0x1002;
constexpr int kIntel = 0x8086;
constexpr int kCray = 0x17db;
constexpr int kDisplay = 0x03;
constexpr int kAccelerator = 0x12;
constexpr int kNetworkClass = 0x02;
constexpr int kVga = 0x0300;
constexpr int kInfiniBand = 0x0207;
constexpr int kFabric = 0x0208;

const std::string& info(const TreeObject& object, std::string_view name) {
  static const std::string none;
  for (const auto& [key, value] : object.infos) {
    if (key == name) return value;
  }
  return none;
}

// The first port that is up; 1 if it is not known, 0 if none is.
int active_port(const TreeObject& verbs) {
  constexpr std::string_view kActive = "4";
  bool known = false;
  for (int port = 1; port <= 2; ++port) {
    const std::string& state = info(verbs, format("Port%dState", port));
    if (state == kActive) return port;
    known = known || !state.empty();
  }
  return known ? 0 : 1;
}

class Reader {
 public:
  explicit Reader(const Tree& tree)
      : tree_(tree),
        objects_(tree.objects),
        devices_of_(objects_.size()),
        gpu_of_(objects_.size(), -1) {
    for (const TreeObject& object : objects_) {
      if (object.parent < 0 || object.type < Type::kNetwork) continue;
      devices_of_[static_cast<size_t>(object.parent)].push_back(&object);
    }
  }

  Topology read() {
    for (size_t i = 0; i < objects_.size(); ++i) take(i);
    // A virtual machine may not tell its cores.
    if (topology_.cores.empty()) topology_.cores = std::move(loose_cpus_);
    read_links(tree_, gpu_of_, &topology_);
    finish_topology(&topology_);
    return std::move(topology_);
  }

 private:
  void take(size_t index) {
    const TreeObject& object = objects_[index];
    if (object.type == Type::kPciDevice) return take_pci(index);
    if (object.cpus.empty()) return;
    switch (object.type) {
      case Type::kPackage:
        topology_.packages.push_back({object.os_index, object.cpus});
        break;
      case Type::kNumaNode:
        if (!has_numa_of(object.cpus)) topology_.numas.push_back({object.os_index, object.cpus});
        break;
      case Type::kCore:
        topology_.cores.push_back({object.cpus});
        break;
      case Type::kPu:
        loose_cpus_.push_back({object.cpus});
        break;
      default:
        break;
    }
  }

  // Memory of two kinds (DRAM and HBM) is two NUMA nodes of the same CPUs.
  bool has_numa_of(const CpuSet& cpus) const {
    return std::any_of(topology_.numas.begin(), topology_.numas.end(),
                       [&](const NumaNode& numa) { return numa.cpus == cpus; });
  }

  void take_pci(size_t index) {
    const auto& pci = objects_[index].pci;
    const int kind = pci.class_id >> 8;
    if (kind == kDisplay || kind == kAccelerator) take_gpu(index);
    if (kind == kNetworkClass) take_nic(index);
  }

  Place place_of(size_t index) const {
    const auto& pci = objects_[index].pci;
    Place place;
    place.pci = format("%04x:%02x:%02x.%01x", pci.domain, pci.bus, pci.device, pci.function);
    for (int at = objects_[index].parent; at >= 0; at = objects_[static_cast<size_t>(at)].parent) {
      const TreeObject& above = objects_[static_cast<size_t>(at)];
      if (above.type == Type::kBridge) place.bridges.push_back(above.id);
      if (above.cpus.empty()) continue;
      place.cpus = above.cpus;
      break;
    }
    std::reverse(place.bridges.begin(), place.bridges.end());
    return place;
  }

  void take_gpu(size_t index) {
    const TreeObject& object = objects_[index];
    Gpu gpu;
    if (object.pci.vendor == kNvidia) {
      gpu.vendor = Vendor::kNvidia;
    } else if (object.pci.vendor == kAmd) {
      gpu.vendor = Vendor::kAmd;
    } else if (object.pci.vendor == kIntel &&
               !(object.pci.class_id == kVga && object.pci.bus == 0)) {
      gpu.vendor = Vendor::kIntel;  // one on bus 0 draws the console
    } else {
      return;
    }
    gpu.place = place_of(index);
    for (const TreeObject* device : devices_of_[index]) {
      gpu.devices.push_back(device->name);
      if (gpu.model.empty()) gpu.model = info(*device, "GPUModel");
      if (gpu.uuid.empty()) gpu.uuid = info(*device, "NVIDIAUUID");
    }
    if (gpu.model.empty()) gpu.model = info(object, "PCIDevice");
    gpu_of_[index] = static_cast<int>(topology_.gpus.size());
    topology_.gpus.push_back(std::move(gpu));
  }

  // Only what has a PCI device: bridges, bonds and tunnels are no hardware.
  void take_nic(size_t index) {
    const TreeObject& object = objects_[index];
    Nic nic;
    for (const TreeObject* device : devices_of_[index]) {
      if (device->type == Type::kNetwork && nic.interface.empty()) nic.interface = device->name;
      if (device->type != Type::kVerbs || !nic.device.empty()) continue;
      nic.device = device->name;
      nic.port = active_port(*device);
    }
    if (nic.name().empty() || nic.port == 0) return;
    if (object.pci.vendor == kCray) {
      nic.fabric = Fabric::kSlingshot;
    } else if (object.pci.class_id == kInfiniBand) {
      nic.fabric = Fabric::kInfiniBand;
    } else if (object.pci.class_id == kFabric) {
      nic.fabric = Fabric::kOmniPath;
    } else {
      nic.fabric = nic.device.empty() ? Fabric::kEthernet : Fabric::kRoce;
    }
    nic.place = place_of(index);
    topology_.nics.push_back(std::move(nic));
  }

  const Tree& tree_;
  const std::vector<TreeObject>& objects_;
  std::vector<std::vector<const TreeObject*>> devices_of_;
  std::vector<int> gpu_of_;
  Topology topology_;
  std::vector<Core> loose_cpus_;
};

}  // namespace

Topology topology_of(const Tree& tree) { return Reader(tree).read(); }

}  // namespace hvd
