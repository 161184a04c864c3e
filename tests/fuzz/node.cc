// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the plugin on a node: its callbacks as slurmstepd calls them in the child that becomes a
// task, in a Slurm that is none (tests/fakes/spank), with the option, plugstack.conf, the task's
// environment and its affinity from the input (libFuzzer; tests/fuzz/run). What the input does not
// name is as of rank 3 of 4 on the second of two nodes.
//
// Linked with --wrap for what would end or bind this process, or write to the terminal: see the
// __wrap_ functions. The end of a task is an exception up to the plugin's own catch (...), so that
// everything on the way is destroyed, and a jump from there.
#include <cxxabi.h>
#include <sched.h>
#include <setjmp.h>
#include <stdlib.h>

#include <cstdarg>
#include <cstdio>

#include "libhvd/base/handoff.h"
#include "libhvd/base/json.h"
#include "libhvd/topo/layout.h"
#include "spank/cpu_set.h"
#include "spank/options.h"
#include "tests/fakes/spank/slurm.h"
#include "tests/fuzz/lines.h"

namespace {

using fake::slurm;
using hvd::CpuSet;

struct TaskEnd {};

// One run of the callbacks.
struct Run {
  bool active = false;
  bool ended = false;
  jmp_buf end;
  CpuSet cpus;  // the task's affinity
  bool moved = false;
  std::vector<std::string> said;
};

Run run;

void expect(bool holds) {
  if (!holds) __builtin_trap();
}

const std::string& topology_file() {
  static const std::string path = [] {
    char* real = realpath("tests/fuzz/corpus/topology/small.xml", nullptr);
    if (real == nullptr) abort();  // not in the repository's root
    const std::string found = real;
    free(real);
    return found;
  }();
  return path;
}

void prepare(const hvd::test::Lines& lines) {
  fake::Slurm& fake = slurm();
  fake.context = S_CTX_REMOTE;
  fake.plugstack.clear();
  const std::string plugstack = lines.text("plugstack");
  for (const std::string_view word : hvd::split(plugstack, ' ')) {
    if (!word.empty() && fake.plugstack.size() < 50) fake.plugstack.emplace_back(word);
  }
  // Behind the input's: its files are not opened.
  fake.plugstack.push_back("topology=" + topology_file());
  fake.plugstack.emplace_back("python-dir=/nowhere");
  fake.job_id = static_cast<uint32_t>(lines.number("job", 12, 99));
  fake.step_id = static_cast<uint32_t>(lines.number("step", 0, 9));
  fake.local_task = lines.number("task", 0, 3);
  fake.task = {{"SLURM_PROCID", "3"},        {"SLURM_LOCALID", "1"},
               {"SLURM_NTASKS", "4"},        {"SLURM_JOB_ID", "12"},
               {"SLURMD_NODENAME", "node1"}, {"PMIX_NAMESPACE", "slurm.pmix.12.0"},
               {"PMIX_RANK", "3"},           {"SLURM_PMIX_MAPPING_SERV", "(vector,(0,2,2))"}};
  for (const auto& [name, value] : lines.variables()) {
    if (!name.empty() && name.find('\0') == std::string::npos) fake.task[name] = value;
  }
  fake.task["USER_HAS"] = "this";
  run.cpus = CpuSet::parse(lines.text("affinity")).value_or(CpuSet());
  if (run.cpus.empty()) run.cpus = CpuSet::range(0, 3);
  run.moved = false;
  run.said.clear();
}

// As many tasks on one node as may be bound take their time.
bool takes_long() {
  const auto tasks = hvd::parse_count(slurm().task["SLURM_NTASKS"]);
  return tasks && *tasks > 64 && *tasks <= hvd::kMostRanks;
}

void check_end() {
  // One line of the node's first task, or of the one that has the wrong numbers.
  expect(run.said.size() == 1 || (run.said.empty() && slurm().local_task != 0));
  for (const std::string& line : run.said) expect(line.rfind("horovod: on ", 0) == 0);
}

void check_task() {
  const auto& task = slurm().task;
  expect(task.at("USER_HAS") == "this");
  expect(task.count(hvd::kRequestedVariable) == 0);
  const hvd::Getenv get = [&](const char* name) -> const char* {
    const auto found = task.find(name);
    return found == task.end() ? nullptr : found->second.c_str();
  };
  const auto handoff = hvd::read_handoff(get);
  expect(handoff.ok());
  if (!*handoff) return;
  expect(hvd::parse_count(task.at("SLURM_PROCID")) == (*handoff)->placement.rank);
  expect(hvd::parse_count(task.at("SLURM_LOCALID")) == (*handoff)->placement.local_rank);
  const char* report = get(hvd::kReportVariable);
  if (report != nullptr) expect(hvd::Json::parse(report).has_value());
}

void call_callbacks() {
  fake::call_init();
  expect(fake::call_option(slurm().option_value) == 0);
  fake::call_init_post_opt();
  expect(fake::call_task_init_privileged() == 0);
  expect(fake::call_task_init() == 0);
}

}  // namespace

extern "C" {

void __real__exit(int status) __attribute__((noreturn));
int __real_sched_getaffinity(pid_t pid, size_t size, cpu_set_t* set);

// The first time the exception starts; the plugin's catch (...) comes here again.
__attribute__((noreturn)) void __wrap__exit(int status) {
  if (!run.active) __real__exit(status);
  expect(status == 2);
  if (!run.ended) {
    run.ended = true;
    throw TaskEnd();
  }
  abi::__cxa_end_catch();
  longjmp(run.end, 1);
}

void __wrap_slurm_spank_log(const char* format, ...) {
  if (run.ended) return;  // catch (...) says that it knows nothing of this exception
  char line[8192];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  expect(length > 0 && length <= static_cast<int>(hvd::kLongestLine) + 20);
  expect(hvd::printable(line) == line);
  run.said.emplace_back(line);
}

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t* set) {
  if (!run.active) return __real_sched_getaffinity(pid, size, set);
  CPU_ZERO_S(size, set);
  for (int cpu = run.cpus.first(); cpu >= 0; cpu = run.cpus.next(cpu)) CPU_SET_S(cpu, size, set);
  return 0;
}

// Nowhere outside the task's own CPUs, unless Slurm's list has told of the other tasks'.
int __wrap_sched_setaffinity(pid_t, size_t size, const cpu_set_t* set) {
  expect(run.active && !run.moved && CPU_COUNT_S(size, set) > 0);
  run.moved = true;
  if (slurm().task.count("SLURM_CPU_BIND_TYPE") != 0) return 0;
  for (int cpu = 0; cpu < CpuSet::kMost; ++cpu) {
    if (CPU_ISSET_S(cpu, size, set)) expect(run.cpus.has(cpu));
  }
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const hvd::test::Lines lines(data, size);
  prepare(lines);
  if (takes_long()) return 0;
  const std::string option = lines.text("option");
  slurm().option_given = true;
  slurm().option_value = lines.has("option") ? option.c_str() : nullptr;
  run.ended = false;
  run.active = true;
  if (setjmp(run.end) == 0) call_callbacks();
  run.active = false;
  if (run.ended) {
    check_end();
  } else {
    check_task();
  }
  return 0;
}

}  // extern "C"
