// SPDX-License-Identifier: Apache-2.0
#include "spank/bind_report.h"

#include <algorithm>
#include <array>

#include "libhvd/base/rank_list.h"

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

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string joined(const Json& list) {
  std::string text;
  for (const Json& item : list.items()) {
    text += (text.empty() ? "" : ",") +
            (item.text().empty() ? std::to_string(item.number()) : item.text());
  }
  return text;
}

// A cell of a table stays in its line, whoever sent it.
std::string plain(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return text;
}

constexpr size_t kColumns = 9;
using Row = std::array<std::string, kColumns>;

Row row_of(const std::string& node, const Json& rank) {
  const Json& gpu = rank["gpu"];
  return {node,
          std::to_string(rank["local_rank"].number()),
          std::to_string(rank["rank"].number()),
          or_dash(gpu["token"].text()),
          or_dash(gpu["pci"].text()),
          or_dash(gpu["model"].text()),
          or_dash(joined(rank["numa"])),
          format("%lld: %s", static_cast<long long>(rank["cores"].number()),
                 or_dash(rank["cpus"].text()).c_str()),
          or_dash(joined(rank["nics"]))};
}

std::string line_of(const Row& row, const std::array<size_t, kColumns>& widths) {
  std::string line;
  for (size_t i = 0; i < kColumns; ++i) {
    line += row[i];
    if (i + 1 < kColumns) line.append(widths[i] + 2 - row[i].size(), ' ');
  }
  return line + "\n";
}

}  // namespace

Json report_of(const std::string& node, const std::vector<int>& ranks, const Topology& topology,
               const BindRequest& request, const Binding& binding) {
  Json places = Json::array();
  for (size_t i = 0; i < binding.ranks.size(); ++i) {
    Json place = Json::object().set("rank", i < ranks.size() ? Json(ranks[i]) : Json());
    place.set("local_rank", i);
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
      .set("elsewhere", devices_at({-1, -1}, topology, request));
}

std::string report_table(const std::vector<Json>& nodes) {
  std::vector<std::pair<int64_t, Row>> rows;
  for (const Json& node : nodes) {
    for (const Json& rank : node["ranks"].items()) {
      rows.emplace_back(rank["rank"].number(), row_of(node["node"].text(), rank));
      for (std::string& cell : rows.back().second) cell = plain(std::move(cell));
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const Row titles = {"node",  "local rank", "rank",        "GPU", "PCI id",
                      "model", "NUMA node",  "cores: CPUs", "NIC"};
  std::array<size_t, kColumns> widths{};
  for (size_t i = 0; i < kColumns; ++i) {
    widths[i] = titles[i].size();
    for (const auto& [rank, row] : rows) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text = line_of(titles, widths);
  for (const auto& [rank, row] : rows) text += line_of(row, widths);
  return text;
}

std::vector<std::string> report_warnings(const std::vector<Json>& nodes) {
  std::vector<std::string> lines;
  for (const Json& node : nodes) {
    for (const Json& warning : node["warnings"].items()) {
      std::vector<int> ranks;
      for (const Json& rank : warning["ranks"].items()) {
        ranks.push_back(static_cast<int>(rank.number()));
      }
      std::string line = node["node"].text() + ": ";
      if (!ranks.empty()) line += (ranks.size() == 1 ? "rank " : "ranks ") + rank_list(ranks) + " ";
      lines.push_back(plain(line + warning["text"].text() + "; " + warning["remedy"].text()));
    }
  }
  return lines;
}

}  // namespace hvd
