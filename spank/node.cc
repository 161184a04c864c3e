// SPDX-License-Identifier: Apache-2.0
//
// The node side: runs as the user in the child of slurmstepd that executes the program next, leaves
// the rank's numbers and settings in its environment, and binds it (node_bind.h). Trusts nothing
// that the user's environment could have brought along: a nested step inherits PMIX_* and HOROVOD_*
// of the step around it.
//
// An error is one line from the node's first task and the end of this task: here srun reports it
// rightly and no node is drained. The exception is an inherited option in a step without PMIx
// (mpirun's daemons): there the plugin keeps out of the way.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>

#include "libhvd/base/handoff.h"
#include "libhvd/base/json.h"
#include "libhvd/base/parse.h"
#include "libhvd/topo/layout.h"
#include "spank/entry.h"
#include "spank/node_bind.h"
#include "spank/options.h"
#include "spank/python_path.h"
#include "spank/torch_variables.h"

namespace hvd {
namespace {

constexpr int kExitStatus = 2;
constexpr const char* kPythonPath = "PYTHONPATH";
// Above are the batch script, the interactive step and their like.
constexpr uint32_t kFirstSpecialStep = 0xfffffff0;
constexpr size_t kLongestVariable = size_t{4} << 20;

// The environment of the task to be.
class TaskEnvironment {
 public:
  explicit TaskEnvironment(spank_t spank) : spank_(spank) {}

  // Empty counts as not set: so it does for every setting.
  std::optional<std::string> get(const char* name) const {
    // A mapping of an irregular distribution can be long.
    for (size_t room = 1024; room <= kLongestVariable; room *= 8) {
      std::string value(room, '\0');
      const spank_err_t result = spank_getenv(spank_, name, value.data(), static_cast<int>(room));
      if (result == ESPANK_NOSPACE) continue;
      if (result != ESPANK_SUCCESS) return std::nullopt;
      value.resize(value.find('\0'));
      if (value.empty()) return std::nullopt;
      return value;
    }
    return std::nullopt;
  }

  Expected<int> number(const char* name) const {
    const auto text = get(name);
    if (!text) return error(Code::kInternal, "Slurm has not set %s", name);
    const auto value = parse_count(*text);
    if (!value || *value > INT32_MAX) {
      return error(Code::kInternal, "%s is \"%s\", not a number", name, text->c_str());
    }
    return static_cast<int>(*value);
  }

  Status set(const std::string& name, const std::string& value) {
    const spank_err_t result = spank_setenv(spank_, name.c_str(), value.c_str(), 1);
    if (result == ESPANK_SUCCESS) return ok_status();
    return error(Code::kSystem, "setting %s: %s", name.c_str(), spank_strerror(result));
  }

  void unset(const char* name) { spank_unsetenv(spank_, name); }

  // What it returns is good until its next call.
  Getenv getter() const {
    return [this, value = std::string()](const char* name) mutable -> const char* {
      value = get(name).value_or("");
      return value.empty() ? nullptr : value.c_str();
    };
  }

