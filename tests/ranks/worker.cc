// SPDX-License-Identifier: Apache-2.0
//
// A program as users write them, for the tests that start ranks with mpirun and srun. It does what
// its arguments say, one after the other, and ends with 0 if all of it went well:
//
//   place         print "rank/size local/size cross/size"
//   sum           allreduces and broadcasts of every type and awkward sizes, checked
//   stream        allreduce 64 MB until an operation fails; print "streaming PID RANK" once the
//                 first is done, and at the end "wait: CODE TEXT"; ends with 3
//   mpi           initialise MPI as the program's own, MPI_Allreduce, checked
//   mpi-end       finalise it
//   cycles        20 times shutdown, init, allreduce
//   first-leaves  rank 1 goes on at once; the others after 3 s, having seen that it has shut down
//   name-taken    submit a name twice; print the error
//   late-rank     rank 1 submits 500 ms after the others; a wait with a timeout says so
//   child         print "child PID" of a fork that lives until this process ends
//   timeline-on=PATH, timeline-off   start and stop a timeline
//   hold          print "holding PID RANK"; rank 0 waits for "held" float32 [3,4], which the others
//                 (and a rank that is alone) submit when there is a file WORKER_GO, in 60 s at most
#define OMPI_SKIP_MPICXX 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "libhvd/hvd.h"
#include "tests/ranks/program.h"
#ifdef HVD_HAVE_MPI
#include <mpi.h>
#endif

#ifdef __SANITIZE_ADDRESS__
// A task without its user's variables (--export=NONE) has not been told which leaks are Open MPI's.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "detect_leaks=0";
}
#endif

namespace {

bool fail(const char* what) {
  printf("rank %d: %s: %s\n", hvd_rank(), what, hvd_last_error());
  return false;
}

void sleep_ms(long ms) {
  timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, nullptr);
}

template <typename T>
bool sum_of(hvd_type type, int64_t n, const std::string& name) {
  std::vector<T> in(static_cast<size_t>(n));
  std::vector<T> out(in.size());
  const int rank = hvd_rank();
  const int size = hvd_size();
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<T>((rank + 1) * (i % 100 + 1));
  const hvd_tensor tensor = {in.data(), &n, 1, type, HVD_HOST};
  if (hvd_allreduce(name.c_str(), &tensor, out.data(), HVD_SUM, 1, 1, HVD_GLOBAL) != HVD_OK) {
    return fail(name.c_str());
  }
  for (size_t i = 0; i < in.size(); ++i) {
    if (out[i] != static_cast<T>(size * (size + 1) / 2 * (i % 100 + 1))) {
      return fail("a wrong sum");
    }
  }
  const int root = size - 1;
  const hvd_tensor weights = {out.data(), &n, 1, type, HVD_HOST};
  for (T& x : out) x = static_cast<T>(rank);
  if (hvd_broadcast((name + ".bcast").c_str(), &weights, weights.data, root, HVD_GLOBAL) != HVD_OK)
    return fail("broadcast");
  for (T x : out) {
    if (x != static_cast<T>(root)) return fail("a wrong broadcast");
  }
  return true;
}

bool sum() {
  for (int64_t n : {1, 3, 1000, 70001, 700003}) {
    const std::string suffix = std::to_string(n);
    if (!sum_of<float>(HVD_FLOAT32, n, "f32." + suffix)) return false;
    if (!sum_of<double>(HVD_FLOAT64, n, "f64." + suffix)) return false;
    if (!sum_of<int32_t>(HVD_INT32, n, "i32." + suffix)) return false;
    if (!sum_of<int64_t>(HVD_INT64, n, "i64." + suffix)) return false;
  }
  if (hvd_barrier(HVD_GLOBAL) != HVD_OK) return fail("barrier");
  printf("rank %d: sums are right\n", hvd_rank());
  return true;
}

bool place() {
  printf("%d/%d %d/%d %d/%d\n", hvd_rank(), hvd_size(), hvd_local_rank(), hvd_local_size(),
         hvd_cross_rank(), hvd_cross_size());
  return true;
}

bool stream() {
  const int64_t n = 16 << 20;
  std::vector<float> data(static_cast<size_t>(n), 1.0f);
  const hvd_tensor tensor = {data.data(), &n, 1, HVD_FLOAT32, HVD_HOST};
  for (bool first = true;; first = false) {
    const int code = hvd_allreduce("stream", &tensor, data.data(), HVD_AVERAGE, 1, 1, HVD_GLOBAL);
    if (code != HVD_OK) {
      printf("wait: %d %s\n", code, hvd_last_error());
      fflush(stdout);
      _exit(3);
    }
    if (first) {
      printf("streaming %d %d\n", static_cast<int>(getpid()), hvd_rank());
      fflush(stdout);
    }
  }
}

bool mpi([[maybe_unused]] bool begin) {
#ifdef HVD_HAVE_MPI
  if (!begin) return MPI_Finalize() == MPI_SUCCESS;
  int up = 0;
  MPI_Initialized(&up);
  if (!up) MPI_Init(nullptr, nullptr);
  int one = 1;
  int sum = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (sum != hvd_size()) return fail("MPI has another size");
  printf("rank %d: MPI works\n", hvd_rank());
  return true;
#else
  printf("built without MPI\n");
  return false;
#endif
}

