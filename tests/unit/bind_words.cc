// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/bind_words.h"

#include <cstdio>
#include <cstdlib>

#include "libhvd/base/parse.h"

namespace hvd::test {
namespace {

Place place_at(const Topology& topology, int numa, const char* pci, uint64_t bridge) {
  Place place;
  place.pci = pci;
  place.bridges = {bridge};
  if (numa >= 0) place.cpus = topology.numas[static_cast<size_t>(numa)].cpus;
  return place;
}

}  // namespace

Topology node_of(const NodeSpec& spec) {
  Topology topology;
  std::vector<int> cores_of = spec.cores_of;
  if (cores_of.empty()) {
    cores_of.assign(static_cast<size_t>(spec.packages * spec.numas), spec.cores);
  }
  int all = 0;
  for (const int cores : cores_of) all += cores;
  int next = 0;
  for (int package = 0; package < spec.packages; ++package) {
    CpuSet package_cpus;
    for (int i = 0; i < spec.numas; ++i) {
      const int numa = package * spec.numas + i;
      CpuSet numa_cpus;
      for (int core = 0; core < cores_of[static_cast<size_t>(numa)]; ++core, ++next) {
        CpuSet cpus;
        for (int thread = 0; thread < spec.threads; ++thread) cpus.add(next + thread * all);
        topology.cores.push_back({cpus});
        numa_cpus |= cpus;
      }
      topology.numas.push_back({numa, numa_cpus});
      package_cpus |= numa_cpus;
    }
    topology.packages.push_back({package, package_cpus});
  }
  unsigned bus = 1;
  for (const int numa : spec.gpus) {
    Gpu gpu;
    gpu.vendor = spec.vendor;
    gpu.place = place_at(topology, numa, format("0000:%02x:00.0", bus).c_str(), bus);
    gpu.model = "Test";
    gpu.uuid = format("GPU-%02x", bus++);
    topology.gpus.push_back(gpu);
  }
  for (const int numa : spec.nics) {
    Nic nic;
    nic.fabric = Fabric::kInfiniBand;
    nic.place = place_at(topology, numa, format("0000:%02x:00.0", bus).c_str(), bus);
    ++bus;
    nic.device = format("mlx5_%zu", topology.nics.size());
    nic.interface = format("ib%zu", topology.nics.size());
    topology.nics.push_back(nic);
  }
  finish_topology(&topology);
  return topology;
}

void link_gpus(Topology* topology, const std::string& pairs, int64_t mb_per_s) {
  for (Gpu& gpu : topology->gpus) {
    if (!gpu.links) gpu.links.emplace();
  }
  if (pairs.empty()) return;
  for (const std::string_view pair : split(pairs, ' ')) {
    const auto ends = split(pair, '-');
    const auto a = static_cast<size_t>(parse_count(ends.at(0)).value_or(0));
    const auto b = static_cast<size_t>(parse_count(ends.at(1)).value_or(0));
    topology->gpus.at(a).links->push_back({static_cast<int>(b), mb_per_s});
    topology->gpus.at(b).links->push_back({static_cast<int>(a), mb_per_s});
  }
  finish_topology(topology);
}

BindRequest request_of(const Topology& topology, int ranks, const std::string& gpus,
                       const std::string& cpus, const std::string& policy) {
  BindRequest request;
  request.ranks = ranks;
  request.cpus = cpus.empty() ? topology.cpus() : CpuSet::parse(cpus).value_or(CpuSet());
  request.gpus = find_gpus(topology, gpus, "");
  const auto choice = parse_gpu_choice(policy);
  if (choice.ok()) request.gpu = *choice;
  return request;
}

std::vector<CpuSet> masks_of(const std::string& text) {
  std::vector<CpuSet> masks;
  if (text.empty()) return masks;
  for (const std::string_view mask : split(text, ';')) {
    masks.push_back(CpuSet::parse(mask).value_or(CpuSet()));
  }
  return masks;
}

std::string shown(const BindRequest& request, const Binding& binding) {
  std::string text;
  for (const RankPlace& rank : binding.ranks) {
    std::string list;
    for (const int i : rank.visible) {
      list += (list.empty() ? "" : ",") + request.gpus[static_cast<size_t>(i)].token;
    }
    text += (text.empty() ? "" : "; ") +
            (rank.gpu < 0 ? "-" : request.gpus[static_cast<size_t>(rank.gpu)].token) +
            (binding.shared_list ? "*"
             : list.empty()      ? ""
                                 : "(" + list + ")") +
            " " + rank.cpus.list();
  }
  return text;
}

std::optional<std::string> real_node(const std::string& name) {
  const char* folder = getenv("HVD_TOPOLOGIES");
  const char* root = getenv("HVD_ROOT");
  for (const std::string& place :
       {std::string(folder == nullptr ? "" : folder), std::string("../shared/topologies"),
        std::string(root == nullptr ? "" : root) + "/../shared/topologies"}) {
    FILE* file = place.empty() ? nullptr : fopen((place + "/" + name).c_str(), "r");
    if (file == nullptr) continue;
    std::string text;
    char buffer[1 << 16];
    while (const size_t n = fread(buffer, 1, sizeof buffer, file)) text.append(buffer, n);
    fclose(file);
    return text;
  }
  return std::nullopt;
}

}  // namespace hvd::test
