// SPDX-License-Identifier: Apache-2.0
//
// The plugin in srun, sbatch and salloc: what it chooses, what it refuses, what it leaves alone.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/fakes/spank/slurm.h"
#include "tests/unit/catch.h"

using fake::Outcome;
using fake::slurm;

namespace {

constexpr const char* kInherited = "SLURM_SPANK__SLURM_SPANK_OPTION_horovod_horovod";

// What a case begins with: the environment of the command, and where it runs.
struct Start {
  spank_context_t context = S_CTX_LOCAL;
  std::vector<std::pair<const char*, const char*>> environment;
  std::vector<std::string> plugstack;
};

// Loads the plugin in a child, gives it --horovod=`values` one after the other, and goes on as
// srun does. At the end the child prints what the plugin has left in the environment.
Outcome command(const Start& start, const std::vector<const char*>& values) {
  return fake::in_child([&] {
    for (const char* name :
         {kInherited, "SLURM_MPI_TYPE", "SLURM_KILL_BAD_EXIT", "SLURM_PMIX_FENCE", "SLURM_CONF"}) {
      unsetenv(name);
    }
    for (const auto& [name, value] : start.environment) setenv(name, value, 1);
    slurm().context = start.context;
    slurm().plugstack = start.plugstack;
    fake::call_init();
    const char* inherited = getenv(kInherited);
    if (inherited != nullptr && fake::call_option(inherited) != 0) _exit(255);
    for (const char* value : values) {
      if (fake::call_option(value) != 0) _exit(255);
    }
    fake::call_init_post_opt();
    if (start.context == S_CTX_LOCAL) fake::call_local_user_init();
    fputs(fake::environment_of({"SLURM_MPI_TYPE", "SLURM_KILL_BAD_EXIT", "SLURM_PMIX_FENCE",
                                "SLURM_CONF", kInherited, "HOROVOD_INTERNAL_SRUN_AGAIN",
                                "HOROVOD_INTERNAL_REQUESTED"})
              .c_str(),
          stdout);
  });
}

// The words of this process's command line, as the kernel has them.
std::string own_command_line() {
  FILE* file = fopen("/proc/self/cmdline", "r");
  REQUIRE(file != nullptr);
  std::string text;
  for (int c; (c = fgetc(file)) != EOF;) text += c == '\0' ? ' ' : static_cast<char>(c);
  fclose(file);
  text.pop_back();
  return text;
}

const Start kAgain = {S_CTX_LOCAL,
                      {{"SLURM_MPI_TYPE", "pmix"},
                       {"SLURM_KILL_BAD_EXIT", "1"},
                       {"SLURM_PMIX_FENCE", "ring"},
                       {"HOROVOD_INTERNAL_SRUN_AGAIN", "1"}},
                      {}};

}  // namespace

TEST_CASE("a typed option executes srun once more, with PMIx and kill-on-bad-exit", "[spank]") {
  for (const char* value : {static_cast<const char*>(nullptr), "", "slots=8"}) {
    const Outcome outcome = command({}, {value});
    CHECK(outcome.status == fake::kExecuted);
    CHECK(outcome.err == "");
    CHECK(outcome.out == "/proc/self/exe " + own_command_line() +
                             "\nSLURM_MPI_TYPE=pmix\nSLURM_KILL_BAD_EXIT=1\nSLURM_PMIX_FENCE=ring\n"
                             "HOROVOD_INTERNAL_SRUN_AGAIN=1\n");
  }
}

TEST_CASE("executed again it goes on, and the guard does not reach the tasks", "[spank]") {
  const Outcome outcome = command(kAgain, {"slots=8"});
  CHECK(outcome.status == 0);
  CHECK(outcome.err == "");
  CHECK(outcome.out ==
        "SLURM_MPI_TYPE=pmix\nSLURM_KILL_BAD_EXIT=1\nSLURM_PMIX_FENCE=ring\nHOROVOD_INTERNAL_"
        "REQUESTED=12.0\n");
}

TEST_CASE("srun is executed again once at most", "[spank]") {
  // The second srun does not find what the first has left it.
  CHECK(command({S_CTX_LOCAL, {{"HOROVOD_INTERNAL_SRUN_AGAIN", "1"}}, {}}, {""}).status == 0);
}

