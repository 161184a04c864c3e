// SPDX-License-Identifier: Apache-2.0
//
// A Slurm that loads the plugin without being Slurm: the functions of spank.h and slurm_error, as
// slurm.cc defines them, act on this one object. Faithful in what the plugin relies on (contexts,
// items, "(null)", a buffer that is too small, which process may see what); not a scheduler.
//
// The plugin ends processes and executes programs: tests run it in a child (in_child).
#pragma once

extern "C" {
#include <slurm/spank.h>
}

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace fake {

struct Slurm {
  spank_context_t context = S_CTX_LOCAL;
  std::vector<std::string> plugstack;  // the arguments of the plugin's line

  // The step, as its items say; in srun only once it has been made.
  bool step_exists = false;
  uint32_t job_id = 12;
  uint32_t step_id = 0;
  int local_task = 0;

  // On the node: whether the step has --horovod, and what with (nullptr: nothing).
  bool option_given = false;
  const char* option_value = nullptr;
  std::map<std::string, std::string> task;  // the task's environment
  std::set<std::string> asked;              // the variables of it that the plugin has asked for
  std::string refused_variable;             // spank_setenv of this one fails

  spank_option* registered = nullptr;
};

Slurm& slurm();

// The callbacks as Slurm would call them, with the plugstack line's arguments.
int call_init();
int call_option(const char* value);  // the callback of --horovod as srun, sbatch and salloc call it
int call_init_post_opt();
int call_local_user_init();
int call_task_init_privileged();
int call_task_init();
int call_every_callback();  // all of them, those that should do nothing too; the sum

// Every callback that slurmstepd calls for a step of tasks while it is root, whether this plugin
// has it or not; not task_init, and not the option's.
void call_as_root();
// Whether the plugin has a callback of slurmd, of prologs or epilogs: a crash there, even in an
// optional plugin, takes the node out of service.
bool has_callbacks_of_the_node();

// Exit status of a child that came to execv instead.
constexpr int kExecuted = 200;

struct Outcome {
  int status = -1;  // exit status, or -signal
  std::string out;  // what it wrote to stdout; after execv: the words "PATH ARGUMENT..."
  std::string err;
};

// Runs `body` in a forked child; returning from it is exit status 0.
Outcome in_child(const std::function<void()>& body);

// "NAME=VALUE\n" for each of the names that is set in this process, for `body` to print.
std::string environment_of(const std::vector<const char*>& names);

}  // namespace fake
