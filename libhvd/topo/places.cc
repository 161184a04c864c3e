// SPDX-License-Identifier: Apache-2.0
#include "libhvd/topo/places.h"

#include <algorithm>
#include <array>

#include "libhvd/base/rank_list.h"
#include "libhvd/base/status.h"

namespace hvd {
namespace {

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string joined(const Json& list) {
  std::string text;
  for (const Json& item : list.items()) {
    text += (text.empty() ? "" : ",") +
            (item.text().empty() ? std::to_string(item.number()) : item.text());
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

std::string report_table(const std::vector<Json>& nodes) {
  std::vector<std::pair<int64_t, Row>> rows;
  for (const Json& node : nodes) {
    for (const Json& rank : node["ranks"].items()) {
      rows.emplace_back(rank["rank"].number(), row_of(node["node"].text(), rank));
      for (std::string& cell : rows.back().second) cell = printable(cell);
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
      lines.push_back(printable(line + warning["text"].text() + "; " + warning["remedy"].text()));
    }
  }
  return lines;
}

std::vector<Json> merged_nodes(const std::vector<Json>& reports) {
  std::vector<Json> nodes;
  for (const Json& report : reports) {
    const auto same = std::find_if(nodes.begin(), nodes.end(), [&](const Json& node) {
      return node["node"].text() == report["node"].text();
    });
    if (same == nodes.end()) {
      nodes.push_back(report);
      continue;
    }
    Json both = Json::object();
    for (const auto& [key, value] : same->members()) {
      if (key != "ranks" && key != "warnings") {
        both.set(key, value);
        continue;
      }
      Json all = Json::array();
      for (const Json& one : value.items()) all.add(one);
      for (const Json& one : report[key].items()) all.add(one);
      both.set(key, std::move(all));
    }
    *same = std::move(both);
  }
  return nodes;
}

std::string places_text(const std::vector<Json>& nodes) {
  std::string text = report_table(nodes);
  for (const Json& node : nodes) text += "\n" + report_drawing(node);
  const std::vector<std::string> warnings = report_warnings(nodes);
  if (!warnings.empty()) text += "\n";
  for (const std::string& line : warnings) text += "horovod: " + line + "\n";
  return text;
}

Json places_json(const std::vector<Json>& nodes) {
  Json all = Json::array();
  for (const Json& node : nodes) all.add(node);
  return Json::object().set("nodes", std::move(all));
}

}  // namespace hvd
