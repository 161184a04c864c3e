// SPDX-License-Identifier: Apache-2.0
//
// A program whose processes begin, live and end in every way there is, for the tests that start
// ranks with mpirun and srun. It does what its arguments say, one after the other. "The one" is the
// rank LIFE_RANK (1), the others are the rest. See also hooks.cc.
//
//   mpi=LEVEL        MPI_Init_thread as the program's own: single, funneled, serialized, multiple
//   mpi-sum          MPI_Allreduce, checked
//   mpi-end          MPI_Finalize
//   mpi-end-late     it, and the one is 300 ms late to part from PMIx
//   late             the one never comes; the others go on
//   init             hvd_init; prints "rank R: init: CODE TEXT" and ends with 2 if it fails (after
//                    LIFE_LINGER_MS, so that everybody can say so before the launcher ends the job)
//   sum              an allreduce, checked
//   shutdown         hvd_shutdown
//   end=HOW          the one ends by return, exit0, exit3, _exit0, abort or kill; the others wait
//                    for an operation that it does not submit, and say what comes of it
//   outstanding      shutdown with operations that nobody else, or everybody, has submitted
//   threads          8 threads submit and wait at once, names of their own, every result checked
//   child            fork; the child calls everything and ends by exit(0)
//   child-of-init    the others fork while a thread of theirs is in hvd_init, waiting for the one;
//                    the child initialises
//   outlived         the one forks a worker that lives on and dies; prints when, and the others
//                    when they heard
//   spawn, spawn-clean   a child executes this program, with all of the environment or with what
//                    was there before hvd_init; it initialises
//   wait=HOW         the one waits for what nobody else submits; signals have default disposition,
//                    or a handler that sets a flag (waits are slices), or ends by exit0 or exit3;
//                    the others wait for the one
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "libhvd/hvd.h"
#ifdef HVD_HAVE_MPI
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#endif

extern char** environ;

namespace {

// A forked child has the memory of threads that it does not have: it cannot be searched for leaks.
bool forked_child = false;

bool parts_late = false;

std::vector<std::string> first_environment;

int number(const char* variable, int otherwise) {
  const char* text = getenv(variable);
  return text == nullptr ? otherwise : atoi(text);
}

int own_rank() { return number("PMIX_RANK", 0); }
bool is_the_one() { return own_rank() == number("LIFE_RANK", 1); }

void say(const char* what, int code) {
  printf("rank %d: %s: %d %s\n", own_rank(), what, code, code == 0 ? "" : hvd_last_error());
  fflush(stdout);
}

bool fail(const char* what) {
  printf("rank %d: %s: %s\n", own_rank(), what, hvd_last_error());
  return false;
}

double now_ms() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

void sleep_ms(long ms) {
  timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, nullptr);
}

bool init() {
  const int code = hvd_init();
  if (code == HVD_OK) return true;
  say("init", code);
  sleep_ms(number("LIFE_LINGER_MS", 0));
  _exit(2);
}

bool sum_of(const std::string& name, int64_t n) {
  std::vector<float> data(static_cast<size_t>(n), static_cast<float>(hvd_rank() + 1));
  const hvd_tensor tensor = {data.data(), &n, 1, HVD_FLOAT32, HVD_HOST};
  if (hvd_allreduce(name.c_str(), &tensor, data.data(), HVD_SUM, 1, 1, HVD_GLOBAL) != HVD_OK)
    return false;
  for (float x : data) {
    if (x != static_cast<float>(hvd_size() * (hvd_size() + 1) / 2)) return false;
  }
  return true;
}

bool sum() {
  if (!sum_of("sum", 1000)) return fail("sum");
  printf("rank %d: the sum is right\n", own_rank());
  return true;
}

// An operation that the one does not take part in; what its end says.
int wait_for_the_one() {
  signal(SIGTERM, SIG_IGN);  // mpirun's, at once when a rank dies
  float x = 1;
  const hvd_tensor tensor = {&x, nullptr, 0, HVD_FLOAT32, HVD_HOST};
  const int code = hvd_allreduce("never", &tensor, &x, HVD_SUM, 1, 1, HVD_GLOBAL);
  say("wait", code);
  return code;
}

bool end(const std::string& how) {
  if (!is_the_one()) {
    const int code = wait_for_the_one();
    if (code != HVD_ERR_SHUT_DOWN) _exit(3);
    return true;
  }
  if (how == "exit0") exit(0);
  if (how == "exit3") exit(3);
  if (how == "_exit0") _exit(0);
  if (how == "abort") abort();
  if (how == "kill") raise(SIGKILL);
  return true;
}

