// SPDX-License-Identifier: Apache-2.0
#include "spank/bind_environment.h"

#include <algorithm>
#include <set>

namespace hvd {
namespace {

constexpr const char* kCuda = "CUDA_VISIBLE_DEVICES";
constexpr const char* kCudaOrder = "CUDA_DEVICE_ORDER";
constexpr const char* kRocr = "ROCR_VISIBLE_DEVICES";
constexpr const char* kZe = "ZE_AFFINITY_MASK";

using Get = std::function<const char*(const char*)>;

std::string tokens_of(const BindRequest& request, const std::vector<int>& positions) {
  std::string text;
  for (const int position : positions) {
    text += (text.empty() ? "" : ",") + request.gpus[static_cast<size_t>(position)].token;
  }
  return text;
}

std::set<Vendor> vendors(const Topology& topology, const BindRequest& request) {
  std::set<Vendor> all;
  for (const StepGpu& gpu : request.gpus) {
    if (gpu.gpu >= 0) all.insert(topology.gpus[static_cast<size_t>(gpu.gpu)].vendor);
    if (is_mig(gpu)) all.insert(Vendor::kNvidia);
  }
  return all;
}

bool is_number(const std::string& token) {
  return !token.empty() && token.find_first_not_of("0123456789") == std::string::npos;
}

void set_cuda(const std::string& list, const BindRequest& request, const Get& get,
              EnvironmentChange* change) {
  change->set.emplace_back(kCuda, list);
  const bool counted = std::any_of(request.gpus.begin(), request.gpus.end(),
                                   [](const StepGpu& gpu) { return is_number(gpu.token); });
  if (counted && get(kCudaOrder) == nullptr) change->set.emplace_back(kCudaOrder, "PCI_BUS_ID");
}

void set_rocr(const std::string& list, const Get& get, EnvironmentChange* change) {
  change->set.emplace_back(kRocr, list);
  for (const char* name : {"HIP_VISIBLE_DEVICES", kCuda, "GPU_DEVICE_ORDINAL"}) {
    if (get(name) != nullptr) change->unset.emplace_back(name);
  }
}

void set_gpus(const Topology& topology, const BindRequest& request, const std::vector<int>& visible,
              const Get& get, EnvironmentChange* change) {
  const std::string list = tokens_of(request, visible);
  const std::set<Vendor> known = vendors(topology, request);
  // A list that mixes vendors is nobody's.
  if (known.size() == 1 && *known.begin() == Vendor::kNvidia) {
    set_cuda(list, request, get, change);
  } else if (known.size() == 1 && *known.begin() == Vendor::kAmd) {
    set_rocr(list, get, change);
  } else if (known.size() == 1) {
    change->set.emplace_back(kZe, list);
  } else if (known.empty()) {
    for (const char* name : {kRocr, kZe}) {
      if (get(name) != nullptr) change->set.emplace_back(name, list);
    }
    if (get(kCuda) != nullptr) set_cuda(list, request, get, change);
  }
}

const Nic* only_nic(const Topology& topology, const RankPlace& rank) {
  return rank.nics.size() == 1 ? &topology.nics[static_cast<size_t>(rank.nics[0])] : nullptr;
}

// "=mlx5_0,mlx5_2"; "" if a rank has none or no single one.
std::string node_devices(const Topology& topology, const Binding& binding) {
  std::set<int> used;
  for (const RankPlace& rank : binding.ranks) {
    const Nic* nic = only_nic(topology, rank);
    if (nic == nullptr || nic->device.empty()) return "";
    used.insert(rank.nics[0]);
  }
  std::string list;
  for (const int i : used) {
    list += (list.empty() ? "=" : ",") + topology.nics[static_cast<size_t>(i)].device;
  }
  return list;
}

std::string node_interfaces(const Topology& topology) {
  const bool slingshot =
      std::any_of(topology.nics.begin(), topology.nics.end(),
                  [](const Nic& nic) { return nic.fabric == Fabric::kSlingshot; });
  if (!slingshot && topology.nics.size() > 1) return "";
  std::string list;
  for (const Nic& nic : topology.nics) {
    if (nic.interface.empty() || nic.fabric != (slingshot ? Fabric::kSlingshot : Fabric::kEthernet))
      continue;
    list += (list.empty() ? "=" : ",") + nic.interface;
  }
  return list;
}

void set_nics(const Topology& topology, const Binding& binding, const RankPlace& place,
              const Get& get, EnvironmentChange* change) {
  const auto offer = [&](const char* name, const std::string& value) {
    if (!value.empty() && get(name) == nullptr) change->set.emplace_back(name, value);
  };
  const Nic* nic = only_nic(topology, place);
  // UCX knows Mellanox's devices by this name; through others it has no short way.
  if (nic != nullptr && nic->device.rfind("mlx", 0) == 0) {
    offer("UCX_NET_DEVICES", nic->device + ":" + std::to_string(nic->port));
  }
  if (place.gpu < 0) return;
  offer("NCCL_IB_HCA", node_devices(topology, binding));
  offer("NCCL_SOCKET_IFNAME", node_interfaces(topology));
}

}  // namespace

EnvironmentChange environment_of(const Topology& topology, const BindRequest& request,
                                 const Binding& binding, int rank, const Get& get) {
  EnvironmentChange change;
  const RankPlace& place = binding.ranks[static_cast<size_t>(rank)];
  if (binding.sets_gpus && !place.visible.empty()) {
    set_gpus(topology, request, place.visible, get, &change);
  }
  if (binding.sets_nics) set_nics(topology, binding, place, get, &change);
  return change;
}

}  // namespace hvd
