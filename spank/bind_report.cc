// SPDX-License-Identifier: Apache-2.0
#include "spank/bind_report.h"

#include <algorithm>
#include <set>

#include "libhvd/topo/links.h"

namespace hvd {
namespace {

// GPUs and NICs whose place is this.
struct Where {
  int package;
  int numa;
};

bool is_in(const Where& where, const Place& place) {
  return place.package == where.package && place.numa == where.numa;
}

std::string name_of(const Nic& nic) {
  return nic.device.empty() || nic.interface.empty() ? nic.name()
                                                     : nic.device + " " + nic.interface;
}

Json devices_at(const Where& where, const Topology& topology, const BindRequest& request) {
  Json gpus = Json::array();
  for (size_t i = 0; i < topology.gpus.size(); ++i) {
    const Gpu& gpu = topology.gpus[i];
    if (!is_in(where, gpu.place)) continue;
    Json shown = Json::object().set("pci", gpu.place.pci).set("model", gpu.model);
    for (const StepGpu& mine : request.gpus) {
      if (mine.gpu == static_cast<int>(i)) shown.set("token", mine.token);
    }
    gpus.add(std::move(shown));
  }
  Json nics = Json::array();
  for (const Nic& nic : topology.nics) {
    if (!is_in(where, nic.place)) continue;
    nics.add(Json::object().set("name", name_of(nic)).set("fabric", fabric_text(nic.fabric)));
  }
  return Json::object().set("gpus", std::move(gpus)).set("nics", std::move(nics));
}

int cores_of(const Topology& topology, const CpuSet& cpus) {
  return static_cast<int>(std::count_if(topology.cores.begin(), topology.cores.end(),
                                        [&](const Core& core) { return core.cpus.meets(cpus); }));
}

// A package's NUMA nodes, and first what belongs to none of them alone.
Json package_json(const Topology& topology, const BindRequest& request, int index) {
  const Package& package = topology.packages[static_cast<size_t>(index)];
  Json parts = Json::array();
  Json whole = devices_at({index, -1}, topology, request);
  if (!whole["gpus"].items().empty() || !whole["nics"].items().empty()) parts.add(std::move(whole));
  for (size_t i = 0; i < topology.numas.size(); ++i) {
    const NumaNode& numa = topology.numas[i];
    if (!package.cpus.includes(numa.cpus)) continue;
    Json part = devices_at({index, static_cast<int>(i)}, topology, request);
    part.set("numa", numa.os_index)
        .set("cpus", numa.cpus.list())
        .set("cores", cores_of(topology, numa.cpus));
    parts.add(std::move(part));
  }
  return Json::object()
      .set("package", package.os_index)
      .set("cpus", package.cpus.list())
      .set("parts", std::move(parts));
}

Json numbers(const std::vector<int>& values) {
  Json all = Json::array();
  for (const int value : values) all.add(value);
  return all;
}

Json numa_of(const Topology& topology, const CpuSet& cpus) {
  Json all = Json::array();
  for (const NumaNode& numa : topology.numas) {
    if (numa.cpus.meets(cpus)) all.add(numa.os_index);
  }
  return all;
}

Json rank_json(const Topology& topology, const BindRequest& request, const RankPlace& place) {
  Json visible = Json::array();
  for (const int i : place.visible) visible.add(request.gpus[static_cast<size_t>(i)].token);
  Json gpu;
  if (place.gpu >= 0) {
    const StepGpu& its = request.gpus[static_cast<size_t>(place.gpu)];
    gpu = Json::object().set("token", its.token).set("pci", Json()).set("model", Json());
    if (its.gpu >= 0) {
      const Gpu& known = topology.gpus[static_cast<size_t>(its.gpu)];
      gpu.set("pci", known.place.pci).set("model", known.model);
    }
  }
  Json nics = Json::array();
  for (const int i : place.nics) nics.add(topology.nics[static_cast<size_t>(i)].name());
  return Json::object()
      .set("gpus", std::move(visible))
      .set("gpu", std::move(gpu))
      .set("numa", numa_of(topology, place.cpus))
      .set("cores", cores_of(topology, place.cpus))
      .set("cpus", place.cpus.list())
      .set("nics", std::move(nics))
      .set("distance", place.distance);
}

// A group for each set of GPUs that are linked to each other alike.
Json links_json(const Topology& topology) {
  std::vector<int> known;
  std::set<int64_t> speeds;
  for (size_t i = 0; i < topology.gpus.size(); ++i) {
    const auto& links = topology.gpus[i].links;
    if (!links) continue;
    known.push_back(static_cast<int>(i));
    for (const GpuLink& link : *links) speeds.insert(link.mb_per_s);
  }
  if (known.empty()) return Json();
  const auto gpu = [&](int i) { return known[static_cast<size_t>(i)]; };
  Json all = Json::array();
  for (auto speed = speeds.rbegin(); speed != speeds.rend(); ++speed) {
    const auto alike = [&](int a, int b) {
      const GpuLink* link = link_of(topology, gpu(a), gpu(b));
      return link != nullptr && link->mb_per_s == *speed;
    };
    for (const auto& group : linked_groups(static_cast<int>(known.size()), alike)) {
      Json gpus = Json::array();
      for (const int i : group) {
        gpus.add(topology.gpus[static_cast<size_t>(gpu(i))].place.pci);
      }
      all.add(Json::object()
                  .set("gpus", std::move(gpus))
                  .set("mb_per_s", *speed == 0 ? Json() : Json(*speed)));
    }
  }
  return all;
}

}  // namespace

Json report_of(const std::string& node, const std::vector<int>& ranks, const Topology& topology,
               const BindRequest& request, const Binding& binding) {
  Json places = Json::array();
  for (size_t i = 0; i < binding.ranks.size(); ++i) {
    const size_t local = static_cast<size_t>(request.first_rank) + i;
    Json place = Json::object().set("rank", local < ranks.size() ? Json(ranks[local]) : Json());
    place.set("local_rank", local);
    const Json rest = rank_json(topology, request, binding.ranks[i]);
    for (const auto& [key, value] : rest.members()) place.set(key, value);
    places.add(std::move(place));
  }
  Json warnings = Json::array();
  for (const BindWarning& warning : binding.warnings) {
    std::vector<int> whom;
    for (const int local : warning.ranks) {
      const auto at = static_cast<size_t>(local);
      if (at < ranks.size()) whom.push_back(ranks[at]);
    }
    warnings.add(Json::object()
                     .set("ranks", numbers(whom))
                     .set("text", warning.text)
                     .set("remedy", warning.remedy));
  }
  Json packages = Json::array();
  for (size_t i = 0; i < topology.packages.size(); ++i) {
    packages.add(package_json(topology, request, static_cast<int>(i)));
  }
  return Json::object()
      .set("node", node)
      .set("ranks", std::move(places))
      .set("warnings", std::move(warnings))
      .set("packages", std::move(packages))
      .set("elsewhere", devices_at({-1, -1}, topology, request))
      .set("links", links_json(topology));
}

}  // namespace hvd
