// SPDX-License-Identifier: Apache-2.0
//
// What Slurm has decided about the GPUs and CPUs of a step on this node, as a task's environment
// tells it just before the program starts, and what is asked of bind() because of it. Pure.
//
// What is explicit stays: --gpu-bind and --gpus-per-task show in SLURMD_TRES_BIND, --cpu-bind in
// SLURM_CPU_BIND_TYPE before Slurm's own binding (task/affinity) has written there.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "libhvd/base/settings.h"
#include "spank/bind.h"

namespace hvd {

struct StepFacts {
  int ranks = 1;       // of the step on this node
  int local_rank = 0;  // of this task
  std::string tokens;  // the GPUs that this task sees: CUDA_VISIBLE_DEVICES or its like; "": none
  std::string step_gpus;      // SLURM_STEP_GPUS
  bool gpus_bound = false;    // by Slurm, for each task by itself; of the others nothing is known
  bool gpus_hidden = false;   // by a device cgroup of this task's own
  std::vector<int> sharing;   // local ranks, this one too, that --gpu-bind gives too few GPUs
  CpuSet own;                 // where this task may run
  CpuSet cpus;                // where the tasks of the step may run on this node; empty: unknown
  bool cpus_bound = false;    // --cpu-bind: leave them
  std::vector<CpuSet> masks;  // --cpu-bind: each task's; empty if they are not known
};

// `get` reads the task's environment, `own` is the task's affinity, `cpus_bound` says that the user
// gave --cpu-bind, `cgroup` is what /proc/self/cgroup says. `denied`: this task may not open one of
// the node's GPUs; with the second version of cgroups, where a task's name says nothing of devices,
// that tells.
StepFacts step_facts(const Getenv& get, int ranks, int local_rank, const CpuSet& own,
                     bool cpus_bound, std::string_view cgroup, bool denied = false);

// Whether there is anything to bind or to tell: a GPU, or a wish. Else hwloc need not be opened.
bool has_work(const StepFacts& facts, const Settings& settings);

// A step whose GPUs Slurm has bound is asked for one rank: this one.
Expected<BindRequest> request_of(const StepFacts& facts, const Topology& topology,
                                 const Settings& settings);

// "0x1,0x2" and "1,0" as --cpu-bind=mask_cpu: and map_cpu: have them, one set for each entry;
// nothing if any cannot be read.
std::vector<CpuSet> parse_masks(std::string_view list);
std::vector<CpuSet> parse_map(std::string_view list);

// SLURMD_TRES_BIND, as in "gpu:map_gpu:0,0*3" and "gpu:mask_gpu:0x3,0xc": the local ranks that have
// the very GPUs of this one, itself among them, if those are fewer than the ranks; else nothing.
std::vector<int> ranks_sharing_gpus(std::string_view tres_bind, int ranks, int local_rank);

}  // namespace hvd
