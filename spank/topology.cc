// SPDX-License-Identifier: Apache-2.0
#include "spank/topology.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace hvd {
namespace {

// The element whose CPUs include all of `cpus`; -1 if none does.
template <typename T>
int index_of(const std::vector<T>& items, const CpuSet& cpus) {
  if (cpus.empty()) return -1;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].cpus.includes(cpus)) return static_cast<int>(i);
  }
  return -1;
}

void locate(const Topology& topology, Place* place) {
  if (place->cpus.empty()) place->cpus = topology.cpus();
  place->numa = index_of(topology.numas, place->cpus);
  place->package = index_of(topology.packages, place->cpus);
}

// "0000:c1:00.0" sorts as a number does: hwloc and the kernel pad with zeros. A domain of more than
// four digits (VMD's 10000) sorts behind.
bool before(const std::string& a, const std::string& b) {
  return std::make_tuple(a.size(), std::cref(a)) < std::make_tuple(b.size(), std::cref(b));
}

void sort_gpus(std::vector<Gpu>* gpus) {
  std::vector<size_t> order(gpus->size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return before((*gpus)[a].place.pci, (*gpus)[b].place.pci);
  });
  std::vector<int> now_at(gpus->size());
  std::vector<Gpu> sorted;
  for (const size_t from : order) {
    now_at[from] = static_cast<int>(sorted.size());
    sorted.push_back(std::move((*gpus)[from]));
  }
  for (Gpu& gpu : sorted) {
    if (!gpu.links) continue;
    for (GpuLink& link : *gpu.links) link.to = now_at[static_cast<size_t>(link.to)];
    std::sort(gpu.links->begin(), gpu.links->end(),
              [](const GpuLink& a, const GpuLink& b) { return a.to < b.to; });
  }
  *gpus = std::move(sorted);
}

bool same_place(int a, int b) { return a >= 0 && a == b; }

}  // namespace

const char* vendor_text(Vendor vendor) {
  switch (vendor) {
    case Vendor::kNvidia:
      return "NVIDIA";
    case Vendor::kAmd:
      return "AMD";
    case Vendor::kIntel:
      break;
  }
  return "Intel";
}

const char* fabric_text(Fabric fabric) {
  switch (fabric) {
    case Fabric::kInfiniBand:
      return "InfiniBand";
    case Fabric::kSlingshot:
      return "Slingshot";
    case Fabric::kOmniPath:
      return "Omni-Path";
    case Fabric::kRoce:
      return "RoCE";
    case Fabric::kEthernet:
      break;
  }
  return "Ethernet";
}

CpuSet Topology::cpus() const {
  CpuSet all;
  for (const Core& core : cores) all |= core.cpus;
  return all;
}

void finish_topology(Topology* topology) {
  const auto by_cpus = [](const auto& a, const auto& b) { return a.cpus.first() < b.cpus.first(); };
  std::stable_sort(topology->packages.begin(), topology->packages.end(), by_cpus);
  std::stable_sort(topology->numas.begin(), topology->numas.end(), by_cpus);
  for (Core& core : topology->cores) {
    core.numa = index_of(topology->numas, core.cpus);
    core.package = index_of(topology->packages, core.cpus);
  }
  std::stable_sort(topology->cores.begin(), topology->cores.end(),
                   [](const Core& a, const Core& b) {
                     return std::make_tuple(a.package, a.numa, a.cpus.first()) <
                            std::make_tuple(b.package, b.numa, b.cpus.first());
                   });
  for (Gpu& gpu : topology->gpus) locate(*topology, &gpu.place);
  for (Nic& nic : topology->nics) locate(*topology, &nic.place);
  sort_gpus(&topology->gpus);
  std::stable_sort(topology->nics.begin(), topology->nics.end(),
                   [](const Nic& a, const Nic& b) { return before(a.place.pci, b.place.pci); });
}

const GpuLink* link_of(const Topology& topology, int gpu, int other) {
  const auto& links = topology.gpus[static_cast<size_t>(gpu)].links;
  if (!links) return nullptr;
  for (const GpuLink& link : *links) {
    if (link.to == other) return &link;
  }
  return nullptr;
}

int hops(const Topology& topology, const Place& place, int cpu) {
  if (place.cpus.has(cpu)) return 0;
  if (place.numa >= 0 && topology.numas[static_cast<size_t>(place.numa)].cpus.has(cpu)) return 1;
  if (place.package >= 0 && topology.packages[static_cast<size_t>(place.package)].cpus.has(cpu)) {
    return 2;
  }
  return kMostHops;
}

int64_t distance(const Topology& topology, const Place& place, const CpuSet& cpus) {
  int64_t sum = 0;
  int64_t count = 0;
  for (int cpu = cpus.first(); cpu >= 0; cpu = cpus.next(cpu)) {
    sum += hops(topology, place, cpu);
    ++count;
  }
  return count == 0 ? 0 : sum * 1000 / count;
}

int64_t distance(const Place& a, const Place& b) {
  size_t common = 0;
  while (common < a.bridges.size() && common < b.bridges.size() &&
         a.bridges[common] == b.bridges[common]) {
    ++common;
  }
  if (common > 0) {
    const size_t on_the_way = a.bridges.size() + b.bridges.size() - 2 * common;
    return static_cast<int64_t>(std::min<size_t>(on_the_way, 99));
  }
  if (a.cpus == b.cpus) return 100;
  if (same_place(a.numa, b.numa)) return 200;
  if (same_place(a.package, b.package)) return 300;
  return 400;
}

}  // namespace hvd
