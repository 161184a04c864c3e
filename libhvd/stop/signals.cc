// SPDX-License-Identifier: Apache-2.0
//
// See signals.h.
#include "libhvd/stop/signals.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

namespace hvd {
namespace {

struct Watched {
  int signal;
  struct sigaction before;  // as the program had it; complete before the handler is in place
};

Watched watched[] = {{SIGUSR1, {}}, {SIGTERM, {}}};
std::atomic<int> seen{0};
std::atomic<pid_t> watcher{0};  // the process that has installed the handlers

static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may take no lock");

// The child of a fork has our handlers. What Slurm tells all processes of the step is not meant to
// end it, but its parent's kill is (a worker of a data loader).
void in_child(int signal) {
  if (signal != SIGTERM) return;
  struct sigaction plain = {};
  plain.sa_handler = SIG_DFL;
  sigaction(signal, &plain, nullptr);
  raise(signal);
}

void on_signal(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  const bool child = getpid() != watcher.load();
  if (!child) seen.store(signal);
  for (const Watched& each : watched) {
    if (each.signal != signal) continue;
    if ((each.before.sa_flags & SA_SIGINFO) != 0) {
      each.before.sa_sigaction(signal, info, context);
    } else if (each.before.sa_handler != SIG_DFL && each.before.sa_handler != SIG_IGN) {
      each.before.sa_handler(signal);
    } else if (child && each.before.sa_handler == SIG_DFL) {
      in_child(signal);
    }
  }
  errno = saved;
}

Status install(Watched* each) {
  struct sigaction ours = {};
  if (sigaction(each->signal, nullptr, &each->before) != 0) {
    return errno_error(errno, "asking for the handler of %s", strsignal(each->signal));
  }
  const bool handled = (each->before.sa_flags & SA_SIGINFO) != 0 ||
                       (each->before.sa_handler != SIG_DFL && each->before.sa_handler != SIG_IGN);
  ours.sa_sigaction = on_signal;
  ours.sa_mask = each->before.sa_mask;
  // Whether system calls go on after the signal is the program's choice, if it has made one.
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK |
                  (handled ? each->before.sa_flags & (SA_RESTART | SA_NODEFER) : SA_RESTART);
  if (sigaction(each->signal, &ours, nullptr) != 0) {
    return errno_error(errno, "watching %s", strsignal(each->signal));
  }
  return ok_status();
}

}  // namespace

Status watch_stop_signals() {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  if (watcher.load() == getpid()) return ok_status();
  watcher.store(getpid());
  for (Watched& each : watched) {
    if (Status s = install(&each); !s.ok()) return s;
  }
  return ok_status();
}

int stop_signal() { return seen.load(); }

}  // namespace hvd
