// SPDX-License-Identifier: Apache-2.0
//
// Which GPU, cores and NIC each rank of a node gets. Pure: the same arguments give the same answer,
// so that every task of the node computes all ranks' places by itself and they agree without a
// word. It does nothing: environment_of (bind_environment.h) says what becomes of the answer.
//
// Far and near are counted between a GPU and CPUs (topology.h). If the step's CPUs are free to be
// dealt out, ranks take the GPUs that are nearest to any of them, spread over the node, and their
// cores follow the GPU. If Slurm has given each rank CPUs of its own (--cpu-bind), those stay, and
// GPUs are chosen so that the sum of the distances is minimal. GPUs are compared in PCI order, then
// by token, so that the order of the list does not matter where the policy does not say that it
// does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libhvd/base/status.h"
#include "spank/topology.h"

namespace hvd {

enum class GpuPolicy {
  kAuto,     // the same list for all ranks, permuted so that entry `local rank` is the nearest
  kClosest,  // each rank sees its nearest ones alone: as many as there are for each, at least one
  kRank,     // as Slurm lists them: entry `local rank`
  kMap,      // the entries that the user names, in turn
  kLeave,    // the list stays as it is
};

struct GpuChoice {
  GpuPolicy policy = GpuPolicy::kAuto;
  std::vector<int> map;  // kMap: positions in the step's list of GPUs, from 0
};

// "auto", "closest", "rank", "all", "none" (both leave the list) or "map:3:2:1:0".
Expected<GpuChoice> parse_gpu_choice(std::string_view text);

enum class CpuPolicy { kAuto, kNone };
Expected<CpuPolicy> parse_cpu_policy(std::string_view text);  // "auto", "none"

// kAuto: only where one is nearest; kNearest: also where several are, which are shared out.
enum class NicPolicy { kAuto, kNearest, kNone };
Expected<NicPolicy> parse_nic_policy(std::string_view text);  // "auto", "nearest", "none"

// An entry of CUDA_VISIBLE_DEVICES or its like, as it is: "0", "GPU-…", "MIG-…", "0.1".
struct StepGpu {
  std::string token;
  int gpu = -1;  // index in Topology::gpus, -1: it is not known where it is
};

bool is_mig(const StepGpu& gpu);

// Finds the tokens in the topology. [step_gpus] is SLURM_STEP_GPUS: the node's numbers of the
// same GPUs, where device cgroups have renumbered the tokens; "" if Slurm has not set it.
std::vector<StepGpu> find_gpus(const Topology& topology, std::string_view tokens,
                               std::string_view step_gpus);

struct BindRequest {
  int ranks = 1;              // of this step on this node
  int first_rank = 0;         // the local rank of the first: another where one is bound alone
  CpuSet cpus;                // those of the step on this node
  std::vector<StepGpu> gpus;  // those of the step on this node, in Slurm's order
  // What is explicit is not changed. One element for each rank, or none at all.
  std::vector<CpuSet> masks;                // --cpu-bind: the CPUs that Slurm has given to each
  std::vector<std::vector<int>> rank_gpus;  // --gpu-bind: positions in `gpus` that each one sees
  bool gpus_hidden = false;                 // a device cgroup keeps each rank from the others' GPUs
  GpuChoice gpu;
  CpuPolicy cpu = CpuPolicy::kAuto;
  NicPolicy nic = NicPolicy::kAuto;
};

struct RankPlace {
  std::vector<int> visible;  // its list of GPUs, as positions in BindRequest::gpus
  int gpu = -1;              // position in BindRequest::gpus of the one it works on, -1: none
  CpuSet cpus;               // where it runs: whole cores, as far as the step has them
  std::vector<int> nics;     // the nearest, as indices in Topology::nics
  int64_t distance = 0;      // from its GPU to `cpus`, in thousandths of a hop
};

// Something that will hurt, and how to mend it.
struct BindWarning {
  std::vector<int> ranks;  // local ranks whom it concerns; empty: all
  std::string text;        // a predicate: "share GPU 0"
  std::string remedy;      // "srun --gpus-per-node=4 gives each one of its own"
};

struct Binding {
  std::vector<RankPlace> ranks;  // one for each local rank
  bool sets_gpus = false;    // the lists are not what Slurm has set; else leave the variables alone
  bool shared_list = false;  // all ranks have the same list
  bool sets_cpus = false;    // ranks' CPUs are not what Slurm has set
  bool sets_nics = false;
  std::vector<BindWarning> warnings;
  int64_t distance = 0;  // the ranks' sum
};

// An error is a sentence about what the user asked for (a map with GPUs that are not there). Cost:
// a few assignment problems of as many rows as ranks.
Expected<Binding> bind(const Topology& topology, const BindRequest& request);

}  // namespace hvd
