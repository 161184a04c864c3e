// SPDX-License-Identifier: Apache-2.0
#include "libhvd/tools/info/bind.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "libhvd/base/nearest.h"
#include "libhvd/base/parse.h"
#include "libhvd/base/rank_list.h"
#include "spank/bind_environment.h"
#include "spank/bind_report.h"

namespace hvd::info {
namespace {

constexpr int64_t kMostTasks = 1024;

template <typename T>
Status keep(Expected<T> parsed, T* value) {
  if (parsed.ok()) *value = std::move(*parsed);
  return parsed.status();
}

Status take_tasks(std::string_view value, BindOptions* options) {
  const auto tasks = parse_count(value);
  if (!tasks || *tasks < 1 || *tasks > kMostTasks) {
    return error(Code::kInvalid, "\"%s\" is not from 1 to 1024; write it as in --tasks 4",
                 std::string(value).c_str());
  }
  options->tasks = static_cast<int>(*tasks);
  return ok_status();
}

// "0-3" is "0,1,2,3"; tokens that are no numbers stay as they are.
Status take_gpus(std::string_view value, BindOptions* options) {
  std::string list;
  if (value == "none") value = "";
  for (const std::string_view entry : split(value, ',')) {
    const bool named = entry.substr(0, 4) == "GPU-" || entry.substr(0, 4) == "MIG-";
    const auto numbers = named ? std::nullopt : CpuSet::parse(entry);
    // A tile of Intel's: "0.1".
    const bool tile = entry.find('.') != std::string_view::npos;
    if (!named && !tile && !numbers) {
      return error(Code::kInvalid, "\"%s\" is no list of GPUs; write it as in --gpus 0-3",
                   std::string(value).c_str());
    }
    if (named || tile) {
      list += (list.empty() ? "" : ",") + std::string(entry);
      continue;
    }
    for (int i = numbers->first(); i >= 0; i = numbers->next(i)) {
      list += (list.empty() ? "" : ",") + std::to_string(i);
    }
  }
  options->gpus = list;
  return ok_status();
}

Status take_cpus(std::string_view value, BindOptions* options) {
  options->cpus = CpuSet::parse(value);
  if (options->cpus && !options->cpus->empty()) return ok_status();
  return error(Code::kInvalid, "\"%s\" is no list of CPUs; write it as in --cpus 0-15,32-47",
               std::string(value).c_str());
}

struct Argument {
  std::string_view name;
  std::function<Status(std::string_view, BindOptions*)> take;
};

const std::vector<Argument>& valued() {
  static const std::vector<Argument> all = {
      {"--topology",
       [](std::string_view value, BindOptions* options) {
         options->topology = TopologySource::file(std::string(value));
         return ok_status();
       }},
      {"--tasks", take_tasks},
      {"--gpus", take_gpus},
      {"--cpus", take_cpus},
      {"--policy",
       [](std::string_view value, BindOptions* options) {
         return keep(parse_gpu_choice(value), &options->gpu);
       }},
      {"--cpu-policy",
       [](std::string_view value, BindOptions* options) {
         return keep(parse_cpu_policy(value), &options->cpu);
       }},
      {"--nic-policy",
       [](std::string_view value, BindOptions* options) {
         return keep(parse_nic_policy(value), &options->nic);
       }},
  };
  return all;
}

Status unknown(std::string_view argument) {
  std::vector<std::string_view> names = {"--json", "--help"};
  for (const Argument& known : valued()) names.push_back(known.name);
  const std::string_view near = nearest(argument, names);
  return error(Code::kInvalid, "unknown argument \"%s\"; %s", std::string(argument).c_str(),
               near.empty() ? "\"hvd-info bind --help\" lists all"
                            : ("did you mean \"" + std::string(near) + "\"?").c_str());
}

// All of a topology, as Slurm would number them.
std::string all_gpus(const Topology& topology) {
  std::string list;
  for (size_t i = 0; i < topology.gpus.size(); ++i) {
    list += (i == 0 ? "" : ",") + std::to_string(i);
  }
  return list;
}

// "ranks 0-3: NAME=value ...": most ranks have the same.
std::string variables_text(const Json& report) {
  std::vector<std::pair<std::string, std::vector<int>>> ranks_with;
  for (const Json& rank : report["ranks"].items()) {
    std::string line;
    for (const auto& [name, value] : rank["environment"].members()) {
      line += " " + name + "=" + value.text();
    }
    auto at = std::find_if(ranks_with.begin(), ranks_with.end(),
                           [&](const auto& known) { return known.first == line; });
    if (at == ranks_with.end()) at = ranks_with.insert(at, {line, {}});
    at->second.push_back(static_cast<int>(rank["rank"].number()));
  }
  std::string text;
  for (const auto& [line, ranks] : ranks_with) {
    const char* none = line.empty() ? " no variable is set" : "";
    text += (ranks.size() == 1 ? "rank " : "ranks ") + rank_list(ranks) + ":" + line + none + "\n";
  }
  return text;
}

Json variables(const EnvironmentChange& change) {
  Json all = Json::object();
  for (const auto& [name, value] : change.set) all.set(name, value);
  return all;
}

}  // namespace

Expected<BindOptions> parse_bind_options(const std::vector<std::string_view>& arguments) {
  BindOptions options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--json" || argument == "--help" || argument == "-h") {
      (argument == "--json" ? options.json : options.help) = true;
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string_view name = argument.substr(0, equals);
    const Argument* known = nullptr;
    for (const Argument& candidate : valued()) {
      if (candidate.name == name) known = &candidate;
    }
    if (known == nullptr) return unknown(argument);
    if (equals == std::string_view::npos && i + 1 == arguments.size()) {
      return error(Code::kInvalid, "%s lacks its value; \"hvd-info bind --help\" says what it is",
                   std::string(name).c_str());
    }
    const Status status = known->take(
        equals == std::string_view::npos ? arguments[++i] : argument.substr(equals + 1), &options);
    if (!status.ok()) return status.annotate(std::string(name));
  }
  return options;
}

