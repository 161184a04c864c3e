// SPDX-License-Identifier: Apache-2.0
//
// Whoever does not use --horovod must not feel the plugin: without the option no callback, in any
// context, opens a file, forks or does anything else that the kernel sees, and none allocates. A
// program of its own, because it has its own malloc and lives under seccomp: the kernel kills it
// at the first system call but write and exit. Both watchers are seen to bite first. A sanitizer
// brings its own malloc and system calls: then it counts the allocations, and only those are seen.
//
// With the option, whatever the user wrote into it and into the environment, the callbacks that
// slurmstepd calls as root make no system call either, so that no file that a user names is opened
// as root. What opens files is task_init, in the child that is the user's already.
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "libhvd/base/settings.h"
#include "tests/fakes/spank/slurm.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HVD_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HVD_SANITIZED 1
#endif

namespace {

volatile int allocations = 0;

}  // namespace

#ifdef HVD_SANITIZED

extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*, size_t),
                                                         void (*)(const volatile void*));

namespace {

constexpr bool kUnderSeccomp = false;

void watch_malloc() {
  __sanitizer_install_malloc_and_free_hooks(
      [](const volatile void*, size_t) { allocations = allocations + 1; },
      [](const volatile void*) {});
}

}  // namespace

#else

namespace {

constexpr bool kUnderSeccomp = true;

void watch_malloc() {}  // it is ours

// Memory is handed out from one piece and never taken back.
alignas(64) char heap[8 << 20];
size_t heap_used = 0;

void* hand_out(size_t size, size_t alignment) {
  allocations = allocations + 1;
  heap_used = (heap_used + alignment - 1) / alignment * alignment + sizeof(size_t);
  heap_used = (heap_used + alignment - 1) / alignment * alignment;
  if (size > sizeof heap - heap_used) abort();
  char* const memory = heap + heap_used;
  memcpy(memory - sizeof(size_t), &size, sizeof size);
  heap_used += size;
  return memory;
}

}  // namespace

// The C library's and, through it, operator new's.
extern "C" {
void* malloc(size_t size) { return hand_out(size, 16); }
void free(void*) {}
void* calloc(size_t n, size_t size) {
  void* const memory = hand_out(n * size, 16);
  memset(memory, 0, n * size);
  return memory;
}
void* realloc(void* old, size_t size) {
  void* const memory = hand_out(size, 16);
  if (old != nullptr) {
    size_t old_size;
    memcpy(&old_size, static_cast<char*>(old) - sizeof old_size, sizeof old_size);
    memcpy(memory, old, old_size < size ? old_size : size);
  }
  return memory;
}
void* aligned_alloc(size_t alignment, size_t size) { return hand_out(size, alignment); }
void* memalign(size_t alignment, size_t size) { return hand_out(size, alignment); }
int posix_memalign(void** memory, size_t alignment, size_t size) {
  *memory = hand_out(size, alignment);
  return 0;
}
}

#endif

namespace {

void nothing() {}

void every_callback() {
  // A line with an error in it: not even that is of interest without the option.
  fake::call_every_callback();
  fake::call_as_root();
}

void as_root() {
  fake::call_as_root();
  for (const char* value : {fake::slurm().option_value, "", "(null)"}) fake::call_option(value);
}

void as_the_user() {
  fake::call_init();
  fake::call_task_init();
}

void open_a_file() { (void)open("/dev/null", O_RDONLY); }

void allocate() {
  // Through libstdc++, as the plugin would.
  std::string text(100, 'x');
  asm volatile("" : : "g"(text.data()) : "memory");
}

// Exit status: the allocations of `body`, or -SIGKILL if it made a system call.
int watch(void (*body)()) {
  const pid_t child = fork();
  if (child == 0) {
    if (kUnderSeccomp && prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) _exit(100);
    const int before = allocations;
    body();
    syscall(SYS_exit, allocations - before);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// -SIGKILL if `body` made a system call, else 0.
int watch_calls(void (*body)()) {
  const int result = watch(body);
  return result < 0 ? result : 0;
}

// What a user could have a file opened by: paths wherever a setting or the environment has one.
void be_hostile() {
  fake::Slurm& slurm = fake::slurm();
  slurm.context = S_CTX_REMOTE;
  slurm.option_given = true;
  slurm.option_value = "timeline=/etc/shadow,report=json";
  for (const hvd::SettingRow& row : hvd::setting_rows()) slurm.task[row.variable] = "/etc/shadow";
  for (const char* name : {"SLURM_CPU_BIND_TYPE", "SLURM_CPU_BIND_LIST", "SLURM_STEP_GPUS",
                           "CUDA_VISIBLE_DEVICES", "PYTHONPATH", "HWLOC_XMLFILE"}) {
    slurm.task[name] = "/etc/shadow";
  }
  // What a task needs to come as far as its files.
  for (const auto& [name, value] :
       {std::pair("PMIX_NAMESPACE", "slurm.pmix.12.0"), std::pair("PMIX_RANK", "0"),
        std::pair("SLURM_PROCID", "0"), std::pair("SLURM_LOCALID", "0"),
        std::pair("SLURM_NTASKS", "1"), std::pair("SLURM_PMIX_MAPPING_SERV", "(vector,(0,1,1))")}) {
    slurm.task[name] = value;
  }
}

int failures = 0;

void expect(const char* what, int got, int wanted) {
  if (got == wanted) return;
  printf("%s: %d, not %d\n", what, got, wanted);
  ++failures;
}

}  // namespace

int main() {
  watch_malloc();
  expect("nothing", watch(nothing), 0);
  if (kUnderSeccomp) expect("opening a file", watch(open_a_file), -9);
  expect("allocating", watch(allocate), 1);

  const struct {
    spank_context_t context;
    const char* name;
  } contexts[] = {
      {S_CTX_LOCAL, "srun"},
      {S_CTX_ALLOCATOR, "sbatch and salloc"},
      {S_CTX_REMOTE, "slurmstepd"},
      {S_CTX_SLURMD, "slurmd"},
      {S_CTX_JOB_SCRIPT, "prolog and epilog"},
  };
  fake::slurm().plugstack = {"slots=99"};
  for (const auto& c : contexts) {
    fake::slurm().context = c.context;
    expect(c.name, watch(every_callback), 0);
  }

  be_hostile();
  expect("as root", watch_calls(as_root), 0);
  if (kUnderSeccomp) expect("as the user", watch_calls(as_the_user), -9);
  expect("callbacks of the node", fake::has_callbacks_of_the_node() ? 1 : 0, 0);
  if (failures == 0) puts("the plugin does nothing without the option, and nothing as root");
  return failures == 0 ? 0 : 1;
}