 private:
  spank_t spank_;
};

std::string node_name(const TaskEnvironment& environment) {
  if (const auto name = environment.get("SLURMD_NODENAME")) return *name;
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

void say(const std::string& text) {
  slurm_spank_log("horovod: %s", printable(text.substr(0, kLongestLine)).c_str());
}

enum class Concerns { kNode, kThisTask };

[[noreturn]] void give_up(spank_t spank, const std::string& why, Concerns whom = Concerns::kNode) {
  int local_task = 0;
  spank_get_item(spank, S_TASK_ID, &local_task);
  if (local_task == 0 || whom == Concerns::kThisTask) {
    say("on " + node_name(TaskEnvironment(spank)) + ": " + why);
  }
  _exit(kExitStatus);
}

// What an outer step left in the environment says nothing about this one.
void forget_outer_step(TaskEnvironment* environment) {
  const auto outer = environment->get(kHandoffVariable);
  if (!outer) return;
  for (const char* name : variables_of_handoff(*outer)) environment->unset(name);
}

// "JOB.STEP" if this step has a PMIx server of its own. A component of a heterogeneous job has a
// job id of its own, but its namespace and SLURM_JOB_ID are the first component's.
std::optional<std::string> own_pmix_step(spank_t spank, const TaskEnvironment& environment,
                                         uint32_t step_id) {
  const auto name = environment.get("PMIX_NAMESPACE");
  if (!name) return std::nullopt;
  const std::string step(slurm_step_of(*name));
  uint32_t job_id = 0;
  spank_get_item(spank, S_JOB_ID, &job_id);
  for (const std::string& job :
       {std::to_string(job_id), environment.get("SLURM_JOB_ID").value_or("")}) {
    if (!job.empty() && step == job + "." + std::to_string(step_id)) return step;
  }
  return std::nullopt;
}

// Where this task is in the job, from Slurm's mapping; all of Slurm's own numbers must agree.
// kMismatch: this task's do not.
Expected<Layout> place(const TaskEnvironment& environment, Handoff* handoff) {
  const auto rank = environment.number("SLURM_PROCID");
  if (!rank.ok()) return rank.status();
  const auto pmix_rank = environment.number("PMIX_RANK");
  if (!pmix_rank.ok()) return pmix_rank.status();
  const auto local = environment.number("SLURM_LOCALID");
  if (!local.ok()) return local.status();
  const auto size = environment.number("SLURM_NTASKS");
  if (!size.ok()) return size.status();
  const auto mapping = environment.get("SLURM_PMIX_MAPPING_SERV");
  if (!mapping) return error(Code::kInternal, "Slurm has not set SLURM_PMIX_MAPPING_SERV");
  if (*pmix_rank != *rank) {
    return error(Code::kMismatch, "Slurm says rank %d, PMIx says rank %d", *rank, *pmix_rank);
  }
  const auto nodes = nodes_from_mapping(*mapping, *size);
  if (!nodes.ok()) return nodes.status();
  auto layout = layout_from_nodes(*nodes);
  if (!layout.ok()) return layout.status().annotate("the mapping \"" + *mapping + "\"");
  if (*rank >= layout->size) {
    return error(Code::kMismatch, "rank %d of %d does not exist", *rank, layout->size);
  }
  handoff->node = layout->node_of[*rank];
  handoff->placement = {*rank,
                        layout->size,
                        layout->local_rank[*rank],
                        layout->local_size(*rank),
                        layout->cross_rank(*rank),
                        layout->cross_size(*rank)};
  if (handoff->placement.local_rank != *local) {
    return error(Code::kMismatch, "rank %d: Slurm says local rank %d, its mapping \"%s\" says %d",
                 *rank, *local, mapping->c_str(), handoff->placement.local_rank);
  }
  return layout;
}

// Built-in < site < environment < option; what the site has locked is the site's. As the program
// will read them: what the environment has stays as it is, and its errors are hvd_init's to report.
Settings merge(const TaskEnvironment& environment, const Site& site, const Settings& option,
               Handoff* handoff) {
  std::vector<Status> bad;
  Settings merged = Settings::from_environment(environment.getter(), &bad);
  for (const SettingRow& row : setting_rows()) {
    if (std::find(site.locked.begin(), site.locked.end(), row.setting) != site.locked.end()) {
      merged.copy(row.setting, site.settings);
      handoff->site.push_back(row.setting);
    } else if (option.origin(row.setting) == Origin::kOption) {
      merged.copy(row.setting, option);
      handoff->option.push_back(row.setting);
    } else if (site.settings.origin(row.setting) == Origin::kSite &&
               !environment.get(row.variable)) {
      merged.copy(row.setting, site.settings);
      handoff->site.push_back(row.setting);
    }
  }
  return merged;
}

// So that a script's `import horovod` finds this release. Where it is not installed the task's
// PYTHONPATH stays as it is: the task may have a package of its own, or need none.
Status offer_package(TaskEnvironment* environment, const std::string& folder) {
  if (access((folder + "/horovod/__init__.py").c_str(), R_OK) != 0) return ok_status();
  const std::string path = environment->get(kPythonPath).value_or("");
  return environment->set(kPythonPath, with_folder_first(folder, path));
}

// What the user has typed, or exported as SLURM_CPU_BIND: later Slurm writes its own there.
bool cpus_bound_by_user = false;

void bind_rank(TaskEnvironment* environment, BindPlace place, const Settings& settings) {
  const EnvironmentEditor editor = {environment->getter(),
                                    [&](const std::string& name, const std::string& text) {
                                      return environment->set(name, text);
                                    },
                                    [&](const char* name) { environment->unset(name); }};
  place.cpus_bound = cpus_bound_by_user;
  const BindTold told = bind_task(place, settings, editor);
  for (const std::string& line : told.remarks) say(line);
  // A table is no line of Slurm's log: here stderr is the task's.
  dprintf(STDERR_FILENO, "%s", told.report.c_str());
}

Status prepare(TaskEnvironment* environment, const std::string& step, const Site& site,
               const Settings& option) {
  Handoff handoff;
  handoff.step = step;
  const auto layout = place(*environment, &handoff);
  if (!layout.ok()) return layout.status();
  const auto hostname = environment->get("HOROVOD_HOSTNAME");
  handoff.own_hostname = !hostname;
  handoff.hostname = hostname ? *hostname : node_name(*environment);
  const Settings settings = merge(*environment, site, option, &handoff);
  if (settings.text(Setting::kEnv) == "torch") {
    auto variables =
        torch_variables(*layout, handoff, node_name(*environment), environment->getter());
    if (!variables.ok()) return variables.status();
    handoff.torch = std::move(*variables);
  }
  for (const auto& [name, value] : handoff_variables(handoff, settings)) {
    const Status status = environment->set(name, value);
    if (!status.ok()) return status;
  }
  if (settings.flag(Setting::kPython)) {
    const Status offered =
        offer_package(environment, site.python_dir.empty() ? HVD_PYTHON_DIR : site.python_dir);
    if (!offered.ok()) return offered;
  }
  BindPlace bind_place;
  bind_place.node = node_name(*environment);
  bind_place.ranks = layout->ranks[handoff.node];
  bind_place.local_rank = handoff.placement.local_rank;
  bind_place.topology = site.topology;
  bind_rank(environment, std::move(bind_place), settings);
  return ok_status();
}

void run(spank_t spank, uint32_t step_id, const char* value, int argc, char** arguments) {
  TaskEnvironment environment(spank);
  environment.unset(kRequestedVariable);
  const auto request = parse_request(value);
  if (!request.ok()) give_up(spank, "--horovod: " + request.status().text());
  const auto step = own_pmix_step(spank, environment, step_id);
  if (request->off || (request->inherited && !step)) return forget_outer_step(&environment);
  if (!step) {
    give_up(spank,
            "--horovod needs PMIx, and Slurm has started no PMIx server for this step; srun "
            "--mpi=list shows whether this Slurm has PMIx");
  }
  const auto site = parse_site(argc, arguments);
  if (!site.ok()) {
    give_up(spank, site.status().text() + "; please tell the administrators of this machine");
  }
  const Status allowed = allowed_by_site(*request, *site);
  if (!allowed.ok()) give_up(spank, allowed.text());
  forget_outer_step(&environment);
  const Status status = prepare(&environment, *step, *site, request->settings);
  if (status.ok()) return;
  give_up(spank, status.text(),
          status.code() == Code::kMismatch ? Concerns::kThisTask : Concerns::kNode);
}

}  // namespace
}  // namespace hvd

void hvd_node_task(spank_t spank, struct spank_option* option, int argc,
                   char** arguments) noexcept {
  char* value = nullptr;
  uint32_t step_id = hvd::kFirstSpecialStep;
  if (spank_option_getopt(spank, option, &value) != ESPANK_SUCCESS) return;
  if (spank_get_item(spank, S_JOB_STEPID, &step_id) != ESPANK_SUCCESS) return;
  if (step_id >= hvd::kFirstSpecialStep) return;
  try {
    hvd::run(spank, step_id, value, argc, arguments);
  } catch (const std::exception& e) {
    slurm_spank_log("horovod: %s", e.what());
    _exit(hvd::kExitStatus);
  } catch (...) {
    slurm_spank_log("horovod: unknown error");
    _exit(hvd::kExitStatus);
  }
}

void hvd_node_privileged(spank_t spank, struct spank_option* option) noexcept {
  char* value = nullptr;
  if (spank_option_getopt(spank, option, &value) != ESPANK_SUCCESS) return;
  char type[64] = "";
  const spank_err_t result = spank_getenv(spank, "SLURM_CPU_BIND_TYPE", type, sizeof type);
  hvd::cpus_bound_by_user =
      (result == ESPANK_SUCCESS && type[0] != '\0') || result == ESPANK_NOSPACE;
}
