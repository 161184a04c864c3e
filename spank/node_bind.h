// SPDX-License-Identifier: Apache-2.0
//
// Binds a task that becomes a rank: asks the machine what it is made of, bind() where this rank
// belongs, and does it. In the task's own process, as the user, just before the program starts.
// Trouble is never the job's end: it is a text, and everything stays as Slurm has set it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "libhvd/base/settings.h"
#include "libhvd/topo/layout.h"

namespace hvd {

// What the task's environment becomes; spank_setenv and spank_unsetenv in real life.
struct EnvironmentEditor {
  Getenv get;
  std::function<Status(const std::string& name, const std::string& value)> set;
  std::function<void(const char* name)> unset;
};

struct BindPlace {
  std::string node;        // its name
  std::vector<int> ranks;  // of the step on this node, the job's numbers
  int local_rank = 0;
  bool cpus_bound = false;  // the user gave --cpu-bind
  std::string topology;     // a file instead of the machine; "" is none
};

// What is to be said; only the node's first task has the warnings of all.
struct BindTold {
  std::vector<std::string> remarks;  // one line each
  // For stderr as it is: the node's table, or its JSON, where no hvd_init need come to print those
  // of all nodes (env=torch).
  std::string report;
};

BindTold bind_task(const BindPlace& place, const Settings& settings,
                   const EnvironmentEditor& environment);

}  // namespace hvd
