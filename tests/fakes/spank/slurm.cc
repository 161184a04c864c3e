// SPDX-License-Identifier: Apache-2.0
//
// The fake's functions. None of them allocates in the callbacks of a step without the option, so
// that the plugin can be watched doing nothing.
#include "tests/fakes/spank/slurm.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

struct spank_handle {};

// Those that the plugin need not have.
extern "C" {
#define HVD_MAY_BE_MISSING(name) extern __attribute__((weak)) decltype(name) name
HVD_MAY_BE_MISSING(slurm_spank_user_init);
HVD_MAY_BE_MISSING(slurm_spank_task_post_fork);
HVD_MAY_BE_MISSING(slurm_spank_task_exit);
HVD_MAY_BE_MISSING(slurm_spank_exit);
HVD_MAY_BE_MISSING(slurm_spank_slurmd_exit);
HVD_MAY_BE_MISSING(slurm_spank_job_prolog);
HVD_MAY_BE_MISSING(slurm_spank_job_epilog);
#undef HVD_MAY_BE_MISSING
}

namespace {

// ESPANK_SUCCESS is a macro for 0, the others are of the type.
constexpr spank_err_t kSuccess = static_cast<spank_err_t>(ESPANK_SUCCESS);

spank_handle handle;

using Callback = int(spank_t, int, char**);

int call(Callback* callback) {
  // Slurm's own array: it outlives the call.
  static char* arguments[64];
  auto& line = fake::slurm().plugstack;
  int count = 0;
  for (std::string& argument : line) arguments[count++] = argument.data();
  return callback(&handle, count, arguments);
}

std::string read_some(int fd) {
  char buffer[4096];
  const ssize_t n = read(fd, buffer, sizeof buffer);
  return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : "";
}

void say(const char* prefix, const char* format, va_list arguments) {
  fputs(prefix, stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
}

}  // namespace

namespace fake {

Slurm& slurm() {
  static Slurm the_one;
  return the_one;
}

int call_init() { return call(slurm_spank_init); }
int call_init_post_opt() { return call(slurm_spank_init_post_opt); }
int call_local_user_init() {
  slurm().step_exists = true;
  return call(slurm_spank_local_user_init);
}
int call_task_init_privileged() { return call(slurm_spank_task_init_privileged); }
int call_task_init() { return call(slurm_spank_task_init); }

int call_option(const char* value) {
  const spank_option* option = slurm().registered;
  return option->cb(option->val, value, slurm().context == S_CTX_REMOTE);
}

int call_every_callback() {
  return call_init() + call_init_post_opt() + call_local_user_init() + call_task_init_privileged() +
         call_task_init();
}

void call_as_root() {
  Callback* const callbacks[] = {slurm_spank_init,
                                 slurm_spank_init_post_opt,
                                 slurm_spank_user_init,
                                 slurm_spank_task_init_privileged,
                                 slurm_spank_task_post_fork,
                                 slurm_spank_task_exit,
                                 slurm_spank_exit};
  for (Callback* callback : callbacks) {
    if (callback != nullptr) call(callback);
  }
}

bool has_callbacks_of_the_node() {
  Callback* const callbacks[] = {slurm_spank_slurmd_exit, slurm_spank_job_prolog,
                                 slurm_spank_job_epilog};
  for (Callback* callback : callbacks) {
    if (callback != nullptr) return true;
  }
  return false;
}

Outcome in_child(const std::function<void()>& body) {
  int out[2], err[2];
  if (pipe(out) != 0 || pipe(err) != 0) abort();
  fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(out[1], 1);
    dup2(err[1], 2);
    for (int fd : {out[0], out[1], err[0], err[1]}) close(fd);
    body();
    fflush(nullptr);
    _exit(0);
  }
  close(out[1]);
  close(err[1]);
  Outcome outcome;
  pollfd ends[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    if (poll(ends, 2, 10000) <= 0) break;
    for (int i = 0; i < 2; ++i) {
      if (ends[i].revents == 0) continue;
      const std::string some = read_some(ends[i].fd);
      if (some.empty()) ends[i].fd = -1;
      (i == 0 ? outcome.out : outcome.err) += some;
    }
  }
  close(out[0]);
  close(err[0]);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return outcome;
}

std::string environment_of(const std::vector<const char*>& names) {
  std::string text;
  for (const char* name : names) {
    const char* value = getenv(name);
    if (value != nullptr) text += std::string(name) + "=" + value + "\n";
  }
  return text;
}

}  // namespace fake

