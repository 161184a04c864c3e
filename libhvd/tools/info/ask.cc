// SPDX-License-Identifier: Apache-2.0
//
// hvd-info may be root's and the process anybody's: what comes from it is bounded before it is
// read.
#include "libhvd/tools/info/ask.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>

#include "config.h"
#include "libhvd/base/parse.h"
#include "libhvd/base/unix_socket.h"
#include "libhvd/tools/info/procfs.h"

namespace hvd::info {
namespace {

constexpr size_t kMostProcBytes = 64 << 20;
constexpr off_t kMostAnswerBytes = 64 << 20;

struct CloseDir {
  void operator()(DIR* dir) const { closedir(dir); }
};

std::string in_proc(int pid, const char* name) { return format("/proc/%d/%s", pid, name); }

// As much of a file of /proc as there is; empty if it cannot be read.
std::string read_proc(int pid, const char* name) {
  std::string text;
  const Fd fd(open(in_proc(pid, name).c_str(), O_RDONLY | O_CLOEXEC));
  char buffer[1 << 16];
  while (fd.valid() && text.size() < kMostProcBytes) {
    const ssize_t n = read(fd.get(), buffer, sizeof buffer);
    if (n <= 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  return text;
}

std::string link_target(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t n = readlink(path.c_str(), target, sizeof target);
  return n < 0 ? "" : std::string(target, static_cast<size_t>(n));
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

std::string user_name(uid_t uid) {
  const passwd* entry = getpwuid(uid);
  return entry == nullptr ? "user " + std::to_string(uid) : entry->pw_name;
}

// The inodes of the sockets that a process holds; the errno of why they cannot be seen.
int sockets_of(int pid, std::set<uint64_t>* inodes) {
  const std::string folder = in_proc(pid, "fd");
  const std::unique_ptr<DIR, CloseDir> dir(opendir(folder.c_str()));
  if (dir == nullptr) return errno;
  while (const dirent* entry = readdir(dir.get())) {
    const auto inode = socket_inode(link_target(folder + "/" + entry->d_name));
    if (inode) inodes->insert(*inode);
  }
  return 0;
}

// Name of the socket on which the process answers; empty if it has none.
std::string name_of_socket(int pid, const std::set<uint64_t>& inodes) {
  const std::string table = read_proc(pid, "net/unix");
  for (const std::string_view line : split(table, '\n')) {
    const auto found = parse_unix_socket(line);
    if (found && found->listens && inodes.count(found->inode) > 0 &&
        found->name.rfind(kInfoSocketPrefix, 0) == 0) {
      return found->name;
    }
  }
  return "";
}

Status no_such_process(int pid) {
  return error(Code::kInvalid,
               "there is no process %d on %s. A rank is asked on its own node: \"srun --overlap "
               "--jobid JOB -w NODE hvd-info --pid %d\"",
               pid, host_name().c_str(), pid);
}

Status not_ours(int pid, uid_t owner) {
  if (owner == geteuid()) {
    return error(Code::kSystem, "process %d does not let its own user see into it; ask as root",
                 pid);
  }
  return error(Code::kSystem, "process %d belongs to %s; ask as that user or as root", pid,
               user_name(owner).c_str());
}

Status no_rank(int pid) {
  const ProcessStat stat = parse_stat(read_proc(pid, "stat"));
  if (stat.state == 'Z' || stat.state == 'X') {
    return error(Code::kState, "process %d has ended, and its parent has not noticed yet", pid);
  }
  if (mapped_file(read_proc(pid, "maps"), "libhvd.so").empty()) {
    const std::string program = std::string(trim(read_proc(pid, "comm")));
    return error(Code::kInvalid,
                 "process %d (%s) has not loaded libhvd; give the process of the rank itself, not "
                 "of its shell or launcher",
                 pid, program.c_str());
  }
  std::set<uint64_t> inodes;
  if (stat.parent > 1 && sockets_of(stat.parent, &inodes) == 0 &&
      !name_of_socket(stat.parent, inodes).empty()) {
    return error(Code::kState,
                 "process %d is no rank, but was started by one: \"hvd-info --pid %d\" asks it",
                 pid, stat.parent);
  }
  return error(Code::kState,
               "process %d is no rank: it has not called hvd_init, waits in it for other ranks, or "
               "was forked from a rank",
               pid);
}

// Abstract names are those of a network namespace.
Status check_namespace(int pid) {
  const std::string theirs = link_target(in_proc(pid, "ns/net"));
  if (theirs.empty() || theirs == link_target("/proc/self/ns/net")) return ok_status();
  const std::string environment = read_proc(pid, "environ");
  const auto or_else = [](std::string text, const char* fallback) {
    return text.empty() ? fallback : text;
  };
  return error(Code::kSystem,
               "process %d is in another network namespace (a container). Ask from inside: \"srun "
               "--overlap --jobid %s -w %s hvd-info --pid %d\", or as root \"nsenter --net "
               "--target %d hvd-info --pid %d\"",
               pid, or_else(variable_in(environment, "SLURM_JOB_ID"), "JOB").c_str(),
               or_else(variable_in(environment, "SLURMD_NODENAME"), "NODE").c_str(), pid, pid, pid);
}

Status no_answer(int pid) {
  const char state = parse_stat(read_proc(pid, "stat")).state;
  const std::string resume =
      "it is stopped, and \"kill -CONT " + std::to_string(pid) + "\" lets it go on";
  return error(Code::kTimeout, "process %d does not answer; %s", pid,
               state == 'T'   ? resume.c_str()
               : state == 't' ? "a debugger holds it"
                              : "it may hang in the kernel, in MPI, or before its end");
}

Expected<Fd> connect_to(int pid, const std::string& name, Deadline deadline) {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return errno_error(errno, "opening a socket");
  sockaddr_un address;
  const socklen_t length = abstract_address(name, &address);
  while (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    if (errno == ECONNREFUSED) return error(Code::kState, "process %d is just ending", pid);
    // EAGAIN: many ask; poll(2) has no event for room in the queue.
    if (errno != EAGAIN && errno != EINTR) return errno_error(errno, "asking process %d", pid);
    if (deadline.passed()) return no_answer(pid);
    ::poll(nullptr, 0, 10);
  }
  ucred maker;
  // 0: in a PID namespace that we cannot see.
  if (peer_credentials(fd.get(), &maker) && maker.pid != 0 && maker.pid != pid) {
    return error(Code::kState,
                 "process %d is no rank, but was started by one: \"hvd-info --pid %d\" asks it",
                 pid, static_cast<int>(maker.pid));
  }
  return fd;
}

// Only what cannot change any more, and is memory: a pipe or a device would hold us.
Expected<std::string> read_sealed(const Fd& memory) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  struct stat st;
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(memory.get(), &st) != 0 ||
      st.st_size > kMostAnswerBytes) {
    return error(Code::kInternal, "it is no sealed memory");
  }
  std::string text(static_cast<size_t>(st.st_size), '\0');
  for (size_t at = 0; at < text.size();) {
    const ssize_t n =
        pread(memory.get(), text.data() + at, text.size() - at, static_cast<off_t>(at));
    if (n <= 0) return errno_error(errno, "reading it");
    at += static_cast<size_t>(n);
  }
  return text;
}

Status unreadable(int pid) {
  return error(Code::kInternal,
               "the answer of process %d cannot be read; has it loaded another libhvd than that of "
               "this hvd-info, " PACKAGE_VERSION "?",
               pid);
}

Expected<Json> receive(int pid, const Fd& socket, Deadline deadline) {
  std::vector<Fd> received;
  const Status status = receive_fds(socket.get(), 1, &received, deadline);
  if (status.code() == Code::kTimeout) return no_answer(pid);
  if (status.code() == Code::kPeerLost) {
    return error(Code::kState,
                 "process %d has closed the connection without an answer; it is ending, or has no "
                 "memory left",
                 pid);
  }
  if (!status.ok()) return unreadable(pid);
  const auto text = read_sealed(received[0]);
  if (!text.ok()) return unreadable(pid);
  auto json = Json::parse(*text);
  if (!json || json->members().empty()) return unreadable(pid);
  return std::move(*json);
}

// The versions are the process's own words; the paths are what it has mapped.
Json with_paths(int pid, const Json& libraries) {
  const struct {
    const char* name;
    const char* stems;
  } kinds[] = {{"libhvd", "libhvd.so"},
               {"PMIx", "libpmix.so"},
               {"MPI", "libmpi.so libmpich.so libmpi_cray.so"},
               {"CUDA", "libcuda.so"},
               {"NCCL", "libnccl.so"}};
  const std::string maps = read_proc(pid, "maps");
  Json all = Json::array();
  for (const auto& kind : kinds) {
    Json version;
    for (const Json& library : libraries.items()) {
      if (library["name"].text() == kind.name) version = library["version"];
    }
    const std::string path = mapped_file(maps, kind.stems);
    all.add(Json::object()
                .set("name", kind.name)
                .set("version", std::move(version))
                .set("path", path.empty() ? Json() : path));
  }
  return all;
}

}  // namespace

Expected<Json> ask_rank(int pid, Deadline deadline) {
  struct stat st;
  if (stat(in_proc(pid, "").c_str(), &st) != 0) return no_such_process(pid);
  std::set<uint64_t> inodes;
  const int refused = sockets_of(pid, &inodes);
  if (refused == EACCES || refused == EPERM) return not_ours(pid, st.st_uid);
  if (refused != 0) return no_such_process(pid);
  const std::string name = name_of_socket(pid, inodes);
  if (name.empty()) return no_rank(pid);
  if (Status status = check_namespace(pid); !status.ok()) return status;
  const Expected<Fd> socket = connect_to(pid, name, deadline);
  if (!socket.ok()) return socket.status();
  Expected<Json> answer = receive(pid, *socket, deadline);
  if (!answer.ok()) return answer;
  answer->set("pid", pid);
  answer->set("libraries", with_paths(pid, (*answer)["libraries"]));
  return answer;
}

}  // namespace hvd::info