TEST_CASE("what the user has chosen stays", "[spank]") {
  const Start all = {
      S_CTX_LOCAL,
      {{"SLURM_MPI_TYPE", "pmix_v4"}, {"SLURM_KILL_BAD_EXIT", "0"}, {"SLURM_PMIX_FENCE", "tree"}},
      {}};
  Outcome outcome = command(all, {nullptr});
  CHECK(outcome.status == 0);
  CHECK(outcome.out ==
        "SLURM_MPI_TYPE=pmix_v4\nSLURM_KILL_BAD_EXIT=0\nSLURM_PMIX_FENCE=tree\n"
        "HOROVOD_INTERNAL_REQUESTED=12.0\n");

  outcome = command({S_CTX_LOCAL, {{"SLURM_KILL_BAD_EXIT", "0"}}, {}}, {nullptr});
  CHECK(outcome.status == fake::kExecuted);
  CHECK(outcome.out.find("SLURM_MPI_TYPE=pmix\nSLURM_KILL_BAD_EXIT=0\n") != std::string::npos);
}

TEST_CASE("what srun sets itself while reading options is not the user's choice", "[spank]") {
  // srun does so after the first component of a heterogeneous job.
  const Outcome outcome = fake::in_child([] {
    fake::call_init();
    setenv("SLURM_MPI_TYPE", "none", 1);
    fake::call_option(nullptr);
  });
  CHECK(outcome.status == fake::kExecuted);
  CHECK(outcome.out.find("SLURM_MPI_TYPE=pmix\n") != std::string::npos);
}

TEST_CASE("an inherited option selects PMIx in time and is marked", "[spank]") {
  const struct {
    const char* inherited;
    const char* marked;
  } cases[] = {
      {"(null)", "inherited"}, {"slots=8", "inherited,slots=8"}, {"inherited", "inherited"}};
  for (const auto& c : cases) {
    INFO(c.inherited);
    const Outcome outcome = command({S_CTX_LOCAL, {{kInherited, c.inherited}}, {}}, {});
    CHECK(outcome.status == 0);
    CHECK(outcome.err == "");
    CHECK(outcome.out ==
          std::string("SLURM_MPI_TYPE=pmix\nSLURM_KILL_BAD_EXIT=1\nSLURM_PMIX_FENCE=ring\n") +
              kInherited + "=" + c.marked + "\nHOROVOD_INTERNAL_REQUESTED=12.0\n");
  }
}

TEST_CASE("a typed option wins over an inherited one", "[spank]") {
  Outcome outcome = command({S_CTX_LOCAL, {{kInherited, "slots=8"}}, {}}, {"slots=4"});
  CHECK(outcome.status == 0);
  CHECK(outcome.out ==
        std::string("SLURM_MPI_TYPE=pmix\nSLURM_KILL_BAD_EXIT=1\nSLURM_PMIX_FENCE=ring\n") +
            kInherited + "=slots=4\nHOROVOD_INTERNAL_REQUESTED=12.0\n");

  // Off: srun begins again as if nothing had been inherited.
  outcome = command({S_CTX_LOCAL, {{kInherited, "slots=8"}}, {}}, {"off"});
  CHECK(outcome.status == fake::kExecuted);
  CHECK(outcome.out.find(std::string("\n") + kInherited +
                         "=off\nHOROVOD_INTERNAL_SRUN_AGAIN=1\n") != std::string::npos);
  CHECK(outcome.out.find("SLURM_MPI_TYPE") == std::string::npos);

  outcome = command({S_CTX_LOCAL, {{kInherited, "off"}, {"HOROVOD_INTERNAL_SRUN_AGAIN", "1"}}, {}},
                    {"off"});
  CHECK(outcome.status == 0);
  CHECK(outcome.out == std::string(kInherited) + "=off\n");
}

