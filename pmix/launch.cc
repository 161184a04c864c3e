// SPDX-License-Identifier: Apache-2.0
//
// The decision of the header. Step ids from 0xfffffff0 on are not steps of tasks: batch scripts,
// interactive shells, external ones.
#include "pmix/launch.h"

#include <cstdint>
#include <cstring>

#include "libhvd/base/handoff.h"
#include "libhvd/base/parse.h"

namespace hvd {
namespace {

constexpr int64_t kFirstSpecialStep = 0xfffffff0;

std::string variable(const Getenv& get, const char* name) {
  const char* value = get(name);
  return value == nullptr ? std::string() : value;
}

// SLURM_STEP_ID if it is that of a step with tasks, else empty.
std::string own_step(const Getenv& get) {
  const std::string step = variable(get, "SLURM_STEP_ID");
  const auto number = parse_count(step);
  return number && *number < kFirstSpecialStep ? step : std::string();
}

// Whether JOB.STEP of a namespace is the step of our SLURM_* variables. In a heterogeneous job
// PMIx counts by the job of the first component.
bool is_own(const Getenv& get, const std::string& step, std::string_view job_and_step) {
  for (const char* job_variable : {"SLURM_JOB_ID", "SLURM_HET_JOB_ID"}) {
    const std::string job = variable(get, job_variable);
    if (!job.empty() && job + "." + step == job_and_step) return true;
  }
  return false;
}

// srun --horovod asked for the plugin in this step, and the node has not loaded it. Such a task
// could run, but without its settings and its binding, and nobody would know why.
Status plugin_at_work(const Getenv& get, std::string_view step) {
  if (variable(get, kRequestedVariable) != step) return ok_status();
  const std::string node = variable(get, "SLURMD_NODENAME");
  return error(Code::kSystem,
               "the Slurm plugin \"horovod\" is not loaded on %s, so this task has nothing of what "
               "srun --horovod asked for. Tell the administrators of this machine: the node's "
               "plugstack.conf must name spank_horovod.so, built for its release of Slurm",
               node.empty() ? "this node" : node.c_str());
}

// Processes that a launcher started together and that cannot find each other.
Status many_alone(const Getenv& get, const std::string& step, std::string_view inherited) {
  const auto several = [&](const char* name) {
    const auto count = parse_count(variable(get, name));
    return count && *count > 1;
  };
  if (!step.empty() && several("SLURM_STEP_NUM_TASKS")) {
    const std::string of_outer =
        inherited.empty()
            ? ""
            : format("; what it has was inherited from step %s", std::string(inherited).c_str());
    return error(Code::kSystem,
                 "this Slurm step has %s tasks but no PMIx, so they cannot find each other%s. "
                 "Start it with \"srun --horovod\" or \"srun --mpi=pmix\"",
                 variable(get, "SLURM_STEP_NUM_TASKS").c_str(), of_outer.c_str());
  }
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (step.empty() && several(name)) {
      return error(Code::kSystem,
                   "%s says that this is one of %s processes, but their launcher has no PMIx, so "
                   "they cannot find each other. Start them with \"srun --horovod\", or with Open "
                   "MPI's mpirun",
                   name, variable(get, name).c_str());
    }
  }
  return ok_status();
}

}  // namespace

Expected<Launch> find_launch(const Getenv& get) {
  Launch launch;
  const std::string pmix_namespace = variable(get, "PMIX_NAMESPACE");
  const std::string step = own_step(get);
  std::string_view inherited;
  if (!pmix_namespace.empty() && !variable(get, "PMIX_RANK").empty()) {
    const std::string_view of_slurm = slurm_step_of(pmix_namespace);
    launch.pmix = true;
    if (!of_slurm.empty() && !step.empty()) {
      launch.slurm_step = is_own(get, step, of_slurm);
      launch.pmix = launch.slurm_step;
      if (!launch.pmix) inherited = of_slurm;
    }
  }
  Status status = ok_status();
  if (launch.slurm_step) status = plugin_at_work(get, slurm_step_of(pmix_namespace));
  if (!launch.pmix) status = many_alone(get, step, inherited);
  if (!status.ok()) return status;
  return launch;
}

Status compare_with_slurm(const Getenv& get, int rank, int size) {
  const auto slurm_rank = parse_count(variable(get, "SLURM_PROCID"));
  const auto slurm_size = parse_count(variable(get, "SLURM_NTASKS"));
  if (slurm_rank.value_or(rank) == rank && slurm_size.value_or(size) == size) return ok_status();
  return error(Code::kMismatch,
               "PMIx says that this is rank %d of %d, but Slurm says rank %s of %s (SLURM_PROCID, "
               "SLURM_NTASKS). Was one of these variables set or inherited by the script?",
               rank, size, variable(get, "SLURM_PROCID").c_str(),
               variable(get, "SLURM_NTASKS").c_str());
}

std::string process_mark(const std::string& pmix_namespace, int rank, int pid) {
  return format("%s:%d:%d", pmix_namespace.c_str(), rank, pid);
}

Status check_process_mark(const Getenv& get, int pid) {
  const std::string mark = variable(get, kProcessVariable);
  const std::string own = variable(get, "PMIX_NAMESPACE") + ":" + variable(get, "PMIX_RANK") + ":";
  if (mark.compare(0, own.size(), own) != 0) return ok_status();
  const std::string first = mark.substr(own.size());
  const auto number = parse_count(first);
  if (first == std::to_string(pid) || !number) return ok_status();
  return second_process(static_cast<int>(*number));
}

Status second_process(int first) {
  return error(Code::kState,
               "%s of this rank has initialised horovod already, and a rank is one process. "
               "Initialise in one of them only (data loaders and other helpers need no init)",
               first > 0 ? format("process %d", first).c_str() : "another process");
}

}  // namespace hvd
