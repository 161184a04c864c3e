// SPDX-License-Identifier: Apache-2.0
//
// A job that asks hvd_should_stop in every step, for the tests that start ranks with mpirun and
// srun. MODE is what happens to the last rank:
//
//   raise     it gets SIGUSR1 in step 7
//   later     it gets SIGTERM after about 30 ms, wherever it is then
//   wait      nothing: prints "pid R PID" and steps until it is told to stop
//   joins     it joins before the first step; rank 0 gets SIGUSR1 in step 7. Then all ask again
//   STEPS     nothing; a number: as many steps, unless it is told to stop
//
// Every rank prints "rank R: stops at step S", or "rank R: S steps" if it never is told.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include <string>

#include "libhvd/hvd.h"

namespace {

constexpr int kSignalStep = 7;

void terminate(int) { raise(SIGTERM); }

int complain() {
  printf("rank %d: %s\n", hvd_rank(), hvd_last_error());
  return 1;
}

// After the handlers of the library are in place: a step has been done.
void prepare_signal(const std::string& mode, int step, bool last) {
  if (mode == "raise" && last && step == kSignalStep) raise(SIGUSR1);
  if (mode == "joins" && hvd_rank() == 0 && step == kSignalStep) raise(SIGUSR1);
  if (mode == "later" && last && step == 1) {
    signal(SIGALRM, terminate);
    const itimerval in_30_ms = {{0, 0}, {0, 30000}};
    setitimer(ITIMER_REAL, &in_30_ms, nullptr);
  }
}

// Steps until told to stop; the last rank of "joins" does none, and the others join after theirs.
int run(const std::string& mode) {
  const bool last = hvd_rank() == hvd_size() - 1;
  const int steps = atoi(mode.c_str());
  if (mode == "wait") printf("pid %d %d\n", hvd_rank(), static_cast<int>(getpid()));
  fflush(stdout);
  int32_t stop = 0;
  int step = 0;
  if (mode != "joins" || !last) {
    while (stop == 0 && (steps == 0 || step < steps)) {
      prepare_signal(mode, step, last);
      if (hvd_should_stop(&stop) != HVD_OK) return complain();
      if (stop == 0) ++step;
      if (mode == "wait") usleep(10000);
    }
  }
  if (mode == "joins") {
    if (hvd_join(0, nullptr) != HVD_OK || hvd_should_stop(&stop) != HVD_OK) return complain();
  }
  printf(stop != 0 ? "rank %d: stops at step %d\n" : "rank %d: %d steps\n", hvd_rank(), step);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (hvd_init() != HVD_OK) {
    fprintf(stderr, "%s\n", hvd_last_error());
    return 1;
  }
  return run(argc > 1 ? argv[1] : "0");
}