TEST_CASE("a component without the option does not undo another's", "[spank]") {
  const Outcome outcome = fake::in_child([] {
    setenv(kInherited, "inherited", 1);
    setenv("SLURM_MPI_TYPE", "none", 1);
    setenv("SLURM_KILL_BAD_EXIT", "0", 1);
    setenv("SLURM_PMIX_FENCE", "ring", 1);
    fake::call_init();
    fake::call_option("inherited");
    fake::call_option("off");
    fake::call_option("inherited");
    fake::call_local_user_init();  // would refuse --mpi=none if it were active
  });
  CHECK(outcome.status == 0);
  CHECK(outcome.err == "");
}

TEST_CASE("the tasks are told that the plugin is asked for, and for which step", "[spank]") {
  const Outcome outcome = fake::in_child([] {
    setenv("SLURM_MPI_TYPE", "pmix", 1);
    setenv("SLURM_KILL_BAD_EXIT", "1", 1);
    setenv("SLURM_PMIX_FENCE", "ring", 1);
    setenv("HOROVOD_INTERNAL_REQUESTED", "11.3", 1);  // of a step around this one
    fake::call_init();
    fake::call_option("");
    fake::call_init_post_opt();
    slurm().job_id = 20;
    slurm().step_id = 4;
    fake::call_local_user_init();
    fputs(fake::environment_of({"HOROVOD_INTERNAL_REQUESTED"}).c_str(), stdout);
  });
  CHECK(outcome.status == 0);
  CHECK(outcome.out == "HOROVOD_INTERNAL_REQUESTED=20.4\n");
}

TEST_CASE("--mpi=none with a typed option is refused in one line", "[spank]") {
  for (const char* type : {"none", "pmi2"}) {
    const Outcome outcome = command(
        {S_CTX_LOCAL,
         {{"SLURM_MPI_TYPE", type}, {"SLURM_KILL_BAD_EXIT", "1"}, {"SLURM_PMIX_FENCE", "ring"}},
         {}},
        {nullptr});
    CHECK(outcome.status == 1);
    CHECK(outcome.err == std::string("error: horovod: --horovod needs PMIx, and this step has "
                                     "--mpi=") +
                             type + "; leave --mpi out or use --mpi=pmix\n");
  }
}

TEST_CASE("--mpi=none with an inherited option is none of the plugin's business", "[spank]") {
  const Outcome outcome =
      command({S_CTX_LOCAL, {{kInherited, "(null)"}, {"SLURM_MPI_TYPE", "none"}}, {}}, {});
  CHECK(outcome.status == 0);
  CHECK(outcome.err == "");
  CHECK(outcome.out.find("HOROVOD_INTERNAL_REQUESTED") == std::string::npos);
}

TEST_CASE("a bad key or value stops the command with the sentence", "[spank]") {
  for (const spank_context_t context : {S_CTX_LOCAL, S_CTX_ALLOCATOR}) {
    Outcome outcome = command({context, {}, {}}, {"fusion-treshold=1M"});
    CHECK(outcome.status == 255);
    CHECK(outcome.err ==
          "error: horovod: unknown key \"fusion-treshold\"; did you mean \"fusion-threshold\"?\n");
    CHECK(outcome.out == "");
    outcome = command({context, {}, {}}, {"slots=a\nb\x1b"});
    CHECK(outcome.err == "error: horovod: slots is \"a?b?\", not a number\n");
  }
  CHECK(command({S_CTX_LOCAL, {{kInherited, "slots=0"}}, {}}, {}).status == 255);
  CHECK(command({}, {"inherited"}).err ==
        "error: horovod: unknown key \"inherited\"; --horovod=help lists the keys\n");
}

TEST_CASE("help is printed and is a success, with the site's defaults", "[spank]") {
  for (const spank_context_t context : {S_CTX_LOCAL, S_CTX_ALLOCATOR}) {
    const Outcome outcome = command({context, {}, {"slots=8"}}, {"help"});
    CHECK(outcome.status == 0);
    CHECK(outcome.err == "");
    CHECK(outcome.out.find("\n  slots                 8* ") != std::string::npos);
  }
}

TEST_CASE("sbatch and salloc check the option and choose nothing", "[spank]") {
  const Outcome outcome = command({S_CTX_ALLOCATOR, {}, {}}, {"slots=8"});
  CHECK(outcome.status == 0);
  CHECK(outcome.out == "");
  CHECK(outcome.err == "");
}

