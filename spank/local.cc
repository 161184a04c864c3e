// SPDX-License-Identifier: Apache-2.0
//
// The login side: srun, sbatch, salloc. Checks the option before anything is allocated and makes
// srun select PMIx. srun reads SLURM_MPI_TYPE between loading plugins and reading its options, so
// there are two ways: an option that is inherited is in the environment already when the plugin
// is loaded, and the variable is set in time; a typed one is seen too late, so that srun is
// executed once more with the variable set. (To look for --horovod in the arguments would be too
// early: only getopt knows abbreviations and where the arguments of the program begin.)
//
// What the user has chosen is never changed. Without the option nothing is opened, forked or
// allocated here.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "libhvd/base/fd.h"
#include "libhvd/base/handoff.h"
#include "libhvd/base/json.h"
#include "spank/entry.h"
#include "spank/options.h"

namespace hvd {
namespace {

// Where #SBATCH --horovod reaches the sruns of the job. Slurm builds the name from the names of
// plugin and option.
constexpr const char* kInheritedVariable = "SLURM_SPANK__SLURM_SPANK_OPTION_horovod_horovod";
// Says that srun has been executed again; never reaches a task.
constexpr const char* kAgainVariable = "HOROVOD_INTERNAL_SRUN_AGAIN";

constexpr const char* kMpiType = "SLURM_MPI_TYPE";

// What srun is to find in its environment, unless the user has put something else there.
struct Choice {
  const char* variable;
  const char* value;
};
//
// SLURM_PMIX_FENCE: Open MPI's MPI_Init ends with a fence that carries no data, which by Slurm's
// default algorithm is no barrier (21.08 to 26.05): with libpmix 4.2.2 and Open MPI 4.1.4 5 of 100
// steps of 8 ranks on 4 nodes crashed in it, 0 of 120 with the ring.
constexpr Choice kChoices[] = {
    {kMpiType, "pmix"}, {"SLURM_KILL_BAD_EXIT", "1"}, {"SLURM_PMIX_FENCE", "ring"}};
constexpr size_t kChoiceCount = sizeof kChoices / sizeof kChoices[0];

// What one process of srun, sbatch or salloc knows. Plain data: the plugin is unloaded at any time.
struct State {
  int argc;  // of the plugstack.conf line
  char** arguments;
  bool again;                // srun has executed itself already
  bool active;               // the last word on --horovod was not "off"
  bool typed;                // --horovod is on this command line
  bool ours[kChoiceCount];   // we set the variable in this process
  bool users[kChoiceCount];  // it was there when this process began
};
State state;

// One line for the user, without anything that could disturb a terminal or a log.
void complain(const std::string& text) {
  slurm_error("horovod: %s", printable(text.substr(0, kLongestLine)).c_str());
}

// Before srun's options are read: srun itself sets some of these when it has read those of a
// component of a heterogeneous job.
void see_what_the_user_has_chosen() {
  for (size_t i = 0; i < kChoiceCount; ++i) {
    state.users[i] = getenv(kChoices[i].variable) != nullptr;
  }
}

// Chooses what the user has not chosen. True if there was anything.
bool choose() {
  bool any = false;
  for (size_t i = 0; i < kChoiceCount; ++i) {
    if (state.users[i] || state.ours[i]) continue;
    setenv(kChoices[i].variable, kChoices[i].value, 1);
    state.ours[i] = any = true;
  }
  return any;
}

// True if there was anything to take back.
bool take_back() {
  bool any = false;
  for (size_t i = 0; i < kChoiceCount; ++i) {
    if (!state.ours[i]) continue;
    unsetenv(kChoices[i].variable);
    state.ours[i] = false;
    any = true;
  }
  return any;
}

// This process's arguments as the kernel has them: exactly what was typed.
Expected<std::string> command_line() {
  const Fd file(open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return errno_error(errno, "opening /proc/self/cmdline");
  std::string text;
  char buffer[4096];
  ssize_t n;
  while ((n = read(file.get(), buffer, sizeof buffer)) > 0) text.append(buffer, n);
  if (n < 0) return errno_error(errno, "reading /proc/self/cmdline");
  return text;
}

// A login node without slurm.conf keeps it in memory and names it in the environment by a
// descriptor that ends with this program: the next one must fetch it again.
void forget_private_slurm_conf() {
  const char* file = getenv("SLURM_CONF");
  const std::string own = "/proc/" + std::to_string(getpid()) + "/fd/";
  if (file != nullptr && strncmp(file, own.c_str(), own.size()) == 0) unsetenv("SLURM_CONF");
}

// Returns only if it could not be done.
Status execute_again() {
  auto text = command_line();
  if (!text.ok()) return text.status();
  std::vector<char*> argv;
  for (size_t at = 0; at < text->size(); at += strlen(&(*text)[at]) + 1) {
    argv.push_back(&(*text)[at]);
  }
  argv.push_back(nullptr);
  forget_private_slurm_conf();
  setenv(kAgainVariable, "1", 1);
  execv("/proc/self/exe", argv.data());
  const Status status = errno_error(errno, "executing srun again");
  unsetenv(kAgainVariable);
  return status;
}

void print_help() {
  const auto site = parse_site(state.argc, state.arguments);
  const std::string text = help_text(site.ok() ? site->settings : Settings());
  fputs(text.c_str(), stdout);
  fflush(stdout);
}

bool is_srun() { return spank_context() == S_CTX_LOCAL; }

// False where the site has Slurm's command-line filter select PMIx.
bool plugin_selects_pmix() {
  const auto site = parse_site(state.argc, state.arguments);
  return !site.ok() || !site->cli_filter;
}

void init() {
  if (!is_srun()) return;
  see_what_the_user_has_chosen();
  state.again = getenv(kAgainVariable) != nullptr;
  if (state.again) unsetenv(kAgainVariable);
  const char* inherited = getenv(kInheritedVariable);
  if (inherited == nullptr) return;
  // A bad value is srun's to refuse, when it hands it to the option callback.
  const auto request = parse_request(inherited);
  if (!request.ok() || request->off) return;
  setenv(kInheritedVariable, mark_inherited(inherited).c_str(), 1);
  if (plugin_selects_pmix()) choose();
}

Status typed_on_srun(const char* value) {
  // A heterogeneous srun reads the inherited value again for each component: it is this one now.
  if (getenv(kInheritedVariable) != nullptr) {
    setenv(kInheritedVariable, value == nullptr ? "" : value, 1);
  }
  if (!plugin_selects_pmix()) return ok_status();
  const bool changed = state.active ? choose() : take_back();
  return changed && !state.again ? execute_again() : ok_status();
}

Status option(const char* value) {
  const auto request = parse_request(value);
  if (!request.ok()) return request.status();
  if (request->help) {
    print_help();
    exit(0);
  }
  if (request->inherited && getenv(kInheritedVariable) == nullptr) {
    return error(Code::kInvalid, "unknown key \"inherited\"; --horovod=help lists the keys");
  }
  if (request->inherited && state.typed) return ok_status();
  const auto site = parse_site(state.argc, state.arguments);
  // An error of the site's own line is told when all options are read.
  const Status allowed = site.ok() ? allowed_by_site(*request, *site) : ok_status();
  if (!allowed.ok()) return allowed;
  state.active = !request->off;
  if (request->inherited || !is_srun()) return ok_status();
  state.typed = true;
  return typed_on_srun(value);
}

void options_done() {
  if (!state.active) return;
  const auto site = parse_site(state.argc, state.arguments);
  if (site.ok()) return;
  complain(site.status().text() + "; please tell the administrators of this machine");
  exit(1);
}

// Says to the tasks of this step, and to nobody who inherits their environment, that the plugin is
// asked for. (A heterogeneous step has copied its environment by now.)
void say_requested(spank_t spank) {
  uint32_t job = 0;
  uint32_t step = 0;
  if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS) {
    return;
  }
  setenv(kRequestedVariable, (std::to_string(job) + "." + std::to_string(step)).c_str(), 1);
}

void before_launch(spank_t spank) {
  if (!state.active) return;
  const char* type = getenv(kMpiType);
  if (type != nullptr && strncmp(type, "pmix", 4) == 0) return say_requested(spank);
  // mpirun starts its daemons with srun --mpi=none, also inside #SBATCH --horovod.
  if (!state.typed) return;
  complain(std::string("--horovod needs PMIx, and this step has --mpi=") +
           (type == nullptr ? "none" : type) + "; leave --mpi out or use --mpi=pmix");
  exit(1);
}

// Runs `work` at the border to C.
template <typename Work>
int guarded(Work work) noexcept {
  try {
    return work();
  } catch (const std::exception& e) {
    slurm_error("horovod: %s", e.what());
  } catch (...) {
    slurm_error("horovod: unknown error");
  }
  return -1;
}

}  // namespace
}  // namespace hvd

void hvd_local_init(int argc, char** arguments) noexcept {
  hvd::state = hvd::State{};
  hvd::state.argc = argc;
  hvd::state.arguments = arguments;
  hvd::guarded([] {
    hvd::init();
    return 0;
  });
}

int hvd_local_option(const char* value) noexcept {
  return hvd::guarded([&] {
    const hvd::Status status = hvd::option(value);
    if (status.ok()) return 0;
    hvd::complain(status.text());
    return -1;
  });
}

void hvd_local_options_done() noexcept {
  hvd::guarded([] {
    hvd::options_done();
    return 0;
  });
}

void hvd_local_before_launch(spank_t spank) noexcept {
  hvd::guarded([&] {
    hvd::before_launch(spank);
    return 0;
  });
}
