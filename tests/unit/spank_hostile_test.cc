// SPDX-License-Identifier: Apache-2.0
//
// The plugin on a node whose user means it no good: for every variable that the plugin asks for
// (the fake Slurm writes down which these are, so that a new one is met here, too) values that no
// Slurm would write. The task goes on as the rank it is, or ends with one sentence; nothing
// crashes, takes long, or reaches a terminal that should not.
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "libhvd/base/settings.h"
#include "spank/options.h"
#include "tests/fakes/spank/slurm.h"
#include "tests/unit/catch.h"
#include "tests/unit/folder.h"

using fake::Outcome;
using fake::slurm;

namespace {

using Environment = std::map<std::string, std::string>;

constexpr unsigned kSecondsOfTask = 20;

// One package of one core; a GPU of `vendor` and a network card.
std::string one_gpu(const char* vendor) {
  return std::string(
             "<?xml version=\"1.0\"?><topology version=\"2.0\">"
             "<object type=\"Machine\" os_index=\"0\" cpuset=\"0x1\">"
             "<object type=\"Package\" os_index=\"0\" cpuset=\"0x1\">"
             "<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x1\" nodeset=\"0x1\"/>"
             "<object type=\"Core\" os_index=\"0\" cpuset=\"0x1\">"
             "<object type=\"PU\" os_index=\"0\" cpuset=\"0x1\"/></object>"
             "<object type=\"Bridge\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[00-7f]\">"
             "<object type=\"PCIDev\" pci_busid=\"0000:01:00.0\" pci_type=\"0302 [") +
         vendor +
         ":1db1] [0000:0000] a1\"/>"
         "<object type=\"PCIDev\" pci_busid=\"0000:02:00.0\" "
         "pci_type=\"0207 [15b3:1017] [0000:0000] a1\">"
         "<object type=\"OSDev\" name=\"mlx5_0\" osdev_type=\"3\"/></object>"
         "</object></object></object></topology>";
}

// A step of one rank.
struct Step {
  std::vector<std::string> plugstack;
  Environment task = {{"SLURM_PROCID", "0"},
                      {"SLURM_LOCALID", "0"},
                      {"SLURM_NTASKS", "1"},
                      {"SLURM_JOB_ID", "12"},
                      {"SLURMD_NODENAME", "node1"},
                      {"SLURM_CPU_BIND_TYPE", "mask_cpu:"},
                      {"SLURM_CPU_BIND_LIST", "0x1"},
                      {"PMIX_NAMESPACE", "slurm.pmix.12.0"},
                      {"PMIX_RANK", "0"},
                      {"SLURM_PMIX_MAPPING_SERV", "(vector,(0,1,1))"}};
  std::string option = "nic-bind=nearest";
};

void write_file(const std::string& path, const std::string& text) {
  FILE* const file = fopen(path.c_str(), "w");
  REQUIRE(file != nullptr);
  fputs(text.c_str(), file);
  REQUIRE(fclose(file) == 0);
}

cpu_set_t own_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  return set;
}

constexpr const char* kWell = "is rank 0/1 0/1 0/1 on its own CPUs";

// The task's life until its program would start. Its output: the variables that it was asked for,
// a line each, and kWell.
Outcome run(const Step& step) {
  return fake::in_child([&] {
    alarm(kSecondsOfTask);
    const cpu_set_t before = own_cpus();
    slurm().context = S_CTX_REMOTE;
    slurm().plugstack = step.plugstack;
    slurm().task = step.task;
    fake::call_init();
    fake::call_init_post_opt();
    slurm().option_given = true;
    slurm().option_value = step.option.c_str();
    if (fake::call_task_init_privileged() != 0 || fake::call_task_init() != 0) _exit(98);
    for (const std::string& name : slurm().asked) printf("%s\n", name.c_str());
    Environment& task = slurm().task;
    const cpu_set_t after = own_cpus();
    cpu_set_t both;
    CPU_AND(&both, &before, &after);
    printf("is rank %s/%s %s/%s %s/%s on %s CPUs\n", task["HOROVOD_RANK"].c_str(),
           task["HOROVOD_SIZE"].c_str(), task["HOROVOD_LOCAL_RANK"].c_str(),
           task["HOROVOD_LOCAL_SIZE"].c_str(), task["HOROVOD_CROSS_RANK"].c_str(),
           task["HOROVOD_CROSS_SIZE"].c_str(),
           CPU_COUNT(&after) > 0 && CPU_EQUAL(&both, &after) ? "its own" : "others'");
  });
}

std::set<std::string> lines(const std::string& text) {
  std::set<std::string> all;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    all.insert(text.substr(at, end - at));
    if (end == std::string::npos) break;
    at = end + 1;
  }
  return all;
}

