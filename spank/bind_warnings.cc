// SPDX-License-Identifier: Apache-2.0
//
// What in a binding will hurt, in words that name the option that mends it.
#include <algorithm>
#include <map>

#include "spank/bind_parts.h"

namespace hvd {
namespace {

// Fewer, and the threads that move tensors take the training's core.
constexpr int kCoresBesideGpu = 2;

int cores_of(const Topology& topology, const CpuSet& cpus) {
  return static_cast<int>(std::count_if(topology.cores.begin(), topology.cores.end(),
                                        [&](const Core& core) { return core.cpus.meets(cpus); }));
}

// Hardware threads of a core, as Slurm counts CPUs.
int threads_of(const Topology& topology) {
  int most = 1;
  for (const Core& core : topology.cores) most = std::max(most, core.cpus.count());
  return most;
}

std::string counted(int n, const char* what) {
  return format("%d %s%s", n, what, n == 1 ? "" : "s");
}

void find_few_cores(const Topology& topology, const Binding& binding,
                    std::vector<BindWarning>* warnings) {
  std::map<int, std::vector<int>> ranks_with;
  for (size_t rank = 0; rank < binding.ranks.size(); ++rank) {
    const RankPlace& its = binding.ranks[rank];
    const int cores = cores_of(topology, its.cpus);
    if (its.gpu >= 0 && cores < kCoresBesideGpu) {
      ranks_with[cores].push_back(static_cast<int>(rank));
    }
  }
  const int enough = kCoresBesideGpu * threads_of(topology);
  for (const auto& [cores, ranks] : ranks_with) {
    warnings->push_back(
        {ranks,
         (ranks.size() == 1 ? "has " : "have ") + counted(cores, "core") +
             " beside a GPU, and the threads that move tensors need one of their own",
         format("srun --cpus-per-task=%d (-c%d) or more", enough, enough)});
  }
}

void find_shared_cores(const Topology& topology, const BindRequest& request, const Binding& binding,
                       std::vector<BindWarning>* warnings) {
  if (!binding.sets_cpus && request.masks.empty()) return;
  std::map<std::string, std::vector<int>> ranks_on;
  for (size_t rank = 0; rank < binding.ranks.size(); ++rank) {
    ranks_on[binding.ranks[rank].cpus.list()].push_back(static_cast<int>(rank));
  }
  for (const auto& [list, ranks] : ranks_on) {
    const auto cpus = CpuSet::parse(list);
    if (!cpus || ranks.size() < 2) continue;
    const int cores = cores_of(topology, *cpus);
    if (cores >= static_cast<int>(ranks.size())) continue;
    warnings->push_back({ranks, "share " + counted(cores, "core") + " (CPUs " + list + ")",
                         "fewer tasks on the node (--ntasks-per-node), or more CPUs for each "
                         "(--cpus-per-task, -c; --exclusive gets all)"});
  }
}

// Of several sockets.
bool is_far(const Topology& topology, const Place& place, const CpuSet& cpus) {
  for (int cpu = cpus.first(); cpu >= 0; cpu = cpus.next(cpu)) {
    if (hops(topology, place, cpu) == kMostHops) return true;
  }
  return false;
}

void find_far_gpus(const Topology& topology, const BindRequest& request, const Binding& binding,
                   std::vector<BindWarning>* warnings) {
  if (!binding.sets_cpus && request.masks.empty()) return;
  BindWarning far;
  for (size_t rank = 0; rank < binding.ranks.size(); ++rank) {
    const RankPlace& its = binding.ranks[rank];
    const Place* place = place_of(topology, request, its.gpu);
    if (place != nullptr && is_far(topology, *place, its.cpus)) {
      far.ranks.push_back(static_cast<int>(rank));
    }
  }
  if (far.ranks.empty()) return;
  far.text = far.ranks.size() == 1 ? "runs on another socket than its GPU"
                                   : "run on another socket than their GPUs";
  far.remedy = request.masks.empty() ? "the step has no CPUs near it: srun --exclusive, or sbatch "
                                       "--gres-flags=enforce-binding"
                                     : "without --cpu-bind the cores follow the GPUs";
  warnings->push_back(std::move(far));
}

void find_crowded_gpus(const BindRequest& request, const Binding& binding,
                       std::vector<BindWarning>* warnings) {
  std::map<int, std::vector<int>> ranks_on;
  for (size_t rank = 0; rank < binding.ranks.size(); ++rank) {
    const int gpu = binding.ranks[rank].gpu;
    if (gpu >= 0) ranks_on[gpu].push_back(static_cast<int>(rank));
  }
  for (const auto& [gpu, ranks] : ranks_on) {
    if (ranks.size() < 2) continue;
    const std::string& token = request.gpus[static_cast<size_t>(gpu)].token;
    warnings->push_back({ranks, "share GPU " + token,
                         format("srun --gpus-per-node=%d, or --ntasks-per-node=%zu", request.ranks,
                                request.gpus.size())});
  }
}

void find_unknown_gpus(const BindRequest& request, const Topology& topology,
                       std::vector<BindWarning>* warnings) {
  // Such a rank counts its own from 0.
  if (request.gpus_hidden) {
    warnings->push_back({{},
                         "the ranks see GPUs of their own alone, because Slurm keeps the others "
                         "from them",
                         "--gpus-per-node=N, or --gpu-bind=none beside --gpus-per-task, lets them "
                         "reach each other directly"});
    return;
  }
  std::string unknown;
  for (const StepGpu& gpu : request.gpus) {
    // Where an instance of MIG is only the driver knows.
    if (gpu.gpu < 0 && !is_mig(gpu)) unknown += (unknown.empty() ? "" : ", ") + gpu.token;
  }
  if (unknown.empty()) return;
  warnings->push_back(
      {{},
       format("GPU %s cannot be found among the %zu of the node's topology, so nothing is bound to "
              "it",
              unknown.c_str(), topology.gpus.size()),
       "administrators can name a topology with topology=FILE.xml in plugstack.conf"});
}

void find_mig(const BindRequest& request, std::vector<BindWarning>* warnings) {
  const auto instances = std::count_if(request.gpus.begin(), request.gpus.end(), is_mig);
  if (instances == 0 || request.ranks < 2) return;
  warnings->push_back({{},
                       "instances of MIG do not see each other: tensors go through the host, and "
                       "NCCL refuses two instances of one GPU",
                       "whole GPUs, as in srun --gpus-per-node=2, are faster"});
}

}  // namespace

std::vector<BindWarning> find_trouble(const Topology& topology, const BindRequest& request,
                                      const Binding& binding) {
  std::vector<BindWarning> warnings;
  find_unknown_gpus(request, topology, &warnings);
  find_mig(request, &warnings);
  find_crowded_gpus(request, binding, &warnings);
  find_far_gpus(topology, request, binding, &warnings);
  find_few_cores(topology, binding, &warnings);
  find_shared_cores(topology, request, binding, &warnings);
  for (BindWarning& warning : warnings) {
    for (int& rank : warning.ranks) rank += request.first_rank;
  }
  return warnings;
}

}  // namespace hvd
