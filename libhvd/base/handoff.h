// SPDX-License-Identifier: Apache-2.0
//
// What the plugin leaves in the environment of a task, and how the library reads it: both sides of
// one agreement in one place. For people and scripts there are HOROVOD_RANK ... HOROVOD_HOSTNAME
// and the settings; one internal variable says for which step they were written, on which node,
// and where each setting came from. Environments are inherited by nested steps and by programs
// that other launchers start, so a hand-off counts only if it is for the reader's own step.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libhvd/base/settings.h"
#include "libhvd/base/status.h"

namespace hvd {

struct Placement {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;
  int cross_size = 1;
};

using Variables = std::vector<std::pair<std::string, std::string>>;  // name, value

struct Handoff {
  std::string step;  // "JOB.STEP" of the PMIx namespace, as slurm_step_of gives it
  int node = 0;      // index of the task's node in the step's layout
  Placement placement;
  std::string hostname;         // HOROVOD_HOSTNAME
  bool own_hostname = true;     // false: the user's environment had it
  std::vector<Setting> site;    // settings whose value is the node's plugstack.conf's
  std::vector<Setting> option;  // settings whose value is --horovod's
  Variables torch;              // what env=torch sets; as read, without the values
};

// Everything that the plugin sets in the task. `settings` has the values of handoff.site and
// handoff.option.
Variables handoff_variables(const Handoff& handoff, const Settings& settings);

// Has the internal part of the hand-off; set in every task that the plugin has placed.
constexpr const char* kHandoffVariable = "HOROVOD_INTERNAL_HANDOFF";

// "JOB.STEP": set by srun for a step with --horovod and removed by the plugin on the node. A task
// of that step which finds it runs on a node where Slurm has not loaded the plugin. What such a
// task starts inherits it, and is of other steps. (srun --export=NONE does not pass it, nor do
// heterogeneous steps.)
constexpr const char* kRequestedVariable = "HOROVOD_INTERNAL_REQUESTED";

// With --horovod=report: what the plugin has bound on the node, as JSON, in the environment of the
// task that tells it (the node's first; each one where Slurm has bound the GPUs).
constexpr const char* kReportVariable = "HOROVOD_INTERNAL_REPORT";

// Given the value of kHandoffVariable: the variables which that hand-off has set and which say
// nothing about any other step or node. Not among them: what the user has chosen.
std::vector<const char*> variables_of_handoff(std::string_view internal);

// What the plugin left; nothing if it was not at work. kInvalid if somebody changed it so that it
// cannot be read: "reading the hand-off: HOROVOD_RANK is "x", not a number".
Expected<std::optional<Handoff>> read_handoff(const Getenv& get);

// The plugin and PMIx must agree. kMismatch with all the numbers if they do not.
Status compare_with_handoff(const Handoff& handoff, int rank, int size);

// Tells `settings`, read from the same environment, where the plugin's values came from.
void apply_origins(const Handoff& handoff, Settings* settings);

// What texts call the node of this process: HOROVOD_HOSTNAME, else Slurm's name for it, else the
// system's.
std::string host_name(const Getenv& get);

// "JOB.STEP" of Slurm's PMIx namespace "slurm.pmix.JOB.STEP"; empty for any other namespace.
std::string_view slurm_step_of(std::string_view pmix_namespace);

}  // namespace hvd
