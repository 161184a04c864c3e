// SPDX-License-Identifier: Apache-2.0
//
// A node as a box for each package:
//
//   tioga18
//   +-- package 0 -----------------------------------+
//   |  NUMA node 3: 16 cores, CPUs 48-63,112-127      |
//   |    GPU 0    0000:c1:00.0  AMD INSTINCT MI200    |
//   |    NIC      hsi0  Slingshot                     |
//   |    rank 0   GPU 0, 8 cores, CPUs 48-55,112-119  |
//   +------------------------------------------------+
#include <algorithm>

#include "libhvd/base/status.h"
#include "libhvd/topo/places.h"

namespace hvd {
namespace {

constexpr size_t kLabel = 10;
constexpr size_t kMostWidth = 120;

std::string labelled(std::string label, const std::string& what) {
  label.resize(std::max(kLabel, label.size() + 1), ' ');
  return "    " + label + what;
}

std::string cores_text(const Json& of) {
  const auto cores = static_cast<long long>(of["cores"].number());
  return format("%lld core%s, CPUs %s", cores, cores == 1 ? "" : "s", of["cpus"].text().c_str());
}

void draw_devices(const Json& part, std::vector<std::string>* lines) {
  for (const Json& gpu : part["gpus"].items()) {
    const std::string& token = gpu["token"].text();
    lines->push_back(labelled(token.empty() ? "(GPU)" : "GPU " + token,
                              gpu["pci"].text() + "  " + gpu["model"].text()));
  }
  for (const Json& nic : part["nics"].items()) {
    lines->push_back(labelled("NIC", nic["name"].text() + "  " + nic["fabric"].text()));
  }
}

// A rank is drawn in the first NUMA node it runs on.
void draw_ranks(const Json& node, int64_t numa, std::vector<std::string>* lines) {
  for (const Json& rank : node["ranks"].items()) {
    const auto& numas = rank["numa"].items();
    if (numas.empty() || numas[0].number() != numa) continue;
    const std::string& gpu = rank["gpu"]["token"].text();
    std::string text = (gpu.empty() ? "" : "GPU " + gpu + ", ") + cores_text(rank);
    if (numas.size() > 1) text += format(", in %zu NUMA nodes", numas.size());
    lines->push_back(
        labelled(format("rank %lld", static_cast<long long>(rank["rank"].number())), text));
  }
}

void draw_box(const std::string& title, const std::vector<std::string>& lines, std::string* out) {
  size_t width = title.size() + 8;
  for (const std::string& line : lines) width = std::max(width, line.size() + 2);
  width = std::min(width, kMostWidth);
  std::string top = "+-- " + title + " ";
  top.resize(std::max(width + 1, top.size()), '-');
  *out += top + "+\n";
  for (std::string line : lines) {
    line.resize(std::max(width, line.size() + 1), ' ');
    *out += "|" + line + "|\n";
  }
  *out += "+" + std::string(width, '-') + "+\n";
}

}  // namespace

std::string report_drawing(const Json& node) {
  std::string text = printable(node["node"].text()) + "\n";
  for (const Json& package : node["packages"].items()) {
    std::vector<std::string> lines;
    for (const Json& part : package["parts"].items()) {
      if (!part["numa"].is_null()) {
        lines.push_back(format("  NUMA node %lld: %s",
                               static_cast<long long>(part["numa"].number()),
                               cores_text(part).c_str()));
      }
      draw_devices(part, &lines);
      if (!part["numa"].is_null()) draw_ranks(node, part["numa"].number(), &lines);
    }
    for (std::string& line : lines) line = printable(line);
    draw_box(format("package %lld", static_cast<long long>(package["package"].number())), lines,
             &text);
  }
  std::vector<std::string> elsewhere;
  draw_devices(node["elsewhere"], &elsewhere);
  for (std::string& line : elsewhere) line = printable(line);
  if (!elsewhere.empty()) draw_box("elsewhere", elsewhere, &text);
  return text;
}

}  // namespace hvd