// Memory that is no longer there once the library has let go of it.
struct Pages {
  explicit Pages(size_t size) : bytes(size) {
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  ~Pages() { munmap(data, bytes); }
  size_t bytes;
  void* data;
};

bool outstanding() {
  const int64_t n = 8 << 20;
  hvd_handle own = 0;
  hvd_handle all = 0;
  {
    Pages mine(static_cast<size_t>(n) * 4);
    Pages ours(static_cast<size_t>(n) * 4);
    const hvd_tensor a = {mine.data, &n, 1, HVD_FLOAT32, HVD_HOST};
    const hvd_tensor b = {ours.data, &n, 1, HVD_FLOAT32, HVD_HOST};
    const std::string name = "of " + std::to_string(own_rank());
    if (hvd_allreduce_async(name.c_str(), &a, mine.data, HVD_SUM, 1, 1, HVD_GLOBAL, &own) !=
            HVD_OK ||
        hvd_allreduce_async("of all", &b, ours.data, HVD_SUM, 1, 1, HVD_GLOBAL, &all) != HVD_OK) {
      return fail("submit");
    }
    if (hvd_shutdown() != HVD_OK) return fail("shutdown");
  }
  const int code = hvd_wait(all, -1);
  if (code != HVD_OK && code != HVD_ERR_SHUT_DOWN) return fail("of all");
  say("outstanding", hvd_wait(own, -1));
  sleep_ms(100);  // whoever still wrote to that memory would do so now
  return true;
}

bool threads() {
  constexpr int kThreads = 8;
  std::vector<std::string> wrong(kThreads);
  std::vector<std::thread> workers;
  for (int t = 0; t < kThreads; ++t) {
    workers.emplace_back([&wrong, t] {
      for (int i = 0; i < 100 && wrong[static_cast<size_t>(t)].empty(); ++i) {
        const std::string name = std::to_string(t) + "." + std::to_string(i % 10);
        if (!sum_of(name, 1 + (t * 37 + i * 101) % 3000)) {
          wrong[static_cast<size_t>(t)] = name + ": " + hvd_last_error();
        }
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const std::string& text : wrong) {
    if (!text.empty()) return fail(text.c_str());
  }
  printf("rank %d: 8 threads of 100 sums\n", own_rank());
  return true;
}

// What the child of a rank is told, and that its end is no rank's.
bool child() {
  hvd_handle before = 0;
  if (hvd_barrier_async(HVD_GLOBAL, &before) != HVD_OK) return fail("submit");
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    forked_child = true;
    float x = 1;
    const hvd_tensor tensor = {&x, nullptr, 0, HVD_FLOAT32, HVD_HOST};
    say("child's sum", hvd_allreduce("child", &tensor, &x, HVD_SUM, 1, 1, HVD_GLOBAL));
    say("child's init", hvd_init());
    say("child's wait", hvd_wait(before, -1));
    if (hvd_poll(before) != -1 || hvd_rank() != -1 || hvd_is_initialized() != 0) exit(1);
    if (hvd_error(before) != nullptr || hvd_shutdown() != HVD_OK) exit(1);
    exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  printf("rank %d: child ended with %d\n", own_rank(), status);
  return hvd_wait(before, -1) == HVD_OK || fail("barrier");
}

bool child_of_init() {
  if (is_the_one()) {
    sleep_ms(1000);
    return init();
  }
  int code = -1;
  std::thread initialises([&] { code = hvd_init(); });
  sleep_ms(300);
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    forked_child = true;
    alarm(10);
    say("child's init", hvd_init());
    exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  initialises.join();
  printf("rank %d: child ended with %d, init with %d\n", own_rank(), status, code);
  return code == HVD_OK;
}

// Descriptors and mappings of libhvd in this process: its node memory and doorbells; on several
// nodes MPI has doorbells, too.
int held(bool doorbells) {
  int count = 0;
  DIR* dir = opendir("/proc/self/fd");
  for (dirent* entry; (entry = readdir(dir)) != nullptr;) {
    char target[256] = "";
    if (readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1) < 0) continue;
    if (strstr(target, "horovod") != nullptr) ++count;
    if (doorbells && strstr(target, "eventfd") != nullptr) ++count;
  }
  closedir(dir);
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512];
  while (fgets(line, sizeof line, maps) != nullptr) {
    if (strstr(line, "memfd:horovod") != nullptr) ++count;
  }
  fclose(maps);
  return count;
}

bool outlived() {
  if (is_the_one()) {
    const bool alone = hvd_cross_size() == 1;
    const bool had = held(alone) > 0;
    fflush(stdout);
    int ready[2];
    if (pipe(ready) != 0) return fail("pipe");
    if (fork() == 0) {
      // The launcher waits for whoever holds its pipes.
      for (int fd : {0, 1, 2}) close(fd);
      const char answer = held(alone) == 0 ? 'y' : 'n';
      if (write(ready[1], &answer, 1) == 1) sleep_ms(number("LIFE_WORKER_MS", 4000));
      _exit(0);
    }
    char answer = '?';
    if (read(ready[0], &answer, 1) != 1) return fail("read");
    printf("worker holds nothing: %s\n", had && answer == 'y' ? "yes" : "no");
    printf("died at %.0f\n", now_ms());
    fflush(stdout);
    raise(SIGKILL);
  }
  wait_for_the_one();
  printf("rank %d: heard at %.0f\n", own_rank(), now_ms());
  fflush(stdout);
  _exit(3);
}

bool spawn(bool clean) {
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    std::vector<char*> environment;
    for (std::string& variable : first_environment) environment.push_back(variable.data());
    environment.push_back(nullptr);
    char program[] = "lifecycle";
    char action[] = "init";
    char* const argv[] = {program, action, nullptr};
    execve("/proc/self/exe", argv, clean ? environment.data() : environ);
    _exit(127);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  printf("rank %d: spawned child ended with %d\n", own_rank(), WEXITSTATUS(status));
  return true;
}

volatile sig_atomic_t signalled = 0;

bool wait(const std::string& how) {
  const auto on = [](void (*handler)(int)) {
    for (int signal : {SIGINT, SIGTERM}) ::signal(signal, handler);
  };
  if (!is_the_one()) {
    const int code = wait_for_the_one();
    if (code != HVD_ERR_SHUT_DOWN) _exit(3);
    return true;
  }
  if (how == "flag") on([](int) { signalled = 1; });
  if (how == "exit0") on([](int) { exit(0); });
  if (how == "exit3") on([](int) { exit(3); });
  float x = 1;
  const hvd_tensor tensor = {&x, nullptr, 0, HVD_FLOAT32, HVD_HOST};
  hvd_handle handle = 0;
  const std::string name = "of " + std::to_string(own_rank());
  if (hvd_allreduce_async(name.c_str(), &tensor, &x, HVD_SUM, 1, 1, HVD_GLOBAL, &handle) !=
      HVD_OK) {
    return fail("submit");
  }
  printf("waiting %d %d\n", own_rank(), static_cast<int>(getpid()));
  fflush(stdout);
  int code = HVD_ERR_TIMEOUT;
  while (code == HVD_ERR_TIMEOUT && signalled == 0)
    code = hvd_wait(handle, how == "flag" ? 100 : -1);
  if (signalled != 0) {
    printf("rank %d: leaves after a signal\n", own_rank());
    return hvd_shutdown() == HVD_OK || fail("shutdown");
  }
  say("wait", code);
  if (code != HVD_ERR_SHUT_DOWN) _exit(3);
  return true;
}

#ifdef HVD_HAVE_MPI
bool mpi_begin(const std::string& level) {
  const int wanted = level == "single"       ? MPI_THREAD_SINGLE
                     : level == "funneled"   ? MPI_THREAD_FUNNELED
                     : level == "serialized" ? MPI_THREAD_SERIALIZED
                                             : MPI_THREAD_MULTIPLE;
  int provided = -1;
  MPI_Init_thread(nullptr, nullptr, wanted, &provided);
  return provided == wanted || fail("MPI gives another level");
}

bool mpi_sum() {
  int one = 1;
  int sum = 0;
  int size = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  printf("rank %d: MPI's sum is %s\n", own_rank(), sum == size ? "right" : "wrong");
  return sum == size;
}

bool mpi_end() { return MPI_Finalize() == MPI_SUCCESS; }
#else
bool mpi_begin(const std::string&) { return fail("built without MPI"); }
bool mpi_sum() { return fail("built without MPI"); }
bool mpi_end() { return fail("built without MPI"); }
#endif

bool act(const std::string& word) {
  const size_t equals = word.find('=');
  const std::string what = word.substr(0, equals);
  const std::string how = equals == std::string::npos ? "" : word.substr(equals + 1);
  if (what == "mpi") return mpi_begin(how);
  if (what == "mpi-sum") return mpi_sum();
  if (what == "mpi-end") return mpi_end();
  if (what == "mpi-end-late") {
    parts_late = is_the_one();
    return mpi_end();
  }
  if (what == "late") {
    while (is_the_one()) pause();
    return true;
  }
  if (what == "init") return init();
  if (what == "sum") return sum();
  if (what == "shutdown") return hvd_shutdown() == HVD_OK || fail("shutdown");
  if (what == "end") return end(how);
  if (what == "outstanding") return outstanding();
  if (what == "threads") return threads();
  if (what == "child") return child();
  if (what == "child-of-init") return child_of_init();
  if (what == "outlived") return outlived();
  if (what == "spawn") return spawn(false);
  if (what == "spawn-clean") return spawn(true);
  if (what == "wait") return wait(how);
  printf("lifecycle: \"%s\" is no action\n", word.c_str());
  return false;
}

}  // namespace

// Before PMIx's own, for MPI, too.
extern "C" __attribute__((visibility("default"))) int PMIx_Finalize(const void* infos, size_t n) {
  if (std::exchange(parts_late, false)) usleep(300000);
  using Finalize = int (*)(const void*, size_t);
  const auto finalize = reinterpret_cast<Finalize>(dlsym(RTLD_NEXT, "PMIx_Finalize"));
  return finalize(infos, n);
}

// LeakSanitizer asks.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() {
  return forked_child ? 1 : 0;
}

int main(int argc, char** argv) {
  for (char** variable = environ; *variable != nullptr; ++variable) {
    first_environment.emplace_back(*variable);
  }
  if (!is_the_one()) unsetenv("LIFE_STOP");
  for (int i = 1; i < argc; ++i) {
    const bool good = act(argv[i]);
    fflush(stdout);
    if (!good) return 1;
  }
  return 0;
}
