// SPDX-License-Identifier: Apache-2.0
//
// How a process was started, told from its environment.
#include "pmix/launch.h"

#include <unistd.h>

#include <map>

#include "libhvd/base/handoff.h"
#include "pmix/rank_claim.h"
#include "tests/unit/catch.h"
#include "tests/unit/processes.h"

using Environment = std::map<std::string, std::string>;

namespace {

hvd::Getenv reader(const Environment& environment) {
  return [&](const char* name) {
    const auto it = environment.find(name);
    return it == environment.end() ? nullptr : it->second.c_str();
  };
}

Environment with(Environment base, const Environment& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

const Environment kStep = {{"SLURM_JOB_ID", "7"},
                           {"SLURM_STEP_ID", "2"},
                           {"SLURM_STEP_NUM_TASKS", "4"},
                           {"SLURM_NTASKS", "4"},
                           {"SLURM_PROCID", "3"}};
const Environment kItsPmix = {{"PMIX_NAMESPACE", "slurm.pmix.7.2"}, {"PMIX_RANK", "3"}};
const Environment kMpirun = {
    {"PMIX_NAMESPACE", "3245735937"}, {"PMIX_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}};
const Environment kBatch = {{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}};

}  // namespace

TEST_CASE("a process knows whether PMIx's and Slurm's variables are for itself") {
  const struct {
    const char* situation;
    Environment environment;
    bool pmix, slurm_step;
  } cases[] = {
      {"no launcher", {}, false, false},
      {"srun --mpi=pmix", with(kStep, kItsPmix), true, true},
      {"srun --mpi=pmix -n1", with(with(kStep, kItsPmix), {{"SLURM_STEP_NUM_TASKS", "1"}}), true,
       true},
      {"mpirun", kMpirun, true, false},
      {"mpirun in a batch script", with(kBatch, kMpirun), true, false},
      {"mpirun whose daemon runs in a step", with(kStep, kMpirun), true, false},
      {"a batch script", kBatch, false, false},
      {"a batch script that has a special step id",
       with(kBatch, {{"SLURM_STEP_ID", "4294967291"}, {"SLURM_STEP_NUM_TASKS", "4"}}), false,
       false},
      {"a step of one task without PMIx", with(kStep, {{"SLURM_STEP_NUM_TASKS", "1"}}), false,
       false},
      {"one task of an inner srun --mpi=none",
       with(with(kStep, kItsPmix), {{"SLURM_STEP_ID", "5"}, {"SLURM_STEP_NUM_TASKS", "1"}}), false,
       false},
      {"the second component of a heterogeneous job",
       with(with(kStep, kItsPmix), {{"SLURM_JOB_ID", "8"}, {"SLURM_HET_JOB_ID", "7"}}), true, true},
      {"PMIx where SLURM_* were removed", kItsPmix, true, false},
      {"half of PMIx's variables", {{"PMIX_RANK", "0"}}, false, false},
      {"mpiexec of one process", {{"PMI_SIZE", "1"}}, false, false},
  };
  for (const auto& c : cases) {
    INFO(c.situation);
    const auto launch = hvd::find_launch(reader(c.environment));
    INFO(launch.status().text());
    REQUIRE(launch.ok());
    CHECK(launch->pmix == c.pmix);
    CHECK(launch->slurm_step == c.slurm_step);
  }
}

TEST_CASE("several processes that cannot find each other are an error, not many jobs") {
  const struct {
    const char* situation;
    Environment environment;
    const char* text;
  } cases[] = {
      {"srun without PMIx", kStep,
       "this Slurm step has 4 tasks but no PMIx, so they cannot find each other. Start it with "
       "\"srun --horovod\" or \"srun --mpi=pmix\""},
      {"an inner srun --mpi=none", with(with(kStep, kItsPmix), {{"SLURM_STEP_ID", "5"}}),
       "this Slurm step has 4 tasks but no PMIx, so they cannot find each other; what it has was "
       "inherited from step 7.2. Start it with \"srun --horovod\" or \"srun --mpi=pmix\""},
      {"an inner step of another job", with(with(kStep, kItsPmix), {{"SLURM_JOB_ID", "70"}}),
       "this Slurm step has 4 tasks but no PMIx, so they cannot find each other; what it has was "
       "inherited from step 7.2. Start it with \"srun --horovod\" or \"srun --mpi=pmix\""},
      {"a launcher with another PMI",
       {{"PMI_SIZE", "4"}},
       "PMI_SIZE says that this is one of 4 processes, but their launcher has no PMIx, so they "
       "cannot find each other. Start them with \"srun --horovod\", or with Open MPI's mpirun"},
  };
  for (const auto& c : cases) {
    INFO(c.situation);
    const auto launch = hvd::find_launch(reader(c.environment));
    CHECK(launch.status().code() == hvd::Code::kSystem);
    CHECK(launch.status().text() == c.text);
  }
}

TEST_CASE("a task on a node without the plugin says so, if its own step asked for it") {
  const auto asked = [&](const Environment& base, const std::string& for_step) {
    return with(base, {{hvd::kRequestedVariable, for_step}, {"SLURMD_NODENAME", "node1"}});
  };
  const Environment task = with(kStep, kItsPmix);
  const auto refused = hvd::find_launch(reader(asked(task, "7.2")));
  CHECK(refused.status().code() == hvd::Code::kSystem);
  CHECK(
      refused.status().text() ==
      "the Slurm plugin \"horovod\" is not loaded on node1, so this task has nothing of what srun "
      "--horovod asked for. Tell the administrators of this machine: the node's plugstack.conf "
      "must name spank_horovod.so, built for its release of Slurm");

  const struct {
    const char* situation;
    Environment environment;
  } fine[] = {
      {"the plugin was there", task},
      {"a plain step inside such a task", asked(task, "7.1")},
      {"a job that such a task has submitted", asked(task, "6.2")},
      {"mpirun inside such a task", asked(with(kStep, kMpirun), "7.2")},
      {"one task of a step without PMIx inside such a task",
       asked(with(task, {{"SLURM_STEP_ID", "5"}, {"SLURM_STEP_NUM_TASKS", "1"}}), "7.2")},
      {"no launcher", {{hvd::kRequestedVariable, "7.2"}}},
  };
  for (const auto& c : fine) {
    INFO(c.situation);
    CHECK(hvd::find_launch(reader(c.environment)).ok());
  }
}

TEST_CASE("Slurm and PMIx must agree about rank and size") {
  CHECK(hvd::compare_with_slurm(reader(kStep), 3, 4).ok());
  CHECK(hvd::compare_with_slurm(reader({}), 3, 4).ok());
  for (const auto& [rank, size] : {std::pair{2, 4}, std::pair{3, 8}}) {
    const auto status = hvd::compare_with_slurm(reader(kStep), rank, size);
    CHECK(status.code() == hvd::Code::kMismatch);
    CHECK(status.text() ==
          hvd::format("PMIx says that this is rank %d of %d, but Slurm says rank 3 of 4 "
                      "(SLURM_PROCID, SLURM_NTASKS). Was one of these variables set or inherited "
                      "by the script?",
                      rank, size));
  }
}

TEST_CASE("a rank's second process is an error, another rank's or a first one is not") {
  const auto marked = [&](const std::string& mark) {
    return with(kItsPmix, {{hvd::kProcessVariable, mark}});
  };
  CHECK(hvd::check_process_mark(reader(kItsPmix), 100).ok());
  CHECK(hvd::check_process_mark(reader(marked("slurm.pmix.7.2:3:100")), 100).ok());
  CHECK(hvd::check_process_mark(reader(marked("slurm.pmix.7.2:30:99")), 100).ok());
  CHECK(hvd::check_process_mark(reader(marked("slurm.pmix.7.1:3:99")), 100).ok());
  CHECK(hvd::check_process_mark(reader(marked("")), 100).ok());
  CHECK(hvd::process_mark("slurm.pmix.7.2", 3, 99) == "slurm.pmix.7.2:3:99");
  const auto status = hvd::check_process_mark(reader(marked("slurm.pmix.7.2:3:99")), 100);
  CHECK(status.code() == hvd::Code::kState);
  CHECK(status.text() ==
        "process 99 of this rank has initialised horovod already, and a rank is one process. "
        "Initialise in one of them only (data loaders and other helpers need no init)");
}

TEST_CASE("a second process of a rank is told so without help of the environment") {
  const std::string name = "horovod-rank-test-" + std::to_string(getpid());
  auto first = hvd::claim_rank(name);
  REQUIRE(first.ok());
  REQUIRE(first->valid());
  hvd_test::Process second([&] {
    const auto claim = hvd::claim_rank(name);
    const std::string text = claim.status().text();
    return text.find("process " + std::to_string(getppid()) + " of this rank has init") == 0 ? 0
                                                                                             : 1;
  });
  CHECK(second.wait() == 0);
  // Nobody takes the askers out of the queue, and all of them are to be told.
  for (int i = 0; i < 200; ++i) {
    const auto claim = hvd::claim_rank(name);
    REQUIRE(claim.status().code() == hvd::Code::kState);
    REQUIRE(claim.status().text().find("process") != std::string::npos);
  }
  first->reset();
  CHECK(hvd::claim_rank(name)->valid());
}

TEST_CASE("ranks, jobs and servers are told apart") {
  const auto identity = [](const Environment& environment) {
    return hvd::rank_identity(reader(environment));
  };
  const Environment own =
      with(kItsPmix, {{"PMIX_SERVER_URI2", "pmix-server.1;tcp4://127.0.0.1:1"}});
  CHECK(identity(own) == identity(own));
  CHECK(identity(own).size() < 100);  // fits the address of a socket
  CHECK(identity(with(own, {{"PMIX_RANK", "4"}})) != identity(own));
  CHECK(identity(with(own, {{"PMIX_NAMESPACE", "slurm.pmix.7.3"}})) != identity(own));
  CHECK(identity(with(own, {{"PMIX_SERVER_URI2", "pmix-server.1;tcp4://127.0.0.1:2"}})) !=
        identity(own));
}
