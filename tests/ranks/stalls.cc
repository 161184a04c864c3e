// SPDX-License-Identifier: Apache-2.0
//
// A job in which the last rank does not submit what the others wait for, for the tests of the stall
// watch. MODE, the only argument, is what that rank does instead:
//
//   waits     waits for another operation, 3 s long, and then submits it: all ends well
//   computes  the same without waiting in anything
//   never     waits for the other operation until it fails
//   stopped   stops itself; print "stopped PID" first. Woken up it submits it: all ends well
//   set       the same as waits, in a process set of all ranks but rank 0
//
// Every rank prints "rank R: CODE TEXT" with what came of it.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <string>

#include "libhvd/hvd.h"

namespace {

constexpr int kWaitMs = 3000;

struct Number {
  float x = 1;
  hvd_tensor tensor{&x, nullptr, 0, HVD_FLOAT32, HVD_HOST};
};

int submit(const char* name, Number* number, int32_t set, hvd_handle* handle) {
  return hvd_allreduce_async(name, &number->tensor, &number->x, HVD_SUM, 1, 1, set, handle);
}

int end(int code) {
  const std::string line = "rank " + std::to_string(hvd_rank()) + ": " + std::to_string(code) +
                           " " + (code == HVD_OK ? "" : hvd_last_error()) + "\n";
  static_cast<void>(!write(STDOUT_FILENO, line.data(), line.size()));
  return code == HVD_OK ? 0 : 1;
}

// What the last rank does before it submits "grad"; false: nothing more.
bool dawdle(const std::string& mode, hvd_handle other) {
  if (mode == "never") return hvd_wait(other, -1) == HVD_OK;
  if (mode == "stopped") {
    printf("stopped %d\n", static_cast<int>(getpid()));
    fflush(stdout);
    return raise(SIGSTOP) == 0;
  }
  if (mode == "computes") {
    usleep(kWaitMs * 1000);
  } else if (hvd_wait(other, kWaitMs) != HVD_ERR_TIMEOUT) {
    return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (hvd_init() != HVD_OK) {
    fprintf(stderr, "%s\n", hvd_last_error());
    return 1;
  }
  const int rank = hvd_rank();
  const int last = hvd_size() - 1;
  int32_t set = HVD_GLOBAL;
  if (mode == "set") {
    int32_t members[64];
    for (int i = 0; i < last; ++i) members[i] = i + 1;
    if (hvd_add_process_set(members, last, &set) != HVD_OK) return end(HVD_ERR_INTERNAL);
    if (rank == 0) return end(hvd_barrier(HVD_GLOBAL));
  }
  Number grad;
  Number other;
  hvd_handle grad_handle = 0;
  hvd_handle other_handle = 0;
  if (rank == last) {
    if (submit("other", &other, set, &other_handle) != HVD_OK) return end(HVD_ERR_INTERNAL);
    if (!dawdle(mode, other_handle)) return end(HVD_ERR_STALLED);
  }
  if (submit("grad", &grad, set, &grad_handle) != HVD_OK) return end(HVD_ERR_INTERNAL);
  int code = hvd_wait(grad_handle, -1);
  if (code == HVD_OK && rank != last) {
    if (submit("other", &other, set, &other_handle) != HVD_OK) return end(HVD_ERR_INTERNAL);
  }
  if (code == HVD_OK) code = hvd_wait(other_handle, -1);
  if (code == HVD_OK && mode == "set") code = hvd_barrier(HVD_GLOBAL);
  return end(code);
}
