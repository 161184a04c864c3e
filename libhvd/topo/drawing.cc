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
//   linked: 0-3 4-7
//
// The last line has the job's GPUs that are linked to each other, if that is known.
#include <algorithm>

#include "libhvd/base/parse.h"
#include "libhvd/base/status.h"
#include "libhvd/topo/links.h"
#include "libhvd/topo/places.h"

namespace hvd {
namespace {

constexpr size_t kLabel = 10;
constexpr size_t kMostWidth = 120;
constexpr size_t kLinksWidth = 80;
constexpr size_t kMostLinked = 64;

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

struct Drawn {
  std::string pci;
  std::string token;
};

// The job's GPUs as the boxes have them; but an instance of MIG has no links.
std::vector<Drawn> gpus_of(const Json& node) {
  std::vector<Drawn> gpus;
  const auto take = [&](const Json& part) {
    for (const Json& gpu : part["gpus"].items()) {
      const std::string& token = gpu["token"].text();
      if (token.empty() || token.compare(0, 4, "MIG-") == 0) continue;
      gpus.push_back({gpu["pci"].text(), token});
    }
  };
  for (const Json& package : node["packages"].items()) {
    for (const Json& part : package["parts"].items()) take(part);
  }
  take(node["elsewhere"]);
  return gpus;
}

// "0-3" if all the job's GPUs are numbers, else the addresses in the boxes.
std::string names_of(const std::vector<Drawn>& gpus, const std::vector<int>& group) {
  std::vector<int> numbers;
  std::string addresses;
  for (const int i : group) {
    const Drawn& gpu = gpus[static_cast<size_t>(i)];
    numbers.push_back(static_cast<int>(parse_count(gpu.token).value_or(0)));
    addresses += (addresses.empty() ? "" : ",") + gpu.pci;
  }
  const bool numbered = std::all_of(gpus.begin(), gpus.end(), [](const Drawn& gpu) {
    return gpu.token.size() <= 4 && parse_count(gpu.token).has_value();
  });
  std::sort(numbers.begin(), numbers.end());
  return numbered ? group_text(numbers) : addresses;
}

// "linked: all", "none", or each group; in lines of at most 80 columns.
void draw_links(const Json& node, std::string* out) {
  const std::vector<Drawn> gpus = gpus_of(node);
  if (node["links"].is_null() || gpus.size() < 2 || gpus.size() > kMostLinked) return;
  const auto in_one_group = [&](int a, int b) {
    const auto has = [](const Json& group, const Drawn& gpu) {
      const auto& all = group["gpus"].items();
      return std::any_of(all.begin(), all.end(),
                         [&](const Json& one) { return one.text() == gpu.pci; });
    };
    const auto& groups = node["links"].items();
    return std::any_of(groups.begin(), groups.end(), [&](const Json& group) {
      return has(group, gpus[static_cast<size_t>(a)]) && has(group, gpus[static_cast<size_t>(b)]);
    });
  };
  const auto groups = linked_groups(static_cast<int>(gpus.size()), in_one_group);
  std::string line = "linked:";
  if (groups.empty()) {
    line += " none";
  } else if (groups[0].size() == gpus.size()) {
    line += " all";
  } else {
    const size_t start = line.size();
    for (const auto& group : groups) {
      std::string names = names_of(gpus, group);
      if (start + 1 + names.size() > kLinksWidth) names = names.substr(0, 60) + "...";
      if (line.size() + 1 + names.size() > kLinksWidth) {
        *out += printable(line) + "\n";
        line.assign(start, ' ');
      }
      line += " " + names;
    }
  }
  *out += printable(line) + "\n";
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
  draw_links(node, &text);
  return text;
}

}  // namespace hvd
