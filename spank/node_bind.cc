// SPDX-License-Identifier: Apache-2.0
#include "spank/node_bind.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "libhvd/base/fd.h"
#include "libhvd/base/handoff.h"
#include "spank/bind.h"
#include "spank/bind_environment.h"
#include "spank/bind_report.h"
#include "spank/limits.h"
#include "spank/step_facts.h"
#include "spank/topology.h"

namespace hvd {
namespace {

constexpr int kMostDevices = 32;  // GPUs of a node

// cpu_set_t for as many CPUs as a CpuSet can have.
class Affinity {
 public:
  Affinity() : set_(CPU_ALLOC(CpuSet::kMost)) { CPU_ZERO_S(size(), set_); }
  ~Affinity() { CPU_FREE(set_); }
  Affinity(const Affinity&) = delete;
  Affinity& operator=(const Affinity&) = delete;

  static size_t size() { return CPU_ALLOC_SIZE(CpuSet::kMost); }

  static CpuSet own() {
    const Affinity affinity;
    CpuSet cpus;
    if (sched_getaffinity(0, size(), affinity.set_) != 0) return cpus;
    for (int cpu = 0; cpu < CpuSet::kMost; ++cpu) {
      if (CPU_ISSET_S(cpu, size(), affinity.set_)) cpus.add(cpu);
    }
    return cpus;
  }

  static Status set_own(const CpuSet& cpus) {
    const Affinity affinity;
    for (int cpu = cpus.first(); cpu >= 0; cpu = cpus.next(cpu)) {
      CPU_SET_S(cpu, size(), affinity.set_);
    }
    if (sched_setaffinity(0, size(), affinity.set_) == 0) return ok_status();
    return errno_error(errno, "running on CPUs %s", cpus.list().c_str());
  }

 private:
  cpu_set_t* set_;
};

std::string own_cgroup() {
  const Fd file(open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC));
  std::string text(16384, '\0');
  const ssize_t n = file.valid() ? read(file.get(), text.data(), text.size()) : 0;
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

// Whether a device cgroup keeps a GPU of this node from this task: the kernel then says so before
// it looks at the file's permissions. Nothing is opened.
bool device_is_denied() {
  for (int i = 0; i < kMostDevices; ++i) {
    for (const std::string& device :
         {"/dev/nvidia" + std::to_string(i), "/dev/dri/renderD" + std::to_string(128 + i)}) {
      if (access(device.c_str(), F_OK | R_OK) != 0 && errno == EPERM) return true;
    }
  }
  return false;
}

// What is set on the way belongs together: nothing of it stays if a variable cannot be set.
Status change(const EnvironmentChange& changes, const EnvironmentEditor& environment) {
  for (const auto& [name, value] : changes.set) {
    const Status status = environment.set(name, value);
    if (!status.ok()) return status;
  }
  for (const std::string& name : changes.unset) environment.unset(name.c_str());
  return ok_status();
}

// Everything or an error; the warnings are added to `told`.
Status bind_or_explain(const BindPlace& place, const Settings& settings, const StepFacts& facts,
                       const EnvironmentEditor& environment, BindTold* told) {
  const auto topology = read_topology(
      place.topology.empty() ? TopologySource::machine() : TopologySource::file(place.topology));
  if (!topology.ok()) return topology.status();
  const auto request = request_of(facts, *topology, settings);
  if (!request.ok()) return request.status();
  const auto binding = bind(*topology, *request);
  if (!binding.ok()) return binding.status();
  // Alone where Slurm has bound the GPUs.
  const bool alone = request->ranks == 1 && facts.ranks > 1;
  const int rank = alone ? 0 : place.local_rank;

  const Status changed =
      change(environment_of(*topology, *request, *binding, rank, environment.get), environment);
  if (!changed.ok()) return changed;
  if (binding->sets_cpus) {
    const Status moved = Affinity::set_own(binding->ranks[static_cast<size_t>(rank)].cpus);
    if (!moved.ok()) return moved;
  }

  if (!alone && place.local_rank != 0) return ok_status();  // one speaks for the node
  Binding shown = *binding;
  if (!facts.sharing.empty() && facts.sharing.front() == place.local_rank) {
    shown.warnings.push_back(
        {facts.sharing, "share GPU " + facts.tokens, "a --gpu-bind that names another for each"});
  }
  if (place.local_rank == 0) {
    for (BindWarning& one : limit_warnings(limits_here(), *topology, facts.ranks)) {
      shown.warnings.push_back(std::move(one));
    }
  } else {  // what concerns all is said by the node's first
    shown.warnings.erase(std::remove_if(shown.warnings.begin(), shown.warnings.end(),
                                        [](const BindWarning& one) { return one.ranks.empty(); }),
                         shown.warnings.end());
  }
  const Json report = report_of(place.node, place.ranks, *topology, *request, shown);
  const std::string& wish = settings.text(Setting::kReport);
  if (wish != "off" && settings.text(Setting::kEnv) == "torch") {
    told->report = wish == "json" ? places_json({report}).dump() + "\n" : places_text({report});
  } else if (wish != "off") {
    return environment.set(kReportVariable, report.dump());
  } else {
    told->remarks = report_warnings({report});
  }
  return ok_status();
}

}  // namespace

BindTold bind_task(const BindPlace& place, const Settings& settings,
                   const EnvironmentEditor& environment) {
  environment.unset(kReportVariable);
  const StepFacts facts =
      step_facts(environment.get, static_cast<int>(place.ranks.size()), place.local_rank,
                 Affinity::own(), place.cpus_bound, own_cgroup(), device_is_denied());
  BindTold told;
  if (!has_work(facts, settings)) return told;
  const Status status = bind_or_explain(place, settings, facts, environment, &told);
  if (!status.ok() && place.local_rank == 0) {
    told.remarks.push_back(place.node + ": nothing is bound: " + status.text());
  }
  return told;
}

}  // namespace hvd
