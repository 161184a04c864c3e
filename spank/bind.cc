// SPDX-License-Identifier: Apache-2.0
#include "spank/bind.h"

#include <climits>

#include "libhvd/base/nearest.h"
#include "libhvd/base/parse.h"
#include "spank/bind_parts.h"

namespace hvd {
namespace {

// No node has as many. The work grows with the cube of the list, which a user can write.
constexpr size_t kMostGpus = 256;
constexpr int kMostRanks = 1024;

Status not_one_of(std::string_view text, const std::vector<std::string_view>& words) {
  const std::string_view near = nearest(text, words);
  std::string all;
  for (const std::string_view word : words) {
    all += (all.empty() ? "" : ", ") + std::string(word);
  }
  return error(Code::kInvalid, "\"%s\" is none of %s%s", std::string(text).c_str(), all.c_str(),
               near.empty() ? "" : ("; did you mean \"" + std::string(near) + "\"?").c_str());
}

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

// CUDA takes the beginning of a UUID for the whole.
int gpu_of_uuid(const Topology& topology, std::string_view token) {
  int found = -1;
  for (size_t i = 0; i < topology.gpus.size(); ++i) {
    if (!starts_with(topology.gpus[i].uuid, token)) continue;
    if (found >= 0) return -1;
    found = static_cast<int>(i);
  }
  return found;
}

int gpu_of_token(const Topology& topology, std::string_view token) {
  if (starts_with(token, "GPU-")) return gpu_of_uuid(topology, token);
  // Intel's "0.1" is a tile of GPU 0.
  const auto index = parse_count(token.substr(0, token.find('.')));
  if (!index || *index >= static_cast<int64_t>(topology.gpus.size())) return -1;
  return static_cast<int>(*index);
}

std::vector<std::string_view> entries(std::string_view list) {
  if (trim(list).empty()) return {};
  std::vector<std::string_view> all = split(list, ',');
  for (std::string_view& entry : all) entry = trim(entry);
  return all;
}

Status check(const BindRequest& request) {
  const auto ranks = static_cast<size_t>(request.ranks);
  if (request.ranks < 1 || (!request.masks.empty() && request.masks.size() != ranks) ||
      (!request.rank_gpus.empty() && request.rank_gpus.size() != ranks)) {
    return error(Code::kInternal, "binding %d ranks with %zu masks and %zu lists of GPUs",
                 request.ranks, request.masks.size(), request.rank_gpus.size());
  }
  if (request.gpus.size() > kMostGpus) {
    return error(Code::kInvalid, "the list of GPUs has %zu, more than %zu, the most that are bound",
                 request.gpus.size(), kMostGpus);
  }
  if (request.ranks > kMostRanks) {
    return error(Code::kInvalid, "the node has %d ranks, more than %d, the most that are bound",
                 request.ranks, kMostRanks);
  }
  const int count = static_cast<int>(request.gpus.size());
  for (const auto& list : request.rank_gpus) {
    for (const int position : list) {
      if (position < 0 || position >= count) {
        return error(Code::kInternal, "GPU %d of %d", position, count);
      }
    }
  }
  return ok_status();
}

void choose_cpus(const Topology& topology, const BindRequest& request, Binding* binding) {
  std::vector<const Place*> places;
  for (const RankPlace& rank : binding->ranks) {
    places.push_back(place_of(topology, request, rank.gpu));
  }
  if (request.masks.empty() && request.cpu == CpuPolicy::kAuto) {
    const std::vector<CpuSet> dealt = deal_cores(topology, request.cpus, places);
    binding->sets_cpus = !dealt.empty();
    for (size_t rank = 0; rank < dealt.size(); ++rank) binding->ranks[rank].cpus = dealt[rank];
  }
  for (size_t rank = 0; rank < places.size(); ++rank) {
    RankPlace& its = binding->ranks[rank];
    if (!binding->sets_cpus) its.cpus = request.masks.empty() ? request.cpus : request.masks[rank];
    if (places[rank] != nullptr) its.distance = distance(topology, *places[rank], its.cpus);
    binding->distance += its.distance;
  }
}

}  // namespace

Expected<GpuChoice> parse_gpu_choice(std::string_view text) {
  constexpr std::string_view kMap = "map:";
  if (text == "auto") return GpuChoice{GpuPolicy::kAuto, {}};
  if (text == "closest") return GpuChoice{GpuPolicy::kClosest, {}};
  if (text == "rank") return GpuChoice{GpuPolicy::kRank, {}};
  if (text == "none" || text == "all") return GpuChoice{GpuPolicy::kLeave, {}};
  if (!starts_with(text, kMap)) {
    return not_one_of(text, {"auto", "closest", "rank", "all", "none", "map:A:B"});
  }
  GpuChoice choice{GpuPolicy::kMap, {}};
  for (const std::string_view word : split(text.substr(kMap.size()), ':')) {
    const auto position = parse_count(word);
    if (!position || *position > INT_MAX) {
      return error(Code::kInvalid,
                   "\"%s\" needs positions in the list of GPUs, from 0, as in map:3:2:1:0",
                   std::string(text).c_str());
    }
    choice.map.push_back(static_cast<int>(*position));
  }
  return choice;
}

Expected<CpuPolicy> parse_cpu_policy(std::string_view text) {
  if (text == "auto") return CpuPolicy::kAuto;
  if (text == "none") return CpuPolicy::kNone;
  return not_one_of(text, {"auto", "none"});
}

Expected<NicPolicy> parse_nic_policy(std::string_view text) {
  if (text == "auto") return NicPolicy::kAuto;
  if (text == "nearest") return NicPolicy::kNearest;
  if (text == "none") return NicPolicy::kNone;
  return not_one_of(text, {"auto", "nearest", "none"});
}

bool is_mig(const StepGpu& gpu) { return starts_with(gpu.token, "MIG-"); }

std::vector<StepGpu> find_gpus(const Topology& topology, std::string_view tokens,
                               std::string_view step_gpus) {
  const std::vector<std::string_view> names = entries(tokens);
  const std::vector<std::string_view> numbers = entries(step_gpus);
  std::vector<StepGpu> gpus;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string_view known = numbers.size() == names.size() ? numbers[i] : names[i];
    gpus.push_back({std::string(names[i]), gpu_of_token(topology, known)});
  }
  return gpus;
}

const Place* place_of(const Topology& topology, const BindRequest& request, int position) {
  if (position < 0) return nullptr;
  const int gpu = request.gpus[static_cast<size_t>(position)].gpu;
  if (gpu < 0 || gpu >= static_cast<int>(topology.gpus.size())) return nullptr;
  return &topology.gpus[static_cast<size_t>(gpu)].place;
}

Expected<Binding> bind(const Topology& topology, const BindRequest& request) {
  if (Status status = check(request); !status.ok()) return status;
  Binding binding;
  binding.ranks.resize(static_cast<size_t>(request.ranks));
  if (Status status = choose_gpus(topology, request, &binding); !status.ok()) return status;
  choose_cpus(topology, request, &binding);
  choose_nics(topology, request, &binding);
  binding.warnings = find_trouble(topology, request, binding);
  return binding;
}

}  // namespace hvd
