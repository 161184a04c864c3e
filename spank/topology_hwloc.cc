// SPDX-License-Identifier: Apache-2.0
//
// The only file that knows hwloc. The library is opened when the machine is asked about and not
// linked: most tasks have no GPU and must not pay for it, and a node without it loses binding and
// nothing else. What is loaded is read through hwloc's own structures, so that few functions are
// looked up; hwloc.h's inline functions would call others.
#include "spank/topology_hwloc.h"

#include "config.h"

#ifdef HVD_HAVE_HWLOC

#include <dlfcn.h>
#include <hwloc.h>

#include <algorithm>
#include <limits>
#include <memory>

namespace hvd {
namespace {

constexpr const char* kLibrary = "libhwloc.so.15";

struct Hwloc {
  decltype(&hwloc_get_api_version) get_api_version;
  decltype(&hwloc_topology_init) init;
  decltype(&hwloc_topology_destroy) destroy;
  decltype(&hwloc_topology_set_components) set_components;
  decltype(&hwloc_topology_set_flags) set_flags;
  decltype(&hwloc_topology_set_io_types_filter) set_io_types_filter;
  decltype(&hwloc_topology_load) load;
  decltype(&hwloc_get_obj_by_depth) get_obj_by_depth;
  decltype(&hwloc_bitmap_next) bitmap_next;
  // hwloc 2.0 lacks the first one: nothing is known of links then.
  int (*get_distances)(hwloc_topology_t, const char*, unsigned*, hwloc_distances_s**,
                       unsigned long);
  void (*release_distances)(hwloc_topology_t, hwloc_distances_s*);
};

template <typename Function>
bool look_up(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

Expected<Hwloc> open_hwloc() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return error(Code::kSystem, "hwloc cannot be opened (%s). Debian has it in libhwloc15",
                 dlerror());
  }
  Hwloc hwloc;
  const bool complete =
      look_up(library, "hwloc_get_api_version", &hwloc.get_api_version) &&
      look_up(library, "hwloc_topology_init", &hwloc.init) &&
      look_up(library, "hwloc_topology_destroy", &hwloc.destroy) &&
      look_up(library, "hwloc_topology_set_components", &hwloc.set_components) &&
      look_up(library, "hwloc_topology_set_flags", &hwloc.set_flags) &&
      look_up(library, "hwloc_topology_set_io_types_filter", &hwloc.set_io_types_filter) &&
      look_up(library, "hwloc_topology_load", &hwloc.load) &&
      look_up(library, "hwloc_get_obj_by_depth", &hwloc.get_obj_by_depth) &&
      look_up(library, "hwloc_bitmap_next", &hwloc.bitmap_next);
  if (!look_up(library, "hwloc_distances_get_by_name", &hwloc.get_distances) ||
      !look_up(library, "hwloc_distances_release", &hwloc.release_distances)) {
    hwloc.get_distances = nullptr;
  }
  // The structures are those of the header's major version.
  if (!complete || hwloc.get_api_version() >> 16 != HWLOC_API_VERSION >> 16) {
    return error(Code::kSystem, "%s is not of hwloc %d, which this was built with", kLibrary,
                 HWLOC_API_VERSION >> 16);
  }
  return hwloc;
}

class Copier {
 public:
  explicit Copier(const Hwloc& hwloc) : hwloc_(hwloc) {}

  Tree copy(hwloc_obj_t root) {
    visit(root, -1);
    return std::move(tree_);
  }

 private:
  void visit(hwloc_obj_t object, int parent) {
    tree_.objects.push_back(copy_of(*object));
    tree_.objects.back().parent = parent;
    const int index = static_cast<int>(tree_.objects.size()) - 1;
    for (hwloc_obj_t child :
         {object->first_child, object->memory_first_child, object->io_first_child}) {
      for (; child != nullptr; child = child->next_sibling) visit(child, index);
    }
  }

  TreeObject copy_of(const hwloc_obj& object) const {
    TreeObject copy;
    copy.type = type_of(object);
    copy.os_index = static_cast<int>(object.os_index);
    copy.id = object.gp_index;
    copy.cpus = cpus_of(object);
    if (object.name != nullptr) copy.name = object.name;
    copy.nvswitch = object.subtype != nullptr && std::string_view(object.subtype) == kNvswitch;
    if (object.type == HWLOC_OBJ_PCI_DEVICE) {
      const auto& pci = object.attr->pcidev;
      copy.pci = {pci.domain, pci.bus, pci.dev, pci.func, pci.class_id, pci.vendor_id};
    }
    for (unsigned i = 0; i < object.infos_count; ++i) {
      copy.infos.emplace_back(object.infos[i].name, object.infos[i].value);
    }
    return copy;
  }

