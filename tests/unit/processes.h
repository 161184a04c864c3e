// SPDX-License-Identifier: Apache-2.0
//
// Ranks that are processes or threads of a unit test. Forks only where no thread runs.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <thread>
#include <vector>

#include "libhvd/base/clock.h"

namespace hvd_test {

// A forked process that runs `body` and exits with what it returns; killed and reaped at the end.
class Process {
 public:
  explicit Process(const std::function<int()>& body) : pid_(fork()) {
    if (pid_ == 0) _exit(body());
  }
  ~Process() { kill_now(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void kill_now() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    (void)wait();
  }
  // Exit status, or -signal.
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

// Runs body(0) .. body(n - 1) as threads and joins them.
inline void in_threads(int n, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) threads.emplace_back(body, i);
  for (std::thread& t : threads) t.join();
}

// Polls until `done` or 10 s have passed; the last answer.
inline bool eventually(const std::function<bool()>& done) {
  const hvd::Deadline deadline = hvd::Deadline::after_ms(10000);
  while (!done()) {
    if (deadline.passed()) return false;
    usleep(1000);
  }
  return true;
}

}  // namespace hvd_test
