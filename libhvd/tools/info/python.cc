// SPDX-License-Identifier: Apache-2.0
#include "libhvd/tools/info/python.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "libhvd/base/fd.h"
#include "libhvd/base/parse.h"

extern char** environ;

namespace hvd::info {
namespace {

// Looks for the package as `import` does, and imports nothing. A script has its own folder first on
// the path; -c has the current one, which says nothing about a script.
constexpr const char* kQuestion =
    "import sys; del sys.path[0]\n"
    "import importlib.util\n"
    "found = importlib.util.find_spec('horovod')\n"
    "print(sys.executable)\n"
    "print(found.origin or list(found.submodule_search_locations)[0] if found else '')\n";

constexpr size_t kLongestAnswer = 16384;

// What a program says on stdout, whatever its end; empty if it cannot be started or is too late.
std::string answer_of(std::vector<const char*> command, Deadline deadline) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  const Fd from(ends[0]);
  Fd to(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, to.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  command.push_back(nullptr);
  pid_t child = 0;
  const int rc = posix_spawnp(&child, command[0], &actions, nullptr,
                              const_cast<char* const*>(command.data()), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (rc != 0) return {};
  to.reset();

  std::string answer;
  pollfd readable = {from.get(), POLLIN, 0};
  bool ended = false;
  while (!ended && answer.size() < kLongestAnswer &&
         poll(&readable, 1, deadline.poll_ms(1000)) >= 0 && !deadline.passed()) {
    if (readable.revents == 0) continue;
    char some[1024];
    const ssize_t n = read(from.get(), some, sizeof some);
    ended = n <= 0;
    if (n > 0) answer.append(some, static_cast<size_t>(n));
  }
  if (!ended) kill(child, SIGKILL);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return ended ? answer : std::string();
}

std::string installed_beside(const Json& libraries) {
  for (const Json& library : libraries.items()) {
    const std::string& path = library["path"].text();
    if (library["name"].text() == "libhvd" && !path.empty()) {
      return path.substr(0, path.rfind('/')) + "/horovod/python";
    }
  }
  return {};
}

Json text_or_null(std::string_view text) { return text.empty() ? Json() : Json(std::string(text)); }

}  // namespace

Json python_here(const Json& libraries, Deadline deadline) {
  const std::string answer = answer_of({"python3", "-c", kQuestion}, deadline);
  const std::vector<std::string_view> lines = split(answer, '\n');
  return Json::object()
      .set("interpreter", text_or_null(lines.empty() ? "" : lines[0]))
      .set("package", text_or_null(lines.size() < 2 ? "" : lines[1]))
      .set("installed", text_or_null(installed_beside(libraries)));
}

}  // namespace hvd::info