TEST_CASE("a bad plugstack line is said to who asks for horovod, and to nobody else", "[spank]") {
  for (const spank_context_t context : {S_CTX_LOCAL, S_CTX_ALLOCATOR}) {
    Start start = {context, kAgain.environment, {"slots=99"}};
    const Outcome outcome = command(start, {nullptr});
    CHECK(outcome.status == 1);
    CHECK(outcome.err ==
          "error: horovod: plugstack.conf: slots is \"99\", more than 16, the most; please tell "
          "the administrators of this machine\n");
    CHECK(command(start, {}).status == 0);
    CHECK(command(start, {}).err == "");
    CHECK(command(start, {"off"}).status == 0);
  }
}

TEST_CASE("with a command-line filter the plugin chooses nothing", "[spank]") {
  Outcome outcome =
      command({S_CTX_LOCAL, {{"SLURM_MPI_TYPE", "pmix"}}, {"cli-filter"}}, {"slots=8"});
  CHECK(outcome.status == 0);
  CHECK(outcome.out == "SLURM_MPI_TYPE=pmix\nHOROVOD_INTERNAL_REQUESTED=12.0\n");
  outcome = command({S_CTX_LOCAL, {}, {"cli-filter"}}, {"slots=8"});
  CHECK(outcome.status == 1);
}

TEST_CASE("a configuration held in memory is fetched again, a file is kept", "[spank]") {
  const Outcome in_memory = fake::in_child([] {
    setenv("SLURM_CONF", ("/proc/" + std::to_string(getpid()) + "/fd/7").c_str(), 1);
    fake::call_init();
    fake::call_option(nullptr);
  });
  CHECK(in_memory.status == fake::kExecuted);
  CHECK(in_memory.out.find("SLURM_CONF") == std::string::npos);
  const Outcome file = command({S_CTX_LOCAL, {{"SLURM_CONF", "/etc/slurm/slurm.conf"}}, {}}, {""});
  CHECK(file.status == fake::kExecuted);
  CHECK(file.out.find("SLURM_CONF=/etc/slurm/slurm.conf\n") != std::string::npos);
}

TEST_CASE("hostile values in every variable that srun's side reads: srun goes on, or one sentence",
          "[spank]") {
  const std::string values[] = {
      "",   std::string(131000, 'x'),   "%s%n%s%n", "\x1b[2J\n\xff",     "inherited,off,help=1",
      "-1", "99999999999999999999,,,=", "/proc/",   "slots=\x1b]0;x\x07"};
  const char* const names[] = {
      kInherited,       "HOROVOD_INTERNAL_SRUN_AGAIN", "HOROVOD_INTERNAL_REQUESTED",
      "SLURM_MPI_TYPE", "SLURM_KILL_BAD_EXIT",         "SLURM_PMIX_FENCE",
      "SLURM_CONF"};
  const std::vector<const char*> typed[] = {{}, {nullptr}, {"off"}};
  for (const char* name : names) {
    for (const std::string& value : values) {
      for (const auto& options : typed) {
        CAPTURE(name, value.substr(0, 40), options.size());
        const Outcome outcome = command({S_CTX_LOCAL, {{name, value.c_str()}}, {}}, options);
        const bool refused = outcome.status == 1 || outcome.status == 255;
        CHECK((refused || outcome.status == 0 || outcome.status == fake::kExecuted));
        CHECK(outcome.err.empty() == !refused);
        if (!refused) continue;
        CHECK(outcome.err.compare(0, 16, "error: horovod: ") == 0);
        CHECK(outcome.err.find_first_of("\n\r\x07\x1b") == outcome.err.size() - 1);
        CHECK(outcome.err.size() < 2100);
      }
    }
  }
}

TEST_CASE("without the option the environment is as it was", "[spank]") {
  for (const spank_context_t context : {S_CTX_LOCAL, S_CTX_ALLOCATOR}) {
    const Outcome outcome = command({context, {{"SLURM_KILL_BAD_EXIT", "0"}}, {"slots=99"}}, {});
    CHECK(outcome.status == 0);
    CHECK(outcome.out == "SLURM_KILL_BAD_EXIT=0\n");
    CHECK(outcome.err == "");
  }
}
