// SPDX-License-Identifier: Apache-2.0
#include "libhvd/tools/info/text.h"

#include <vector>

#include "libhvd/base/parse.h"
#include "libhvd/base/rank_list.h"
#include "libhvd/base/status.h"

namespace hvd::info {
namespace {

constexpr size_t kKeyWidth = 18;
constexpr size_t kSettingWidth = 22;

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string of(const Json& json, std::string_view key) { return printable(json[key].text()); }

long long number(const Json& json, std::string_view key) { return json[key].number(); }

// Versions may be novels: "Open MPI v4.1.4, package: Debian OpenMPI, ident: ...".
std::string short_version(std::string_view version) {
  return printable(version.substr(0, version.find_first_of(",\n(")));
}

std::string seconds(int64_t ms) {
  return format("%lld.%03lld s", static_cast<long long>(ms / 1000),
                static_cast<long long>(ms % 1000));
}

// "128M" is exact; what programs have reduced hardly ever is a round number.
std::string bytes_text(int64_t bytes) {
  double shown = static_cast<double>(bytes);
  const char* unit = "bytes";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (shown < 1024) break;
    shown /= 1024;
    unit = next;
  }
  return shown == static_cast<double>(bytes) ? format("%lld bytes", static_cast<long long>(bytes))
                                             : format("%.1f %s", shown, unit);
}

std::string built_text(const Json& built) {
  std::string text = "\nbuilt with\n";
  for (const auto& [name, says] : built.members()) {
    text += "  " + padded(printable(name), kKeyWidth) + printable(says.text()) + "\n";
  }
  return text;
}

std::string libraries_text(const Json& libraries, const char* absent) {
  std::string text = "\nlibraries\n";
  for (const Json& library : libraries.items()) {
    std::string says = short_version(library["version"].text());
    while (!says.empty() && says.back() == ' ') says.pop_back();
    const std::string path = of(library, "path");
    if (!path.empty()) says += (says.empty() ? "" : ", ") + path;
    text += "  " + padded(of(library, "name"), kKeyWidth) + (says.empty() ? absent : says) + "\n";
  }
  return text;
}

std::string words(const Json& list) {
  std::string text;
  for (const Json& word : list.items()) {
    text += (text.empty() ? "" : ", ") + printable(word.text());
  }
  return text;
}

// Path and version are among the libraries.
std::string gpu_library_text(const char* name, const Json& library) {
  const std::string reason = of(library, "reason");
  const std::string enabled = words(library["enabled"]);
  std::string says = enabled.empty() ? "could be used" : "could be used: " + enabled;
  if (!reason.empty()) says = reason;
  std::string text = "  " + padded(name, kKeyWidth) + says + "\n";
  for (const Json& remark : library["remarks"].items()) {
    text += "  " + padded("", kKeyWidth) + printable(remark.text()) + "\n";
  }
  return text;
}

// One line where there is no CUDA.
std::string gpu_text(const Json& gpu) {
  std::string text = "\ngpu (this release reduces tensors on the CPU and uses none of it)\n";
  text += gpu_library_text("CUDA", gpu["cuda"]);
  return gpu["nccl"].is_null() ? text : text + gpu_library_text("NCCL", gpu["nccl"]);
}

// "…/python/horovod/__init__.py" is the package in "…/python".
std::string folder_of(const std::string& package) {
  const std::string_view end = "/horovod/__init__.py";
  const size_t at = package.rfind(end);
  return at == std::string::npos ? package : package.substr(0, at);
}

std::string python_text(const Json& python) {
  const std::string interpreter = of(python, "interpreter");
  const std::string installed = of(python, "installed");
  const std::string folder = folder_of(of(python, "package"));
  std::string package = folder;
  if (folder.empty()) {
    package = "not found; this release's is in " + installed;
  } else if (folder != installed) {
    package += ", which is another than this release's in " + installed;
  }
  std::string text = "\npython\n";
  text += "  " + padded("python3", kKeyWidth) + (interpreter.empty() ? "not found" : interpreter);
  if (interpreter.empty()) return text + "\n";
  return text + "\n  " + padded("import horovod", kKeyWidth) + package + "\n";
}

std::string settings_text(const Json& settings) {
  std::string text = "\n" + padded("settings", kSettingWidth + 2) + padded("value", 14) + "from\n";
  for (const Json& setting : settings.items()) {
    const std::string value = of(setting, "value");
    text += "  " + padded(of(setting, "key"), kSettingWidth) +
            padded(value.empty() ? "-" : value, 13) + " " + of(setting, "origin") + "\n";
  }
  return text;
}

std::string list_text(const char* title, const Json& lines) {
  if (lines.items().empty()) return "";
  std::string text = format("\n%s\n", title);
  for (const Json& line : lines.items()) text += "  " + printable(line.text()) + "\n";
  return text;
}

// "rank 1 of 4 on node0, local rank 1 of 2, cross rank 0 of 2"
std::string layout_text(const Json& layout) {
  std::string text = format("rank %lld", number(layout, "rank"));
  if (!layout["size"].is_null()) text += format(" of %lld", number(layout, "size"));
  text += " on " + of(layout, "host");
  if (layout["local_size"].is_null()) return text;
  return text + format(", local rank %lld of %lld, cross rank %lld of %lld",
                       number(layout, "local_rank"), number(layout, "local_size"),
                       number(layout, "cross_rank"), number(layout, "cross_size"));
}

std::string place_text(const Json& layout) {
  const std::string& source = layout["source"].text();
  if (source == "plugin") return layout_text(layout) + " (srun --horovod)";
  if (source == "launcher") return layout_text(layout) + "; hvd_init will find the rest";
  if (source == "none") return "no launcher: a program here is a job of one rank";
  return "none; see below";
}

std::string shape_text(const Json& shape) {
  std::string text;
  for (const Json& extent : shape.items()) {
    text += (text.empty() ? "" : ",") + std::to_string(extent.number());
  }
  return "[" + text + "]";
}

std::string operations_text(const Json& facts) {
  const auto& operations = facts["operations"].items();
  const long long in_flight = number(facts, "operations_in_flight");
  if (in_flight == 0) return "\noperations in flight\n  none\n";
  std::string text = "\noperations in flight\n";
  for (const Json& operation : operations) {
    const bool running = operation["state"].text() == "running";
    text += padded(running ? "  running" : "  waiting for other ranks", 27) +
            padded(seconds(number(operation, "age_ms")), 12) + of(operation, "kind") + " \"" +
            of(operation, "name") + "\"";
    if (!operation["type"].is_null()) {
      text += " " + of(operation, "type") + " " + shape_text(operation["shape"]);
    }
    text += "\n";
  }
  const long long more = in_flight - static_cast<long long>(operations.size());
  if (more > 0) text += format("  and %lld younger ones\n", more);
  return text;
}

std::string nodes_text(const Json& nodes) {
  std::string text = "\nnodes\n";
  for (const Json& node : nodes.items()) {
    std::vector<int> ranks;
    for (const Json& rank : node["ranks"].items()) ranks.push_back(static_cast<int>(rank.number()));
    text += "  " + padded(of(node, "host"), kKeyWidth) + (ranks.size() == 1 ? "rank " : "ranks ") +
            rank_list(ranks) + "\n";
  }
  return text;
}

}  // namespace

std::string text_of_place(const Json& facts) {
  return "hvd-info " + of(facts, "version") + "\n\nplace\n  " + place_text(facts["layout"]) + "\n" +
         list_text("errors", facts["errors"]) + list_text("remarks", facts["remarks"]) +
         settings_text(facts["settings"]) + libraries_text(facts["libraries"], "not found") +
         gpu_text(facts["gpu"]) + python_text(facts["python"]) + built_text(facts["built"]);
}

std::string text_of_rank(const Json& facts) {
  std::string text =
      format("process %lld: %s\n", number(facts, "pid"), layout_text(facts["layout"]).c_str());
  text += "  " + of(facts, "state");
  const std::string reason = of(facts, "reason");
  if (!reason.empty()) text += ": " + reason;
  text += format("\n  epoch %lld, %s since hvd_init, %lld batches, %s of tensors\n",
                 number(facts, "epoch"), seconds(number(facts, "uptime_ms")).c_str(),
                 number(facts, "batches"), bytes_text(number(facts, "bytes")).c_str());
  return text + operations_text(facts) + nodes_text(facts["layout"]["nodes"]) +
         settings_text(facts["settings"]) + libraries_text(facts["libraries"], "not loaded");
}

}  // namespace hvd::info