std::string bind_usage() {
  return "usage: hvd-info bind [--topology FILE.xml] [--tasks N] [--gpus LIST]\n"
         "                     [--cpus SET] [--policy P] [--cpu-policy P]\n"
         "                     [--nic-policy P] [--json]\n"
         "\n"
         "What the tasks of a job would get on a node: GPU, cores, NIC, and warnings.\n"
         "\n"
         "  --topology FILE.xml  the node, as lstopo FILE.xml wrote it; else this machine\n"
         "  --tasks N            of the job on the node (1)\n"
         "  --gpus LIST          of the step, as in 0-3, GPU-UUIDs or MIG-UUIDs, none (all)\n"
         "  --cpus SET           of the step, as in 0-15,32-47 (all)\n"
         "  --policy P           auto, closest, rank, map:A:B, all or none\n"
         "  --cpu-policy P       auto or none\n"
         "  --nic-policy P       auto, nearest or none\n"
         "  --json               one JSON object on one line\n";
}

std::string name_of_node(const TopologySource& source, const std::string& host) {
  if (source.kind != TopologySource::Kind::kFile) return host;
  std::string name = source.text.substr(source.text.find_last_of('/') + 1);
  const size_t end = name.rfind(".xml");
  if (end != std::string::npos && end > 0) name.resize(end);
  return name;
}

Expected<Json> preview(const BindOptions& options, const std::string& node) {
  const auto topology = read_topology(options.topology);
  if (!topology.ok()) return topology.status();
  BindRequest request;
  request.ranks = options.tasks;
  request.cpus = options.cpus.value_or(topology->cpus());
  request.gpus = find_gpus(*topology, options.gpus.value_or(all_gpus(*topology)), "");
  request.gpu = options.gpu;
  request.cpu = options.cpu;
  request.nic = options.nic;
  if (!topology->cpus().meets(request.cpus)) {
    return error(Code::kInvalid, "--cpus: the node has none of \"%s\"; it has %s",
                 request.cpus.list().c_str(), topology->cpus().list().c_str());
  }
  const auto binding = bind(*topology, request);
  if (!binding.ok()) return binding.status();
  std::vector<int> ranks(static_cast<size_t>(options.tasks));
  std::iota(ranks.begin(), ranks.end(), 0);
  const Json report = report_of(node, ranks, *topology, request, *binding);
  Json with_variables = Json::array();
  int local_rank = 0;
  for (Json rank : report["ranks"].items()) {
    const auto unset = [](const char*) { return static_cast<const char*>(nullptr); };
    rank.set("environment",
             variables(environment_of(*topology, request, *binding, local_rank++, unset)));
    with_variables.add(std::move(rank));
  }
  Json all = report;
  all.set("ranks", std::move(with_variables));
  return all;
}

std::string text_of_preview(const Json& report) {
  std::string text = report_table({report});
  text += "\n" + variables_text(report);
  const std::vector<std::string> warnings = report_warnings({report});
  if (!warnings.empty()) text += "\n";
  for (const std::string& warning : warnings) text += "warning: " + warning + "\n";
  return text + "\n" + report_drawing(report);
}

}  // namespace hvd::info
