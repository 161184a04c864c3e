// SPDX-License-Identifier: Apache-2.0
#include "spank/step_facts.h"

#include <algorithm>

#include "libhvd/base/parse.h"

namespace hvd {
namespace {

// With generic GPUs Slurm sets all of them alike, with vendors' plugins one.
constexpr const char* kVisible[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                    "ZE_AFFINITY_MASK"};

std::string text_of(const Getenv& get, const char* name) {
  const char* text = get(name);
  return text == nullptr ? "" : text;
}

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

// "gpu:per_task:1", "gpu:none", "gpu:single:1+verbose"; other resources may stand beside it.
bool binds_gpus(std::string_view tres_bind) {
  for (std::string_view item : split(tres_bind, ';')) {
    if (starts_with(item, "gres/")) item.remove_prefix(5);
    if (starts_with(item, "gpu:")) return true;
  }
  return false;
}

// "5:devices:/slurm_node0/uid_1/job_2/step_0/task_1": the first version of cgroups has a line for
// each controller. The second has one alone, "0::/…/job_2/step_0/user/task_1", whatever it
// controls.
bool has_own_devices(std::string_view cgroup, bool denied) {
  for (std::string_view line : split(cgroup, '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view path = line.substr(second + 1);
    if (path.find("/task_") == std::string_view::npos) continue;
    if (second == first + 1 && denied) return true;
    for (std::string_view controller : split(line.substr(first + 1, second - first - 1), ',')) {
      if (controller == "devices") return true;
    }
  }
  return false;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool parse_mask(std::string_view text, CpuSet* cpus) {
  if (starts_with(text, "0x") || starts_with(text, "0X")) text.remove_prefix(2);
  if (text.empty() || text.size() > static_cast<size_t>(CpuSet::kMost) / 4) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const int digit = hex_digit(text[text.size() - 1 - i]);
    if (digit < 0) return false;
    for (int bit = 0; bit < 4; ++bit) {
      if ((digit & (1 << bit)) != 0) cpus->add(static_cast<int>(4 * i) + bit);
    }
  }
  return true;
}

// "0x1*2,0x2": "*" repeats an entry. At most as many as there are ranks; nothing if it cannot be
// read.
std::vector<CpuSet> repeated(std::string_view list, bool masks, int ranks) {
  std::vector<CpuSet> entries;
  for (std::string_view item : split(list, ',')) {
    const size_t star = item.find('*');
    const auto times = star == std::string_view::npos ? 1 : parse_count(item.substr(star + 1));
    const std::string_view entry = item.substr(0, star);
    const std::vector<CpuSet> one = masks ? parse_masks(entry) : parse_map(entry);
    if (!times || one.size() != 1) return {};
    for (int64_t i = 0; i < *times && static_cast<int>(entries.size()) < ranks; ++i) {
      entries.push_back(one[0]);
    }
  }
  return entries;
}

std::vector<int> every(size_t count) {
  std::vector<int> all;
  for (size_t i = 0; i < count; ++i) all.push_back(static_cast<int>(i));
  return all;
}

}  // namespace

std::vector<CpuSet> parse_masks(std::string_view list) {
  std::vector<CpuSet> masks;
  for (std::string_view item : split(list, ',')) {
    CpuSet cpus;
    if (!parse_mask(trim(item), &cpus)) return {};
    masks.push_back(cpus);
  }
  return masks;
}

std::vector<CpuSet> parse_map(std::string_view list) {
  std::vector<CpuSet> masks;
  for (std::string_view item : split(list, ',')) {
    const auto cpu = parse_count(trim(item));
    if (!cpu || *cpu >= CpuSet::kMost) return {};
    masks.push_back(CpuSet{static_cast<int>(*cpu)});
  }
  return masks;
}

std::vector<int> ranks_sharing_gpus(std::string_view tres_bind, int ranks, int local_rank) {
  for (const std::string_view form : {"map_gpu:", "mask_gpu:"}) {
    const size_t at = tres_bind.find(form);
    if (at == std::string_view::npos) continue;
    const std::string_view list = tres_bind.substr(at + form.size());
    const std::vector<CpuSet> entries =
        repeated(list.substr(0, list.find(';')), form[1] == 'a' && form[2] == 's', ranks);
    if (entries.empty()) return {};
    const auto of = [&](int rank) -> const CpuSet& {
      return entries[static_cast<size_t>(rank) % entries.size()];
    };
    std::vector<int> alike;
    for (int rank = 0; rank < ranks; ++rank) {
      if (of(rank) == of(local_rank)) alike.push_back(rank);
    }
    if (static_cast<int>(alike.size()) > std::max(of(local_rank).count(), 1)) return alike;
    return {};
  }
  return {};
}

StepFacts step_facts(const Getenv& get, int ranks, int local_rank, const CpuSet& own,
                     bool cpus_bound, std::string_view cgroup, bool denied) {
  StepFacts facts;
  facts.ranks = ranks;
  facts.local_rank = local_rank;
  facts.step_gpus = text_of(get, "SLURM_STEP_GPUS");
  // What somebody has exported in a step without GPUs is none of ours.
  const bool has_gpus = !facts.step_gpus.empty() || !text_of(get, "SLURM_GPUS_ON_NODE").empty();
  for (const char* variable : kVisible) {
    if (has_gpus && facts.tokens.empty()) facts.tokens = text_of(get, variable);
  }
  facts.gpus_bound = binds_gpus(text_of(get, "SLURMD_TRES_BIND"));
  facts.gpus_hidden = facts.gpus_bound && !facts.tokens.empty() && has_own_devices(cgroup, denied);
  if (!facts.tokens.empty()) {
    facts.sharing = ranks_sharing_gpus(text_of(get, "SLURMD_TRES_BIND"), ranks, local_rank);
  }
  facts.own = own;
  facts.cpus = own;
  facts.cpus_bound = cpus_bound;

  const std::string type = text_of(get, "SLURM_CPU_BIND_TYPE");
  const std::string list = text_of(get, "SLURM_CPU_BIND_LIST");
  std::vector<CpuSet> masks;
  if (starts_with(type, "mask_cpu")) masks = parse_masks(list);
  if (starts_with(type, "map_cpu")) masks = parse_map(list);
  // Slurm begins again with the first where there are more tasks than entries. One that is not
  // where this task is belongs to somebody else's step.
  const size_t mine = masks.empty() ? 0 : static_cast<size_t>(local_rank) % masks.size();
  if (masks.empty() || !masks[mine].includes(own)) {
    // Each task has CPUs of its own, in a way that this one cannot see.
    if (cpus_bound && !starts_with(type, "none")) facts.cpus = CpuSet();
    return facts;
  }
  for (const CpuSet& mask : masks) facts.cpus |= mask;
  if (!cpus_bound) return facts;
  for (int rank = 0; rank < ranks; ++rank) {
    facts.masks.push_back(masks[static_cast<size_t>(rank) % masks.size()]);
  }
  return facts;
}

bool has_work(const StepFacts& facts, const Settings& settings) {
  if (!facts.tokens.empty()) return true;
  for (Setting wish : {Setting::kGpuBind, Setting::kCpuBind, Setting::kNicBind, Setting::kReport}) {
    const std::string& text = settings.text(wish);
    if (settings.origin(wish) != Origin::kDefault && text != "none" && text != "off") return true;
  }
  return false;
}

Expected<BindRequest> request_of(const StepFacts& facts, const Topology& topology,
                                 const Settings& settings) {
  BindRequest request;
  const auto gpu = parse_gpu_choice(settings.text(Setting::kGpuBind));
  if (!gpu.ok()) return gpu.status();
  const auto cpu = parse_cpu_policy(settings.text(Setting::kCpuBind));
  if (!cpu.ok()) return cpu.status();
  const auto nic = parse_nic_policy(settings.text(Setting::kNicBind));
  if (!nic.ok()) return nic.status();
  request.gpu = *gpu;
  request.cpu = facts.cpus_bound ? CpuPolicy::kNone : *cpu;
  request.nic = *nic;
  request.ranks = facts.ranks;
  request.cpus = facts.cpus.empty() ? topology.cpus() : facts.cpus;
  request.masks = facts.masks;
  request.gpus = find_gpus(topology, facts.tokens, facts.step_gpus);
  if (!facts.gpus_bound) return request;
  request.ranks = 1;
  request.first_rank = facts.local_rank;
  request.gpus_hidden = facts.gpus_hidden;
  request.cpus = facts.own;
  request.masks = {facts.own};
  request.cpu = CpuPolicy::kNone;
  request.rank_gpus = {every(request.gpus.size())};
  if (facts.gpus_hidden) {
    // In a cgroup of its own each task counts from 0, and so does SLURM_STEP_GPUS.
    for (StepGpu& one : request.gpus) {
      if (one.token.find('-') == std::string::npos) one.gpu = -1;
    }
  }
  return request;
}

}  // namespace hvd