bool cycles() {
  for (int i = 0; i < 20; ++i) {
    if (hvd_shutdown() != HVD_OK) return fail("shutdown");
    if (hvd_is_initialized() != 0) return fail("still initialised");
    if (hvd_init() != HVD_OK) return fail("init");
    if (!sum_of<float>(HVD_FLOAT32, 1000, "cycle")) return false;
  }
  printf("rank %d: 20 cycles\n", hvd_rank());
  return true;
}

bool first_leaves() {
  if (hvd_rank() == 1) return true;
  sleep_ms(3000);
  float x = 1;
  const hvd_tensor tensor = {&x, nullptr, 0, HVD_FLOAT32, HVD_HOST};
  const int code = hvd_allreduce("late", &tensor, &x, HVD_SUM, 1, 1, HVD_GLOBAL);
  printf("rank %d: wait: %d %s\n", hvd_rank(), code, hvd_last_error());
  return code == HVD_ERR_SHUT_DOWN;
}

bool name_taken() {
  float x = 1;
  float y = 1;
  const hvd_tensor tensor = {&x, nullptr, 0, HVD_FLOAT32, HVD_HOST};
  hvd_handle first = 0;
  if (hvd_rank() == 0) {
    if (hvd_allreduce_async("twice", &tensor, &x, HVD_SUM, 1, 1, HVD_GLOBAL, &first) != HVD_OK) {
      return fail("submit");
    }
    hvd_handle second = 0;
    const int code = hvd_allreduce_async("twice", &tensor, &y, HVD_SUM, 1, 1, HVD_GLOBAL, &second);
    printf("rank 0: %d %s\n", code, hvd_last_error());
    if (hvd_barrier(HVD_GLOBAL) != HVD_OK) return fail("barrier");
  } else {
    if (hvd_barrier(HVD_GLOBAL) != HVD_OK) return fail("barrier");
    if (hvd_allreduce_async("twice", &tensor, &x, HVD_SUM, 1, 1, HVD_GLOBAL, &first) != HVD_OK) {
      return fail("submit");
    }
  }
  return hvd_wait(first, -1) == HVD_OK || fail("wait");
}

bool late_rank() {
  float x = 1;
  const hvd_tensor tensor = {&x, nullptr, 0, HVD_FLOAT32, HVD_HOST};
  if (hvd_rank() == 1) sleep_ms(500);
  hvd_handle handle = 0;
  if (hvd_allreduce_async("late", &tensor, &x, HVD_SUM, 1, 1, HVD_GLOBAL, &handle) != HVD_OK) {
    return fail("submit");
  }
  if (hvd_rank() == 0) {
    if (hvd_poll(handle) != 0) return fail("done before all have come");
    const int code = hvd_wait(handle, 50);
    printf("rank 0: %d %s\n", code, hvd_last_error());
    if (code != HVD_ERR_TIMEOUT) return false;
  }
  return hvd_wait(handle, -1) == HVD_OK || fail("wait");
}

bool child() {
  int ends[2];
  if (pipe(ends) != 0) return fail("pipe");
  fflush(stdout);
  const pid_t pid = fork();
  if (pid < 0) return fail("fork");
  char byte;
  if (pid == 0) {
    close(ends[1]);
    _exit(static_cast<int>(read(ends[0], &byte, 1)));
  }
  printf("child %d\n", static_cast<int>(pid));
  return true;
}

bool hold() {
  const char* go = getenv("WORKER_GO");
  if (go == nullptr) return fail("WORKER_GO is not set");
  float x[12] = {};
  const int64_t shape[] = {3, 4};
  const hvd_tensor tensor = {x, shape, 2, HVD_FLOAT32, HVD_HOST};
  printf("holding %d %d\n", static_cast<int>(getpid()), hvd_rank());
  fflush(stdout);
  for (int i = 0; (hvd_rank() != 0 || hvd_size() == 1) && access(go, F_OK) != 0; ++i) {
    if (i == 3000) return fail("nobody let go");
    sleep_ms(20);
  }
  return hvd_allreduce("held", &tensor, x, HVD_SUM, 1, 1, HVD_GLOBAL) == HVD_OK || fail("held");
}

bool act(const std::string& word) {
  const std::string timeline = "timeline-on=";
  if (word.substr(0, timeline.size()) == timeline) {
    return hvd_start_timeline(word.c_str() + timeline.size(), 0) == HVD_OK || fail("start");
  }
  if (word == "timeline-off") return hvd_stop_timeline() == HVD_OK || fail("stop");
  if (word == "place") return place();
  if (word == "sum") return sum();
  if (word == "stream") return stream();
  if (word == "mpi") return mpi(true);
  if (word == "mpi-end") return mpi(false);
  if (word == "cycles") return cycles();
  if (word == "first-leaves") return first_leaves();
  if (word == "name-taken") return name_taken();
  if (word == "late-rank") return late_rank();
  if (word == "child") return child();
  if (word == "hold") return hold();
  printf("worker: \"%s\" is no action\n", word.c_str());
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  return hvd::test::run_actions("worker", argc, argv,
                                [](char** words, int* at) { return act(words[*at]); });
}
