// SPDX-License-Identifier: Apache-2.0
//
// What Slurm says of a step's GPUs and CPUs in a task's environment: the rows were seen on a live
// cluster, with and without device cgroups.
#include "spank/step_facts.h"

#include <map>

#include "tests/unit/catch.h"

namespace hvd {
namespace {

using Environment = std::map<std::string, std::string>;

Getenv reader(const Environment& environment) {
  return [&environment](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  };
}

constexpr const char* kOwnDevices =
    "4:freezer:/x\n3:devices,cpu:/slurm_node0/uid_1/job_2/step_0/task_1\n";
constexpr const char* kStepDevices =
    "3:devices:/slurm_node0/uid_1/job_2/step_0\n2:cpuset:/a/task_1\n";

// Two packages of four cores, a GPU in each half of a package.
Topology four_gpus() {
  Topology node;
  for (int p = 0; p < 2; ++p) {
    node.packages.push_back({p, CpuSet::range(4 * p, 4 * p + 3)});
    node.numas.push_back({p, CpuSet::range(4 * p, 4 * p + 3)});
  }
  for (int cpu = 0; cpu < 8; ++cpu) node.cores.push_back({CpuSet{cpu}, -1, -1});
  for (int g = 0; g < 4; ++g) {
    Gpu gpu;
    gpu.place.pci = "0000:0" + std::to_string(g) + ":00.0";
    gpu.place.cpus = CpuSet::range(4 * (g / 2), 4 * (g / 2) + 3);
    node.gpus.push_back(gpu);
  }
  finish_topology(&node);
  return node;
}

std::vector<int> where(const BindRequest& request) {
  std::vector<int> gpus;
  for (const StepGpu& one : request.gpus) gpus.push_back(one.gpu);
  return gpus;
}

TEST_CASE("the GPUs of a step as Slurm lists them", "[bind]") {
  const struct {
    const char* what;
    Environment environment;
    const char* cgroup;
    bool bound;
    bool hidden;
    int ranks;              // asked of bind()
    std::vector<int> gpus;  // of the node
  } cases[] = {
      {"no GPU", {}, "", false, false, 2, {}},
      {"no GPU, and somebody has exported a list",
       {{"CUDA_VISIBLE_DEVICES", "0,1"}},
       "",
       false,
       false,
       2,
       {}},
      {"--gres=gpu:2",
       {{"CUDA_VISIBLE_DEVICES", "0,1"}, {"SLURM_STEP_GPUS", "0,1"}},
       "",
       false,
       false,
       2,
       {0, 1}},
      {"another job holds 0 and 1",
       {{"CUDA_VISIBLE_DEVICES", "2,3"}, {"SLURM_STEP_GPUS", "2,3"}},
       "",
       false,
       false,
       2,
       {2, 3}},
      {"renumbered by a device cgroup of the step",
       {{"CUDA_VISIBLE_DEVICES", "0,1"}, {"SLURM_STEP_GPUS", "1,2"}},
       kStepDevices,
       false,
       false,
       2,
       {1, 2}},
      {"AMD's alone",
       {{"ROCR_VISIBLE_DEVICES", "1,3"}, {"SLURM_STEP_GPUS", "1,3"}},
       "",
       false,
       false,
       2,
       {1, 3}},
      {"--gpus-per-task=1",
       {{"CUDA_VISIBLE_DEVICES", "1"},
        {"SLURM_STEP_GPUS", "1"},
        {"SLURMD_TRES_BIND", "gpu:per_task:1"}},
       "",
       true,
       false,
       1,
       {1}},
      {"the same in a cgroup of the task's own",
       {{"CUDA_VISIBLE_DEVICES", "0"},
        {"SLURM_STEP_GPUS", "0"},
        {"SLURMD_TRES_BIND", "gpu:per_task:1"}},
       kOwnDevices,
       true,
       true,
       1,
       {-1}},
      {"--gpu-bind=map_gpu:3,1",
       {{"CUDA_VISIBLE_DEVICES", "3"},
        {"SLURM_STEP_GPUS", "3"},
        {"SLURMD_TRES_BIND", "gpu:map:3,1"}},
       "",
       true,
       false,
       1,
       {3}},
      {"--gpu-bind=none",
       {{"SLURM_GPUS_ON_NODE", "4"}, {"SLURMD_TRES_BIND", "gpu:none"}},
       "",
       true,
       false,
       1,
       {}},
      {"the name of newer releases",
       {{"CUDA_VISIBLE_DEVICES", "0"},
        {"SLURM_GPUS_ON_NODE", "2"},
        {"SLURMD_TRES_BIND", "gres/gpu:per_task:1"}},
       "",
       true,
       false,
       1,
       {0}},
      {"other resources are bound",
       {{"CUDA_VISIBLE_DEVICES", "0,1"},
        {"SLURM_STEP_GPUS", "0,1"},
        {"SLURMD_TRES_BIND", "nic:per_task:1"}},
       "",
       false,
       false,
       2,
       {0, 1}},
  };
  const Topology node = four_gpus();
  for (const auto& c : cases) {
    CAPTURE(c.what);
    const StepFacts facts =
        step_facts(reader(c.environment), 2, 1, CpuSet::range(0, 7), false, c.cgroup);
    CHECK(facts.gpus_bound == c.bound);
    CHECK(facts.gpus_hidden == c.hidden);
    const auto request = request_of(facts, node, Settings());
    REQUIRE(request.ok());
    CHECK(request->ranks == c.ranks);
    CHECK(where(*request) == c.gpus);
    CHECK(request->first_rank == (c.bound ? 1 : 0));
    CHECK(request->gpus_hidden == c.hidden);
    CHECK(has_work(facts, Settings()) == !c.gpus.empty());
  }
}

TEST_CASE(
    "the CPUs of a step: dealt out where Slurm's own binding stands, left where the user's does",
    "[bind]") {
  const struct {
    const char* what;
    Environment environment;
    CpuSet own;
    bool typed;
    CpuSet cpus;
    std::vector<CpuSet> masks;
    bool deals;
  } cases[] = {
      {"no binding", {}, CpuSet::range(0, 3), false, CpuSet::range(0, 3), {}, true},
      {"Slurm's own",
       {{"SLURM_CPU_BIND_TYPE", "mask_cpu:"}, {"SLURM_CPU_BIND_LIST", "0x3,0x30"}},
       CpuSet{4, 5},
       false,
       CpuSet{0, 1, 4, 5},
       {},
       true},
      {"--cpu-bind=mask_cpu",
       {{"SLURM_CPU_BIND_TYPE", "mask_cpu:"}, {"SLURM_CPU_BIND_LIST", "0x3,0x30"}},
       CpuSet{4, 5},
       true,
       CpuSet{0, 1, 4, 5},
       {CpuSet{0, 1}, CpuSet{4, 5}},
       false},
      {"--cpu-bind=map_cpu",
       {{"SLURM_CPU_BIND_TYPE", "map_cpu:"}, {"SLURM_CPU_BIND_LIST", "1,0"}},
       CpuSet{0},
       true,
       CpuSet{0, 1},
       {CpuSet{1}, CpuSet{0}},
       false},
      {"fewer entries than tasks",
       {{"SLURM_CPU_BIND_TYPE", "mask_cpu:"}, {"SLURM_CPU_BIND_LIST", "0xf"}},
       CpuSet::range(0, 3),
       true,
       CpuSet::range(0, 3),
       {CpuSet::range(0, 3), CpuSet::range(0, 3)},
       false},
      {"--cpu-bind=none",
       {{"SLURM_CPU_BIND_TYPE", "none"}},
       CpuSet::range(0, 7),
       true,
       CpuSet::range(0, 7),
       {},
       false},
      {"--cpu-bind=rank",
       {{"SLURM_CPU_BIND_TYPE", "rank"}},
       CpuSet{1},
       true,
       CpuSet::range(0, 7),
       {},
       false},
      {"a list of an outer step",
       {{"SLURM_CPU_BIND_TYPE", "mask_cpu:"}, {"SLURM_CPU_BIND_LIST", "0x3,0x30"}},
       CpuSet{6, 7},
       false,
       CpuSet{6, 7},
       {},
       true},
      {"no list at all",
       {{"SLURM_CPU_BIND_TYPE", "mask_cpu:"}, {"SLURM_CPU_BIND_LIST", "0xg"}},
       CpuSet{6, 7},
       false,
       CpuSet{6, 7},
       {},
       true},
  };
  const Topology node = four_gpus();
  for (const auto& c : cases) {
    CAPTURE(c.what);
    const StepFacts facts = step_facts(reader(c.environment), 2, 1, c.own, c.typed, "");
    const auto request = request_of(facts, node, Settings());
    REQUIRE(request.ok());
    CHECK(request->cpus == c.cpus);
    CHECK(request->masks == c.masks);
    CHECK((request->cpu == CpuPolicy::kAuto) == c.deals);
  }
}

TEST_CASE("hwloc is opened for a GPU or a wish, and for nothing else", "[bind]") {
  const struct {
    Setting setting;
    const char* value;
    bool work;
  } cases[] = {
      {Setting::kGpuBind, "closest", true}, {Setting::kGpuBind, "none", false},
      {Setting::kCpuBind, "auto", true},    {Setting::kCpuBind, "none", false},
      {Setting::kNicBind, "nearest", true}, {Setting::kReport, "on", true},
      {Setting::kReport, "json", true},     {Setting::kReport, "off", false},
      {Setting::kSlots, "8", false},
  };
  for (const auto& c : cases) {
    CAPTURE(setting_row(c.setting).key, c.value);
    Settings settings;
    REQUIRE(settings.set(c.setting, c.value, Origin::kOption).ok());
    CHECK(has_work(StepFacts(), settings) == c.work);
  }
}

TEST_CASE("the second version of cgroups: a task that may not open a GPU has a cgroup of its own",
          "[bind]") {
  const Environment bound = {{"CUDA_VISIBLE_DEVICES", "0"},
                             {"SLURM_STEP_GPUS", "0"},
                             {"SLURMD_TRES_BIND", "gpu:per_task:1"}};
  const Environment free = {{"CUDA_VISIBLE_DEVICES", "0,1"}, {"SLURM_STEP_GPUS", "0,1"}};
  const std::string task = "0::/system.slice/n0_slurmstepd.scope/job_2/step_0/user/task_1\n";
  const std::string step = "0::/system.slice/n0_slurmstepd.scope/job_2/step_0/user\n";
  const struct {
    const Environment& environment;
    std::string cgroup;
    bool denied;
    bool hidden;
  } cases[] = {
      {bound, task, true, true},
      {bound, task, false, false},
      {bound, step, true, false},
      {bound, "5:devices:/\n" + task, true, true},
      {bound, "5:devices:/slurm/uid_1/job_2/step_0/task_1\n0::/\n", false, true},
      {free, task, true, false},
  };
  for (const auto& c : cases) {
    CAPTURE(c.cgroup, c.denied);
    CHECK(
        step_facts(reader(c.environment), 2, 1, CpuSet{0}, false, c.cgroup, c.denied).gpus_hidden ==
        c.hidden);
  }
}

TEST_CASE("ranks to whom --gpu-bind gives the same GPU know each other", "[bind]") {
  using Ranks = std::vector<int>;
  const struct {
    const char* bind;
    int ranks;
    int local_rank;
    Ranks sharing;
  } cases[] = {
      {"", 2, 0, {}},
      {"gpu:per_task:1", 2, 0, {}},
      {"gpu:map_gpu:3,1", 2, 0, {}},
      {"gpu:map_gpu:3,1", 4, 1, {1, 3}},  // Slurm begins again with the first
      {"gpu:map_gpu:0,0", 2, 1, {0, 1}},
      {"gpu:map_gpu:0*2,1", 3, 0, {0, 1}},
      {"gpu:map_gpu:0*2,1", 3, 2, {}},
      {"gpu:map_gpu:0*99999999999999", 2, 0, {0, 1}},
      {"nic:none;gpu:verbose,map_gpu:2,2;nic:none", 2, 0, {0, 1}},
      {"gpu:mask_gpu:0x3,0xc", 2, 0, {}},
      {"gpu:mask_gpu:0x3", 2, 0, {}},  // two for two
      {"gpu:mask_gpu:0x3", 3, 0, {0, 1, 2}},
      {"gpu:mask_gpu:0x1,0x1", 2, 0, {0, 1}},
      {"gpu:mask_gpu:zz", 2, 0, {}},
      {"gpu:map_gpu:", 2, 0, {}},
      {"gpu:map_gpu:0*", 2, 0, {}},
      {"gpu:map_gpu:0*0", 2, 0, {}},
  };
  for (const auto& c : cases) {
    CAPTURE(c.bind, c.ranks, c.local_rank);
    CHECK(ranks_sharing_gpus(c.bind, c.ranks, c.local_rank) == c.sharing);
  }
}

TEST_CASE("masks and maps of CPUs, as srun takes them", "[bind]") {
  CHECK(parse_masks("0x1,0x2") == std::vector<CpuSet>{CpuSet{0}, CpuSet{1}});
  CHECK(parse_masks("F0") == std::vector<CpuSet>{CpuSet::range(4, 7)});
  CHECK(parse_masks("0x10000000000000001") == std::vector<CpuSet>{CpuSet{0, 64}});
  CHECK(parse_map("1, 0") == std::vector<CpuSet>{CpuSet{1}, CpuSet{0}});
  for (const char* bad : {"", "0x", "0x1,", "0x1,zz", "-1"}) {
    CAPTURE(bad);
    CHECK(parse_masks(bad).empty());
  }
  CHECK(parse_masks(std::string(1 << 20, 'f')).empty());
  for (const char* bad : {"", "1,", "x", "-1", "99999", "18446744073709551616"}) {
    CAPTURE(bad);
    CHECK(parse_map(bad).empty());
  }
}

}  // namespace
}  // namespace hvd
