// SPDX-License-Identifier: Apache-2.0
//
// See squeue.h. posix_spawn and not fork: no handler of fork runs, and no memory that a network
// card knows is copied.
#include "libhvd/stop/squeue.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "libhvd/base/fd.h"
#include "libhvd/base/parse.h"

extern char** environ;

namespace hvd {
namespace {

constexpr size_t kMostOutput = 64 << 10;
constexpr int kSliceMs = 100;

bool starts_with(const char* text, const char* start) {
  return strncmp(text, start, strlen(start)) == 0;
}

// The environment without what would change squeue's answer. %s is strftime's: seconds since 1970,
// whatever the time zone.
std::vector<char*> environment_of_squeue() {
  static char format[] = "SLURM_TIME_FORMAT=%s";
  std::vector<char*> result;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    if (starts_with(*each, "SQUEUE_") || starts_with(*each, "SLURM_CLUSTERS=") ||
        starts_with(*each, "SLURM_TIME_FORMAT=")) {
      continue;
    }
    result.push_back(*each);
  }
  result.push_back(format);
  result.push_back(nullptr);
  return result;
}

struct FileActions {
  posix_spawn_file_actions_t actions;
  FileActions() { posix_spawn_file_actions_init(&actions); }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
};

struct Attributes {
  posix_spawnattr_t attributes;
  Attributes() {
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  }
  ~Attributes() { posix_spawnattr_destroy(&attributes); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
};

Expected<pid_t> spawn(const std::string& program, const std::string& job, int out) {
  FileActions files;
  posix_spawn_file_actions_addopen(&files.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files.actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files.actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
  posix_spawn_file_actions_addclosefrom_np(&files.actions, STDERR_FILENO + 1);
#endif
#endif
  const Attributes attributes;
  std::vector<std::string> words = {program, "--noheader", "--jobs=" + job, "--format=%e"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::vector<char*> environment = environment_of_squeue();
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, program.c_str(), &files.actions, &attributes.attributes,
                                  arguments.data(), environment.data());
  if (failed != 0) return errno_error(failed, "running \"%s\"", program.c_str());
  return pid;
}

// All that comes, until the other end is closed or the deadline has passed.
Status read_all(int fd, Deadline deadline, std::string* text) {
  char buffer[1024];
  while (text->size() < kMostOutput) {
    pollfd ready = {fd, POLLIN, 0};
    if (poll(&ready, 1, deadline.poll_ms(kSliceMs)) < 0 && errno != EINTR) {
      return errno_error(errno, "waiting for its answer");
    }
    if ((ready.revents & (POLLIN | POLLHUP)) != 0) {
      const ssize_t n = read(fd, buffer, sizeof buffer);
      if (n == 0) return ok_status();
      if (n > 0) text->append(buffer, static_cast<size_t>(n));
      if (n < 0 && errno != EINTR) return errno_error(errno, "reading its answer");
    }
    if (deadline.passed()) return Status(Code::kTimeout, "no answer in time");
  }
  return error(Code::kSystem, "its answer has no end");
}

}  // namespace

std::optional<int64_t> end_time_of(std::string_view text) {
  std::optional<int64_t> earliest;
  for (const std::string_view line : split(text, '\n')) {
    const std::optional<int64_t> time = parse_count(trim(line));
    if (time && *time > 0) earliest = std::min(*time, earliest.value_or(*time));
  }
  return earliest;
}

std::string slurm_job_of(const Getenv& get) {
  const auto number = [&](const char* variable) -> std::string {
    const char* text = get(variable);
    return text != nullptr && parse_count(text) ? text : "";
  };
  // An array's first number is also the job id of one of its members.
  const std::string array = number("SLURM_ARRAY_JOB_ID");
  const std::string member = number("SLURM_ARRAY_TASK_ID");
  return array.empty() || member.empty() ? number("SLURM_JOB_ID") : array + "_" + member;
}

Expected<std::optional<int64_t>> ask_squeue(const std::string& program, const std::string& job,
                                            Deadline deadline) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return errno_error(errno, "making a pipe");
  const Fd in(ends[0]);
  Fd out(ends[1]);
  Expected<pid_t> pid = spawn(program, job, out.get());
  if (!pid.ok()) return pid.status();
  out.reset();
  std::string text;
  const Status answered = read_all(in.get(), deadline, &text);
  // It has said all, or too much, or is late: nothing more of it is waited for.
  kill(*pid, SIGKILL);
  int status = 0;
  while (waitpid(*pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!answered.ok()) return answered.annotate("\"" + program + "\"");
  if (text.empty()) return error(Code::kSystem, "\"%s\" says nothing", program.c_str());
  return end_time_of(text);
}

}  // namespace hvd