  static TreeObject::Type type_of(const hwloc_obj& object) {
    using Type = TreeObject::Type;
    switch (object.type) {
      case HWLOC_OBJ_PACKAGE:
        return Type::kPackage;
      case HWLOC_OBJ_NUMANODE:
        return Type::kNumaNode;
      case HWLOC_OBJ_CORE:
        return Type::kCore;
      case HWLOC_OBJ_PU:
        return Type::kPu;
      case HWLOC_OBJ_BRIDGE:
        return Type::kBridge;
      case HWLOC_OBJ_PCI_DEVICE:
        return Type::kPciDevice;
      case HWLOC_OBJ_OS_DEVICE:
        break;
      default:
        return Type::kOther;
    }
    switch (object.attr->osdev.type) {
      case HWLOC_OBJ_OSDEV_NETWORK:
        return Type::kNetwork;
      case HWLOC_OBJ_OSDEV_OPENFABRICS:
        return Type::kVerbs;
      default:
        return Type::kOsDevice;
    }
  }

  CpuSet cpus_of(const hwloc_obj& object) const {
    CpuSet cpus;
    if (object.cpuset == nullptr) return cpus;
    for (int cpu = hwloc_.bitmap_next(object.cpuset, -1); cpu >= 0 && cpu < CpuSet::kMost;
         cpu = hwloc_.bitmap_next(object.cpuset, cpu)) {
      cpus.add(cpu);
    }
    return cpus;
  }

  const Hwloc& hwloc_;
  Tree tree_;
};

std::vector<TreeMatrix> matrices_of(const Hwloc& hwloc, hwloc_topology_t topology) {
  std::vector<TreeMatrix> matrices;
  if (hwloc.get_distances == nullptr) return matrices;
  for (const char* name : kLinkMatrices) {
    unsigned count = 1;
    hwloc_distances_s* found = nullptr;
    if (hwloc.get_distances(topology, name, &count, &found, 0) != 0 || found == nullptr) continue;
    const size_t size = found->nbobjs;
    if (size <= kMostLinked) {
      TreeMatrix matrix{name, {}, {}};
      for (size_t i = 0; i < size; ++i) {
        matrix.ids.push_back(found->objs[i] == nullptr ? 0 : found->objs[i]->gp_index);
      }
      constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
      for (size_t i = 0; i < size * size; ++i) {
        matrix.values.push_back(static_cast<int64_t>(std::min<uint64_t>(found->values[i], kMost)));
      }
      matrices.push_back(std::move(matrix));
    }
    hwloc.release_distances(topology, found);
  }
  return matrices;
}

}  // namespace

Expected<Tree> tree_of_machine() {
  const auto hwloc = open_hwloc();
  if (!hwloc.ok()) return hwloc.status();
  hwloc_topology_t raw = nullptr;
  if (hwloc->init(&raw) != 0) return error(Code::kSystem, "hwloc cannot be started");
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> owner(raw,
                                                                                 hwloc->destroy);
  // Those that would load a vendor's library, or ask an X server.
  for (const char* component : {"opencl", "cuda", "nvml", "rsmi", "levelzero", "gl"}) {
    hwloc->set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  }
  hwloc->set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  hwloc->set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc->load(raw) != 0) {
    return error(Code::kSystem, "hwloc finds no topology of this machine");
  }
  const hwloc_obj_t root = hwloc->get_obj_by_depth(raw, 0, 0);
  if (root == nullptr) return error(Code::kSystem, "hwloc finds no topology of this machine");
  Tree tree = Copier(*hwloc).copy(root);
  tree.matrices = matrices_of(*hwloc, raw);
  return tree;
}

}  // namespace hvd

#else

namespace hvd {

Expected<Tree> tree_of_machine() {
  return error(Code::kSystem,
               "this was built without hwloc, and so does not know this machine's topology. Debian "
               "has what configure looks for in libhwloc-dev");
}

}  // namespace hvd

#endif