extern "C" {

spank_context_t spank_context(void) { return fake::slurm().context; }

spank_err_t spank_option_register(spank_t, spank_option* option) {
  fake::slurm().registered = option;
  return kSuccess;
}

spank_err_t spank_option_getopt(spank_t, spank_option* option, char** value) {
  if (option != fake::slurm().registered) return ESPANK_BAD_ARG;
  if (!fake::slurm().option_given) return ESPANK_ERROR;
  *value = const_cast<char*>(fake::slurm().option_value);
  return kSuccess;
}

// spank.h has an enum before the dots, which clang warns of.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wvarargs"
spank_err_t spank_get_item(spank_t, spank_item_t item, ...) {
  va_list arguments;
  va_start(arguments, item);
#pragma GCC diagnostic pop
  spank_err_t result = kSuccess;
  if (fake::slurm().context != S_CTX_REMOTE && !fake::slurm().step_exists) {
    result = ESPANK_NOT_AVAIL;
  } else if (fake::slurm().context != S_CTX_REMOTE && item == S_TASK_ID) {
    result = ESPANK_NOT_REMOTE;
  } else if (item == S_JOB_ID) {
    *va_arg(arguments, uint32_t*) = fake::slurm().job_id;
  } else if (item == S_JOB_STEPID) {
    *va_arg(arguments, uint32_t*) = fake::slurm().step_id;
  } else if (item == S_TASK_ID) {
    *va_arg(arguments, int*) = fake::slurm().local_task;
  } else {
    result = ESPANK_BAD_ARG;
  }
  va_end(arguments);
  return result;
}

spank_err_t spank_getenv(spank_t, const char* name, char* buffer, int room) {
  if (fake::slurm().context != S_CTX_REMOTE) return ESPANK_NOT_REMOTE;
  fake::slurm().asked.insert(name);
  const auto found = fake::slurm().task.find(name);
  if (found == fake::slurm().task.end()) return ESPANK_ENV_NOEXIST;
  // Slurm copies what fits.
  snprintf(buffer, static_cast<size_t>(room), "%s", found->second.c_str());
  return found->second.size() < static_cast<size_t>(room) ? kSuccess : ESPANK_NOSPACE;
}

spank_err_t spank_setenv(spank_t, const char* name, const char* value, int overwrite) {
  if (fake::slurm().context != S_CTX_REMOTE) return ESPANK_NOT_REMOTE;
  if (fake::slurm().refused_variable == name) return ESPANK_NOSPACE;
  if (overwrite == 0 && fake::slurm().task.count(name) != 0) return ESPANK_ENV_EXISTS;
  fake::slurm().task[name] = value;
  return kSuccess;
}

spank_err_t spank_unsetenv(spank_t, const char* name) {
  if (fake::slurm().context != S_CTX_REMOTE) return ESPANK_NOT_REMOTE;
  fake::slurm().task.erase(name);
  return kSuccess;
}

const char* spank_strerror(spank_err_t) { return "no space"; }

void slurm_error(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say("error: ", format, arguments);
  va_end(arguments);
}

void slurm_spank_log(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say("", format, arguments);
  va_end(arguments);
}

// In place of the C library's: srun would be this test otherwise.
int execv(const char* path, char* const argv[]) noexcept {
  std::string text = path;
  for (char* const* argument = argv; *argument != nullptr; ++argument) {
    text += std::string(" ") + *argument;
  }
  text += '\n';
  text += fake::environment_of({"SLURM_MPI_TYPE", "SLURM_KILL_BAD_EXIT", "SLURM_PMIX_FENCE",
                                "SLURM_CONF", "SLURM_SPANK__SLURM_SPANK_OPTION_horovod_horovod",
                                "HOROVOD_INTERNAL_SRUN_AGAIN"});
  fputs(text.c_str(), stdout);
  fflush(stdout);
  _exit(fake::kExecuted);
}

}  // extern "C"