std::string repeated(const std::string& text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

// A variable of an execve may have 128 KiB.
const std::vector<std::string>& hostile_values() {
  static const std::vector<std::string> values = {
      "",
      repeated("x", 131000),
      repeated("0,", 65500),
      repeated("(", 100000),
      repeated("0x", 30000) + repeated("f", 30000),
      ",,,;;;:::===",
      "-1",
      "99999999999999999999999999",
      "2147483647",
      "%s%n%s%n%1000000d",
      "\x1b[2J\x1b]0;x\x07 \r\n\xff\xfe\x80",
      "map:99999999999999999999:-1",
      "mask_cpu:0x1,map_cpu:0",
      "gpu:;gres/gpu:per_task:99999999999",
      "[[[[[[{\"node\":",
      "step=1.0,node=99999999999,hostname=user,site=slots:wire,option=slots",
      "../../../../../../etc/shadow",
      "$(reboot)`reboot`;reboot",
  };
  return values;
}

// What a user may be told: whole lines, ours, of no more than a screen, without control characters.
bool is_told_well(const std::string& err) {
  if (err.empty()) return true;
  if (err.back() != '\n') return false;
  for (const std::string& line : lines(err)) {
    if (line.compare(0, 9, "horovod: ") != 0 || line.size() > hvd::kLongestLine + 9) return false;
    for (const char c : line) {
      if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) return false;
    }
  }
  return true;
}

void check(const Step& step) {
  const Outcome outcome = run(step);
  CAPTURE(outcome.status, outcome.err.substr(0, 500));
  CHECK((outcome.status == 0 || outcome.status == 2));
  CHECK(is_told_well(outcome.err));
  if (outcome.status == 0) CHECK(lines(outcome.out).count(kWell) == 1);
  if (outcome.status == 2) CHECK(lines(outcome.err).size() == 1);
}

// What of `asked` is new in `all`: each variable alone, but those settings together whose values
// are the library's to use.
std::vector<std::set<std::string>> attacks(const std::set<std::string>& asked,
                                           std::set<std::string>* all) {
  using hvd::Setting;
  std::set<std::string> of_library;
  for (const hvd::SettingRow& row : hvd::setting_rows()) {
    const bool used_here = row.setting == Setting::kGpuBind || row.setting == Setting::kCpuBind ||
                           row.setting == Setting::kNicBind || row.setting == Setting::kReport ||
                           row.setting == Setting::kPython;
    if (!used_here) of_library.insert(row.variable);
  }
  std::vector<std::set<std::string>> groups(1);
  for (const std::string& name : asked) {
    if (!all->insert(name).second) continue;
    if (of_library.count(name) != 0) {
      groups[0].insert(name);
    } else {
      groups.push_back({name});
    }
  }
  if (groups[0].empty()) groups.erase(groups.begin());
  return groups;
}

}  // namespace

TEST_CASE("hostile values in every variable that the plugin asks for on a node", "[spank]") {
  hvd::test::Folder folder;
  const std::string python = folder.file("python");
  REQUIRE(mkdir(python.c_str(), 0755) == 0);
  REQUIRE(mkdir((python + "/horovod").c_str(), 0755) == 0);
  write_file(python + "/horovod/__init__.py", "");
  const struct {
    const char* vendor;
    Environment more;
  } nodes[] = {{"10de", {{"CUDA_VISIBLE_DEVICES", "0"}, {"SLURM_STEP_GPUS", "0"}}},
               {"1002", {{"ROCR_VISIBLE_DEVICES", "0"}, {"SLURM_GPUS_ON_NODE", "1"}}},
               {"8086", {{"ZE_AFFINITY_MASK", "0"}, {"SLURM_STEP_GPUS", "0"}}},
               {"ffff",
                {{"CUDA_VISIBLE_DEVICES", "0"},
                 {"ROCR_VISIBLE_DEVICES", "0"},
                 {"ZE_AFFINITY_MASK", "0"},
                 {"SLURM_STEP_GPUS", "0"}}}};
  std::set<std::string> all;
  for (const auto& node : nodes) {
    Step step;
    step.plugstack = {"python-dir=" + python, "topology=" + folder.file("node.xml")};
    step.task.insert(node.more.begin(), node.more.end());
    write_file(folder.file("node.xml"), one_gpu(node.vendor));
    const Outcome sane = run(step);
    CAPTURE(node.vendor, sane.err);
    REQUIRE(sane.status == 0);
    REQUIRE(sane.err.find("nothing is bound: ") == std::string::npos);
    std::set<std::string> asked = lines(sane.out);
    REQUIRE(asked.erase(kWell) == 1);
    for (const auto& names : attacks(asked, &all)) {
      for (const std::string& value : hostile_values()) {
        CAPTURE(names, value.substr(0, 80));
        Step hostile = step;
        for (const std::string& name : names) hostile.task[name] = value;
        check(hostile);
      }
    }
  }
  // That it is the list.
  for (const hvd::SettingRow& row : hvd::setting_rows()) CHECK(all.count(row.variable) == 1);
  for (const char* name :
       {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
        "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE", "SLURMD_TRES_BIND", "SLURM_CPU_BIND_TYPE",
        "SLURM_CPU_BIND_LIST", "HOROVOD_INTERNAL_HANDOFF", "HOROVOD_HOSTNAME", "PYTHONPATH",
        "SLURMD_NODENAME", "PMIX_NAMESPACE", "SLURM_PMIX_MAPPING_SERV", "UCX_NET_DEVICES"}) {
    CAPTURE(name);
    CHECK(all.count(name) == 1);
  }
}

TEST_CASE("a hostile --horovod that no srun has looked at ends the task with a sentence",
          "[spank]") {
  // Whoever exports _SLURM_SPANK_OPTION_horovod_horovod brings it to the node past srun's check.
  for (const std::string& value : hostile_values()) {
    CAPTURE(value.substr(0, 80));
    Step hostile;
    hostile.option = value;
    check(hostile);
  }
}
