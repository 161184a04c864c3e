// SPDX-License-Identifier: Apache-2.0
//
// The plugin on a node: what a task's program will find in its environment, and how it ends when
// that cannot be right.
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "tests/fakes/spank/slurm.h"
#include "tests/unit/catch.h"
#include "tests/unit/folder.h"

using fake::Outcome;
using fake::slurm;

namespace {

using Environment = std::map<std::string, std::string>;

// Rank 3 of 4, second task on the second of 2 nodes of 2.
Environment task_of_slurm() {
  return {{"SLURM_PROCID", "3"},        {"SLURM_LOCALID", "1"},
          {"SLURM_NTASKS", "4"},        {"SLURM_JOB_ID", "12"},
          {"SLURMD_NODENAME", "node1"}, {"PMIX_NAMESPACE", "slurm.pmix.12.0"},
          {"PMIX_RANK", "3"},           {"SLURM_PMIX_MAPPING_SERV", "(vector,(0,2,2))"},
          {"USER_HAS", "this"}};
}

struct Step {
  Environment task = task_of_slurm();
  const char* option = "";
  bool given = true;
  std::vector<std::string> plugstack;
  uint32_t job_id = 12;
  uint32_t step_id = 0;
  int local_task = 1;
  std::string refused;
};

struct Result {
  int status;
  std::string err;
  Environment task;       // afterwards, if status is 0
  std::vector<int> cpus;  // where it runs then
};

// Of this process, in ascending order.
std::vector<int> own_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

// Runs the callbacks as slurmstepd does in the child that becomes the task.
Result run(const Step& step) {
  const Outcome outcome = fake::in_child([&] {
    slurm().context = S_CTX_REMOTE;
    // Whether the package is installed where this is tested must not matter.
    slurm().plugstack = {"python-dir=/nowhere"};
    slurm().plugstack.insert(slurm().plugstack.end(), step.plugstack.begin(), step.plugstack.end());
    slurm().job_id = step.job_id;
    slurm().step_id = step.step_id;
    slurm().local_task = step.local_task;
    slurm().task = step.task;
    slurm().refused_variable = step.refused;
    fake::call_init();
    if (step.given) {
      // As root in slurmstepd, up to twice, with the value in different spellings.
      if (fake::call_option(step.option) != 0 || fake::call_option("") != 0) _exit(99);
    }
    fake::call_init_post_opt();
    slurm().option_given = step.given;
    slurm().option_value = step.option;
    if (fake::call_task_init_privileged() != 0) _exit(97);
    if (fake::call_task_init() != 0) _exit(98);
    for (const int cpu : own_cpus()) printf("%d ", cpu);
    printf("\n");
    for (const auto& [name, value] : slurm().task) printf("%s=%s\n", name.c_str(), value.c_str());
  });
  Result result = {outcome.status, outcome.err, {}, {}};
  const size_t first_line = outcome.out.find('\n');
  if (first_line == std::string::npos) return result;
  for (size_t at = 0; at < first_line; at = outcome.out.find(' ', at) + 1) {
    result.cpus.push_back(atoi(&outcome.out[at]));
  }
  for (size_t at = first_line + 1; at < outcome.out.size();) {
    const size_t end = outcome.out.find('\n', at);
    const std::string line = outcome.out.substr(at, end - at);
    result.task[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
    at = end + 1;
  }
  return result;
}

Environment with(Environment all, const Environment& more) {
  for (const auto& [name, value] : more) all[name] = value;
  return all;
}

const Environment kPlaced = {
    {"HOROVOD_RANK", "3"},
    {"HOROVOD_SIZE", "4"},
    {"HOROVOD_LOCAL_RANK", "1"},
    {"HOROVOD_LOCAL_SIZE", "2"},
    {"HOROVOD_CROSS_RANK", "1"},
    {"HOROVOD_CROSS_SIZE", "2"},
    {"HOROVOD_HOSTNAME", "node1"},
    {"HOROVOD_INTERNAL_HANDOFF", "step=12.0,node=1,hostname=plugin,site=,option="}};

}  // namespace

TEST_CASE("a task of a step with --horovod finds its place", "[spank]") {
  for (const char* option :
       {static_cast<const char*>(nullptr), "", "(null)", "inherited", "inherited,"}) {
    Step step;
    step.option = option;
    const Result result = run(step);
    CHECK(result.status == 0);
    CHECK(result.err == "");
    CHECK(result.task == with(task_of_slurm(), kPlaced));
  }
}

TEST_CASE("steps without the option, switched off, or not of tasks stay as they are", "[spank]") {
  Step without;
  without.given = false;
  Step off;
  off.option = "off";
  Step batch;
  batch.step_id = 0xfffffffb;
  Step interactive;
  interactive.step_id = 0xfffffffa;
  Step external;
  external.step_id = 0xfffffffc;
  for (Step step : {without, off, batch, interactive, external}) {
    step.plugstack = {"slots=99"};  // not even this is looked at
    const Result result = run(step);
    CHECK(result.status == 0);
    CHECK(result.err == "");
    CHECK(result.task == task_of_slurm());
  }
}

TEST_CASE("built-in < site < environment < option", "[spank]") {
  Step step;
  step.plugstack = {"peer-timeout=30s", "slots=8", "start-timeout=60s", "cycle-time=1"};
  step.task["HOROVOD_SLOTS"] = "16";
  step.task["HOROVOD_START_TIMEOUT"] = "";
  step.task["HOROVOD_FUSION_THRESHOLD"] = "not even looked at";
  step.option = "fusion-threshold=64M,cycle-time=2";
  const Result result = run(step);
  CHECK(result.status == 0);
  CHECK(result.task.at("HOROVOD_PEER_TIMEOUT") == "30");
  CHECK(result.task.at("HOROVOD_SLOTS") == "16");
  CHECK(result.task.at("HOROVOD_START_TIMEOUT") == "60");
  CHECK(result.task.at("HOROVOD_CYCLE_TIME") == "2");
  CHECK(result.task.at("HOROVOD_FUSION_THRESHOLD") == "67108864");
  CHECK(result.task.count("HOROVOD_CACHE_CAPACITY") == 0);
  CHECK(result.task.at("HOROVOD_INTERNAL_HANDOFF") ==
        "step=12.0,node=1,hostname=plugin,site=start-timeout:peer-timeout,"
        "option=fusion-threshold:cycle-time");
}

TEST_CASE("a task finds the package horovod first on its PYTHONPATH, unless python is off",
          "[spank]") {
  hvd::test::Folder installed;  // the package's files are looked for
  const std::string dir = installed.path();
  REQUIRE(mkdir((dir + "/horovod").c_str(), 0755) == 0);
  REQUIRE(fclose(fopen((dir + "/horovod/__init__.py").c_str(), "w")) == 0);
  const struct {
    const char* option;
    const char* site;      // besides python-dir
    const char* variable;  // HOROVOD_PYTHON
    std::string before;    // PYTHONPATH; "" is unset
    std::string after;
  } cases[] = {
      {"", nullptr, "", "", dir},
      {"", nullptr, "", "/home/a:/b", dir + ":/home/a:/b"},
      {"", nullptr, "", ":/b", dir + "::/b"},
      {"", nullptr, "", dir, dir},
      {"", nullptr, "", dir + ":/b", dir + ":/b"},
      {"", nullptr, "", dir + "2:/b", dir + ":" + dir + "2:/b"},
      {"", nullptr, "", "/b:" + dir, dir + ":/b:" + dir},
      {"python=off", nullptr, "", "/b", "/b"},
      {"python=off", nullptr, "1", "", ""},
      {"", "python=off", "", "/b", "/b"},
      {"", "python=off", "on", "/b", dir + ":/b"},
      {"python", "python=off", "off", "/b", dir + ":/b"},
      {"", nullptr, "off", "/b", "/b"},
      {"", nullptr, "perhaps", "/b", dir + ":/b"},  // hvd_init complains
  };
  for (const auto& c : cases) {
    CAPTURE(c.option, c.variable, c.before);
    Step step;
    step.option = c.option;
    step.plugstack = {"python-dir=" + dir};
    if (c.site != nullptr) step.plugstack.emplace_back(c.site);
    if (c.variable[0] != '\0') step.task["HOROVOD_PYTHON"] = c.variable;
    if (!c.before.empty()) step.task["PYTHONPATH"] = c.before;
    const Result result = run(step);
    CHECK(result.status == 0);
    CHECK(result.err == "");
    const auto path = result.task.find("PYTHONPATH");
    CHECK((path == result.task.end() ? "" : path->second) == c.after);
  }
  Step elsewhere;
  elsewhere.plugstack = {"python-dir=" + dir + "/none"};
  elsewhere.task["PYTHONPATH"] = "/b";
  CHECK(run(elsewhere).task.at("PYTHONPATH") == "/b");
}

// What env=torch sets for rank 3, on the second node of node0 and node1.
const Environment kTorch = {
    {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "20732"},  {"RANK", "3"},       {"WORLD_SIZE", "4"},
    {"LOCAL_RANK", "1"},      {"LOCAL_WORLD_SIZE", "2"}, {"GROUP_RANK", "1"}, {"NODE_RANK", "1"}};

Step step_with(const char* option, const Environment& more = {}) {
  Step step;
  step.option = option;
  step.task = with(with(step.task, {{"SLURM_STEP_NODELIST", "node[0-1]"}}), more);
  return step;
}

// Those of kTorch's names that a task has.
Environment torch_part(const Environment& task) {
  Environment part;
  for (const auto& [name, value] : kTorch) {
    const auto found = task.find(name);
    if (found != task.end()) part.insert(*found);
  }
  return part;
}

TEST_CASE("torch.distributed's variables are there with env=torch, and only then", "[spank]") {
  const struct {
    const char* option;
    const char* site;
    const char* variable;  // HOROVOD_ENV
    bool there;
  } cases[] = {
      {"", nullptr, nullptr, false},         {"env=off", nullptr, "torch", false},
      {"env=torch", nullptr, nullptr, true}, {"", nullptr, "torch", true},
      {"", nullptr, "Torch", true},          {"", nullptr, "troch", false},  // hvd_init complains
      {"", "env=torch", nullptr, true},      {"", "env=torch", "off", false},
      {"", "lock=env", "torch", false},      {"off", "env=torch", nullptr, false},
  };
  for (const auto& c : cases) {
    CAPTURE(c.option, c.site, c.variable);
    Step step = step_with(c.option);
    if (c.site != nullptr) step.plugstack = {c.site};
    if (c.variable != nullptr) step.task["HOROVOD_ENV"] = c.variable;
    const Result result = run(step);
    CHECK(result.status == 0);
    CHECK(result.err == "");
    CHECK(torch_part(result.task) == (c.there ? kTorch : Environment()));
  }
}

TEST_CASE("env=torch leaves the user's address and port, and nothing of it to a nested step",
          "[spank]") {
  const Result outer = run(step_with("env=torch", {{"MASTER_PORT", "4711"}, {"RANK", "99"}}));
  CHECK(torch_part(outer.task) == with(kTorch, {{"MASTER_PORT", "4711"}}));
  // On another node, of another step, with and without env=torch and PMIx of its own.
  Step nested;
  nested.task =
      with(outer.task, {{"SLURMD_NODENAME", "node5"}, {"SLURM_STEP_NODELIST", "node[4-5]"}});
  nested.task.erase("HOROVOD_ENV");
  nested.step_id = 7;
  nested.option = "inherited,env=torch";
  CHECK(torch_part(run(nested).task) == Environment{{"MASTER_PORT", "4711"}});
  nested.option = "off";
  CHECK(torch_part(run(nested).task) == Environment{{"MASTER_PORT", "4711"}});
  nested.task["PMIX_NAMESPACE"] = "slurm.pmix.12.7";
  nested.option = "";
  CHECK(torch_part(run(nested).task) == Environment{{"MASTER_PORT", "4711"}});
  nested.option = "env=torch";
  CHECK(torch_part(run(nested).task) ==
        with(kTorch, {{"MASTER_PORT", "4711"}, {"MASTER_ADDR", "node4"}}));
}

TEST_CASE("what env=torch cannot find out is said by the node's first task", "[spank]") {
  Step step;
  step.option = "env=torch";
  CHECK(run(step).status == 2);
  step.local_task = 0;
  CHECK(run(step).err ==
        "horovod: on node1: env=torch: Slurm has not set SLURM_STEP_NODELIST. Set MASTER_ADDR to "
        "the host of rank 0\n");
  step.task["MASTER_ADDR"] = "10.0.0.1";
  CHECK(run(step).status == 0);
}

// Two packages of one core each, at the first two CPUs of this process; a GPU and a card at each,
// the first in PCI order at the second.
std::string two_packages(int first, int second) {
  std::string xml =
      "<?xml version=\"1.0\"?><topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" "
      "cpuset=\"CPUS\">";
  char text[1024];
  unsigned all = 0;
  const struct { int package, cpu, bus; } packages[] = {{0, first, 0x81}, {1, second, 1}};
  for (const auto& p : packages) {
    const unsigned mask = 1U << p.cpu;
    all |= mask;
    snprintf(text, sizeof text,
             "<object type=\"Package\" os_index=\"%d\" cpuset=\"0x%x\">"
             "<object type=\"NUMANode\" os_index=\"%d\" cpuset=\"0x%x\" nodeset=\"0x%x\"/>"
             "<object type=\"Core\" os_index=\"%d\" cpuset=\"0x%x\">"
             "<object type=\"PU\" os_index=\"%d\" cpuset=\"0x%x\"/></object>"
             "<object type=\"Bridge\" bridge_type=\"0-1\" depth=\"0\" "
             "bridge_pci=\"0000:[%02x-%02x]\">"
             "<object type=\"PCIDev\" pci_busid=\"0000:%02x:00.0\" "
             "pci_type=\"0302 [10de:1db1] [0000:0000] a1\"/></object></object>",
             p.package, mask, p.package, mask, 1U << p.package, p.cpu, mask, p.cpu, mask,
             p.bus & 0x80, p.bus | 0x7f, p.bus);
    xml += text;
  }
  snprintf(text, sizeof text, "0x%x", all);
  xml.replace(xml.find("CPUS"), 4, text);
  return xml + "</object></topology>";
}

TEST_CASE("a task runs beside its GPU, unless it or the site has no wish, or srun has bound it",
          "[spank]") {
  const std::vector<int> here = own_cpus();
  if (here.size() < 2 || here[1] > 30) {
    WARN("this machine lets the test run on one CPU alone: nowhere to bind to");
    return;
  }
  const int first = here[0];
  const int second = here[1];
  hvd::test::Folder folder;
  FILE* file = fopen(folder.file("node.xml").c_str(), "w");
  REQUIRE(file != nullptr);
  fputs(two_packages(first, second).c_str(), file);
  REQUIRE(fclose(file) == 0);

  const struct {
    const char* option;
    int local_rank;
    Environment more;
    std::string gpus;
    std::vector<int> cpus;
  } cases[] = {
      // Local rank 0 gets GPU 0, which is at the second CPU: ties go by PCI order.
      {"", 0, {}, "0,1", {second}},
      {"", 1, {}, "0,1", {first}},
      {"gpu-bind=map:1:0", 0, {}, "1,0", {first}},
      {"cpu-bind=none", 0, {}, "0,1", here},
      {"gpu-bind=none,cpu-bind=none", 1, {}, "0,1", here},
      {"", 0, {{"SLURM_CPU_BIND_TYPE", "none"}}, "0,1", here},
      {"", 1, {{"SLURMD_TRES_BIND", "gpu:per_task:1"}}, "0,1", here},
  };
  for (const auto& c : cases) {
    CAPTURE(c.option, c.local_rank);
    Step step;
    step.option = c.option;
    step.plugstack = {"topology=" + folder.file("node.xml")};
    step.task = with(with(step.task, {{"CUDA_VISIBLE_DEVICES", "0,1"},
                                      {"SLURM_STEP_GPUS", "0,1"},
                                      {"SLURM_LOCALID", std::to_string(c.local_rank)},
                                      {"SLURM_PROCID", std::to_string(2 + c.local_rank)},
                                      {"PMIX_RANK", std::to_string(2 + c.local_rank)}}),
                     c.more);
    const Result result = run(step);
    CHECK(result.status == 0);
    CHECK(result.task.at("CUDA_VISIBLE_DEVICES") == c.gpus);
    CHECK(result.cpus == c.cpus);
  }
}

TEST_CASE("with env=torch a node prints its own report: no hvd_init need come to do it",
          "[spank]") {
  const int cpu = own_cpus()[0];
  if (cpu > 29) {
    WARN("this machine lets the test run on none of its first CPUs");
    return;
  }
  hvd::test::Folder folder;
  FILE* file = fopen(folder.file("node.xml").c_str(), "w");
  REQUIRE(file != nullptr);
  fputs(two_packages(cpu, cpu + 1).c_str(), file);
  REQUIRE(fclose(file) == 0);
  const auto reported = [&](const char* option, const char* rank, const char* local_rank) {
    Step step = step_with(option, {{"CUDA_VISIBLE_DEVICES", "0,1"},
                                   {"SLURM_STEP_GPUS", "0,1"},
                                   {"SLURM_PROCID", rank},
                                   {"PMIX_RANK", rank},
                                   {"SLURM_LOCALID", local_rank}});
    step.plugstack = {"topology=" + folder.file("node.xml")};
    const Result result = run(step);
    CHECK(result.status == 0);
    CHECK(result.task.count("HOROVOD_INTERNAL_REPORT") == 0);
    return result.err;
  };
  const std::string table = reported("env=torch,report,cpu-bind=none", "2", "0");
  INFO(table);
  CHECK(table.find("local rank") < table.find("node1"));
  CHECK(table.find("node1") != std::string::npos);
  const std::string json = reported("env=torch,report=json,cpu-bind=none", "2", "0");
  INFO(json);
  CHECK(json.substr(0, 11) == "{\"nodes\": [");
  CHECK(json.find('\n') == json.size() - 1);
  CHECK(reported("env=torch,report,cpu-bind=none", "3", "1") == "");
}

TEST_CASE("what the site has locked is the site's, whatever the environment says", "[spank]") {
  Step step;
  step.plugstack = {"lock=slots:wire", "slots=8"};
  step.task["HOROVOD_SLOTS"] = "16";
  step.task["HOROVOD_WIRE"] = "bf16";
  Result result = run(step);
  CHECK(result.status == 0);
  CHECK(result.task.at("HOROVOD_SLOTS") == "8");
  CHECK(result.task.at("HOROVOD_WIRE") == "none");
  step.option = "slots=4";  // of a site that has locked it since srun looked
  result = run(step);
  CHECK(result.status == 2);
  step.local_task = 0;
  CHECK(run(step).err ==
        "horovod: on node1: this site does not let users set \"slots\"; it is 8 here\n");
}

TEST_CASE("a bad value in the environment is hvd_init's to report", "[spank]") {
  Step step;
  step.task["HOROVOD_SLOTS"] = "many";
  const Result result = run(step);
  CHECK(result.status == 0);
  CHECK(result.task.at("HOROVOD_SLOTS") == "many");
}

TEST_CASE("the user's HOROVOD_HOSTNAME stays, an outer step's does not", "[spank]") {
  Step step;
  step.task["HOROVOD_HOSTNAME"] = "mine";
  Result result = run(step);
  CHECK(result.task.at("HOROVOD_HOSTNAME") == "mine");
  CHECK(result.task.at("HOROVOD_INTERNAL_HANDOFF") ==
        "step=12.0,node=1,hostname=user,site=,option=");

  // The same environment, inherited by a step on another node.
  step.task = with(result.task, {{"PMIX_NAMESPACE", "slurm.pmix.12.7"}});
  step.step_id = 7;
  CHECK(run(step).task.at("HOROVOD_HOSTNAME") == "mine");

  step.task = with(with(task_of_slurm(), kPlaced),
                   {{"PMIX_NAMESPACE", "slurm.pmix.12.7"}, {"SLURMD_NODENAME", "node5"}});
  result = run(step);
  CHECK(result.task.at("HOROVOD_HOSTNAME") == "node5");
  CHECK(result.task.at("HOROVOD_INTERNAL_HANDOFF") ==
        "step=12.7,node=1,hostname=plugin,site=,option=");
}

TEST_CASE("a nested step without PMIx of its own keeps nothing of the outer step", "[spank]") {
  // PMIX_* are the outer step's; so is every HOROVOD_* but what the user may have chosen.
  Step step;
  step.task = with(with(task_of_slurm(), kPlaced), {{"HOROVOD_SLOTS", "8"}});
  step.step_id = 1;
  for (const char* option : {"inherited", "off"}) {
    step.option = option;
    const Result result = run(step);
    CHECK(result.status == 0);
    CHECK(result.err == "");
    CHECK(result.task == with(task_of_slurm(), {{"HOROVOD_SLOTS", "8"}}));
  }
}

TEST_CASE("a component of a heterogeneous job has the first one's namespace", "[spank]") {
  Step step;
  step.job_id = 13;
  CHECK(run(step).task.at("HOROVOD_RANK") == "3");
}

TEST_CASE("that srun asked for the plugin is not left in the environment", "[spank]") {
  Step step;
  step.task["HOROVOD_INTERNAL_REQUESTED"] = "12.0";
  CHECK(run(step).task == with(task_of_slurm(), kPlaced));
}

TEST_CASE("a long mapping is read whole", "[spank]") {
  std::string mapping = "(vector";
  for (int i = 0; i < 2000; ++i) mapping += ",(0,2,1)";
  Step step;
  step.task["SLURM_PMIX_MAPPING_SERV"] = mapping + ")";
  step.task["SLURM_NTASKS"] = "4000";
  const Result result = run(step);
  CHECK(result.status == 0);
  CHECK(result.task.at("HOROVOD_LOCAL_SIZE") == "2000");
  CHECK(result.task.at("HOROVOD_CROSS_RANK") == "1");
}

TEST_CASE("what cannot be right ends the tasks with one line of the node's first", "[spank]") {
  struct Case {
    std::string text;
    Step step;
  };
  std::vector<Case> cases(6);
  cases[0].text =
      "horovod: on node1: --horovod needs PMIx, and Slurm has started no PMIx server for this "
      "step; srun --mpi=list shows whether this Slurm has PMIx\n";
  cases[0].step.task.erase("PMIX_NAMESPACE");
  cases[1].text = cases[0].text;
  cases[1].step.task["PMIX_NAMESPACE"] = "slurm.pmix.12.1";
  cases[2].text =
      "horovod: on node1: plugstack.conf: unknown key \"sluts\"; did you mean \"slots\"?; please "
      "tell the administrators of this machine\n";
  cases[2].step.plugstack = {"sluts=3"};
  cases[3].text =
      "horovod: on node1: the mapping \"(vector,(0,2,?))\" has a block that is not "
      "\"(first node,nodes,ranks per node)\"\n";
  cases[3].step.task["SLURM_PMIX_MAPPING_SERV"] = "(vector,(0,2,\x1b))";
  cases[4].text = "horovod: on node1: SLURM_NTASKS is \"x\", not a number\n";
  cases[4].step.task["SLURM_NTASKS"] = "x";
  cases[5].text = "horovod: on node1: setting HOROVOD_SIZE: no space\n";
  cases[5].step.refused = "HOROVOD_SIZE";
  for (Case& c : cases) {
    INFO(c.text);
    c.step.local_task = 0;
    Result result = run(c.step);
    CHECK(result.status == 2);
    CHECK(result.err == c.text);
    c.step.local_task = 1;
    result = run(c.step);
    CHECK(result.status == 2);
    CHECK(result.err == "");
  }
}

TEST_CASE("numbers that disagree are said by the task that has them", "[spank]") {
  Step step;
  step.task["PMIX_RANK"] = "2";
  CHECK(run(step).err == "horovod: on node1: Slurm says rank 3, PMIx says rank 2\n");
  step = Step();
  step.task["SLURM_LOCALID"] = "0";
  CHECK(run(step).err ==
        "horovod: on node1: rank 3: Slurm says local rank 0, its mapping \"(vector,(0,2,2))\" says "
        "1\n");
  step = Step();
  step.task["SLURM_PROCID"] = step.task["PMIX_RANK"] = "4";
  CHECK(run(step).err == "horovod: on node1: rank 4 of 4 does not exist\n");
  CHECK(run(step).status == 2);
}
