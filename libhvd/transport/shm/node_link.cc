// SPDX-License-Identifier: Apache-2.0
//
// The leader gathers all its ranks first and only then makes the memory, so that whatever goes
// wrong on either side can be told to everybody who came. After the handshake the leader sends one
// Greeting, then either a text (it could not) or the descriptors: memory first, then the doorbells.
#include "libhvd/transport/node_link.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "libhvd/base/unix_socket.h"
#include "libhvd/transport/acceptor.h"

namespace hvd {
namespace {

using Parts = NodeLink::Parts;

constexpr const char* kClosed = "connection closed";
constexpr const char* kEnded = "process ended";
// The leader's deadline is about ours, and it knows who is missing.
constexpr int64_t kLeaderFirstMs = 1000;
constexpr int kPollSliceMs = 1000;  // no sleep depends on a single event being seen

struct Greeting {
  uint32_t code;  // Code: 0, or why the leader gave up; a text of text_bytes follows
  uint32_t local_size;
  uint64_t bytes;
  uint64_t text_bytes;
};
constexpr uint64_t kMostTextBytes = 1 << 16;

bool same_user(int fd) {
  ucred peer;
  return peer_credentials(fd, &peer) && peer.uid == geteuid();
}

// The process at the other end of a socket, to see it die even if a child of it keeps the socket.
// Empty where the kernel has no pidfd, or the process is in a PID namespace we cannot see.
Fd process_behind(int fd) {
#ifdef SYS_pidfd_open
  ucred peer;
  if (peer_credentials(fd, &peer) && peer.pid > 0 && peer.pid != getpid()) {
    return Fd(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
  }
#else
  (void)fd;
#endif
  return Fd();
}

// What the kernel says it can still give, 0 if it does not say. Asked before fallocate, which would
// first wake the OOM killer on processes that have nothing to do with it.
size_t available_memory() {
  FILE* file = fopen("/proc/meminfo", "re");
  if (file == nullptr) return 0;
  char line[128];
  unsigned long kib = 0;
  while (fgets(line, sizeof line, file) != nullptr) {
    if (sscanf(line, "MemAvailable: %lu kB", &kib) == 1) break;
  }
  fclose(file);
  return size_t{kib} * 1024;
}

Status map_memory(int fd, size_t bytes, Parts* parts) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    return errno_error(errno, "mapping %zu bytes of the node's shared memory", bytes);
  }
  // A forked child has no use for it, and may live longer than the job.
  madvise(base, bytes, MADV_DONTFORK);
  parts->base = static_cast<char*>(base);
  parts->bytes = bytes;
  parts->unmap = true;
  return ok_status();
}

Status short_of_memory(size_t bytes, const std::string& why) {
  return error(Code::kSystem,
               "reserving %zu bytes of memory that the ranks of this node share: %s. Ask for more "
               "memory (--mem), or run fewer ranks on the node",
               bytes, why.c_str());
}

Expected<Fd> make_memory(size_t bytes, Parts* parts) {
  const size_t available = available_memory();
  if (available > 0 && bytes > available) {
    return short_of_memory(bytes, format("the node has %zu left", available));
  }
  Fd fd(memfd_create("horovod-node", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return errno_error(errno, "making the memory that the ranks of this node share");
  int rc;
  do {
    rc = fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes));
  } while (rc != 0 && errno == EINTR);
  if (rc != 0) {
    char buffer[128];
    return short_of_memory(bytes, strerror_r(errno, buffer, sizeof buffer));
  }
  // A file that cannot shrink: no rank can turn the others' loads and stores into SIGBUS.
  fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  Status mapped = map_memory(fd.get(), bytes, parts);
  if (!mapped.ok()) return mapped;
  return fd;
}

Status make_doorbells(int local_size, Parts* parts) {
  for (int r = 0; r < local_size; ++r) {
    parts->doorbells.emplace_back(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!parts->doorbells.back().valid()) {
      return errno_error(errno,
                         "making the doorbell of local rank %d (each rank holds about 3 "
                         "descriptors per rank of its node; see ulimit -n)",
                         r);
    }
  }
  return ok_status();
}

// Waits until all other local ranks hold a socket in `parts`.
Status gather(NodeListener listener, std::string_view secret, const std::vector<std::string>& names,
              Deadline deadline, Parts* parts) {
  std::vector<Fd>& sockets = parts->sockets;
  const int local_size = static_cast<int>(sockets.size());
  int absent = local_size - 1;
  Acceptor::Rules rules;
  rules.secret = secret;
  rules.patience_ms = INT32_MAX;  // ours are as patient as we are, and strangers of our uid are few
  rules.most_pending = sockets.size() + 64;
  rules.check_socket = same_user;
  rules.admit = [&](const Introduction& who) {
    return who.role == Role::kLocalRank && who.from > 0 && who.from < local_size &&
           !sockets[who.from].valid();
  };
  rules.arrived = [&](Fd fd, const Introduction& who) {
    parts->pidfds[who.from] = process_behind(fd.get());
    sockets[who.from] = std::move(fd);
    --absent;
  };
  Acceptor acceptor(std::move(listener.fd), std::move(rules));
  std::vector<pollfd> fds;
  while (absent > 0 && !deadline.passed()) {
    acceptor.step();
    fds.clear();
    acceptor.add_poll_fds(&fds);
    for (const Fd& fd : sockets) fds.push_back({fd.get(), POLLRDHUP, 0});
    ::poll(fds.data(), fds.size(), absent > 0 ? deadline.poll_ms(kPollSliceMs) : 0);
    for (int r = 1; r < local_size; ++r) {
      if (fds[fds.size() - sockets.size() + r].revents == 0) continue;
      return error(Code::kPeerLost, "%s ended while the ranks of its node met",
                   names[static_cast<size_t>(r)].c_str());
    }
  }
  if (absent == 0) return ok_status();
  std::string absentees;
  for (int r = 1; r < local_size; ++r) {
    if (sockets[r].valid()) continue;
    absentees += (absentees.empty() ? "" : ", ") + names[static_cast<size_t>(r)];
  }
  return error(Code::kTimeout, "%s did not connect to %s in time", absentees.c_str(),
               names[0].c_str());
}

// Best effort: who does not get it sees the socket close.
void tell_all(const std::vector<Fd>& sockets, const Status& status, Deadline deadline) {
  const std::string& text = status.text();
  Greeting greeting{static_cast<uint32_t>(status.code()), 0, 0,
                    std::min<uint64_t>(text.size(), kMostTextBytes)};
  for (const Fd& fd : sockets) {
    if (!fd.valid()) continue;
    if (!send_all(fd.get(), &greeting, sizeof greeting, deadline).ok()) continue;
    (void)send_all(fd.get(), text.data(), greeting.text_bytes, deadline).ok();
  }
}

Status hand_out(const Parts& parts, const Fd& memory, Deadline deadline) {
  std::vector<int> fds{memory.get()};
  for (const Fd& doorbell : parts.doorbells) fds.push_back(doorbell.get());
  const Greeting greeting{0, static_cast<uint32_t>(parts.doorbells.size()), parts.bytes, 0};
  for (size_t r = 1; r < parts.sockets.size(); ++r) {
    const int socket = parts.sockets[r].get();
    Status sent = send_all(socket, &greeting, sizeof greeting, deadline);
    if (sent.ok()) sent = send_fds(socket, fds, deadline);
    if (!sent.ok()) return sent.annotate(format("handing shared memory to local rank %zu", r));
  }
  return ok_status();
}

Expected<Fd> connect_to(const std::string& name, const std::string& leader, Deadline deadline) {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return errno_error(errno, "opening a socket");
  sockaddr_un address;
  const socklen_t length = abstract_address(name, &address);
  while (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    if (errno == ECONNREFUSED) {
      return error(Code::kPeerLost,
                   "%s does not listen at \"@%s\". It has ended, or this rank is in another "
                   "network namespace (container)",
                   leader.c_str(), name.c_str());
    }
    // EAGAIN: its queue is full for the moment, and poll(2) has no event for that.
    if (errno != EAGAIN && errno != EINTR) {
      return errno_error(errno, "connecting to %s at \"@%s\"", leader.c_str(), name.c_str());
    }
    if (deadline.passed()) {
      return error(Code::kTimeout, "%s accepts no connection", leader.c_str());
    }
    ::poll(nullptr, 0, 1);
  }
  if (!same_user(fd.get())) {
    return error(Code::kSystem, "\"@%s\" is held by another user's process", name.c_str());
  }
  return fd;
}

Status shake_hands(int fd, std::string_view secret, int local_rank, const std::string& leader,
                   Deadline deadline) {
  Handshake handshake = Handshake::connecting(secret, {Role::kLocalRank, local_rank, 0});
  for (;;) {
    Handshake::State state = handshake.drive(fd);
    if (state == Handshake::State::kAsking) {
      handshake.proceed();
      continue;
    }
    if (state == Handshake::State::kDone) return ok_status();
    if (state == Handshake::State::kRefused) {
      return error(Code::kPeerLost, "%s: %s", leader.c_str(), handshake.why().c_str());
    }
    if (deadline.passed()) {
      return error(Code::kTimeout, "%s did not answer in time", leader.c_str());
    }
    pollfd p{fd, handshake.poll_events(), 0};
    ::poll(&p, 1, deadline.poll_ms(kPollSliceMs));
  }
}

Status receive_descriptors(int fd, const Greeting& greeting, Deadline deadline, Parts* parts) {
  std::vector<Fd> fds;
  Status got = receive_fds(fd, size_t{greeting.local_size} + 1, &fds, deadline);
  if (got.ok()) got = map_memory(fds[0].get(), greeting.bytes, parts);
  if (!got.ok()) return got;
  for (size_t i = 1; i < fds.size(); ++i) parts->doorbells.push_back(std::move(fds[i]));
  return ok_status();
}

// Takes what hand_out or tell_all sends. What the leader tells is passed on as it is.
Status receive_parts(int fd, const std::string& leader, Deadline deadline, Parts* parts) {
  const std::string doing = "waiting for " + leader;
  Greeting greeting;
  Status got = receive_all(fd, &greeting, sizeof greeting, deadline);
  if (!got.ok()) return got.annotate(doing);
  if (greeting.text_bytes > kMostTextBytes || greeting.local_size > (1u << 16)) {
    return error(Code::kInternal, "%s: a greeting that does not parse", doing.c_str());
  }
  if (greeting.code == 0) {
    return receive_descriptors(fd, greeting, deadline, parts).annotate(doing);
  }
  std::string text(greeting.text_bytes, '\0');
  got = receive_all(fd, text.data(), text.size(), deadline);
  return got.ok() ? Status(static_cast<Code>(greeting.code), text) : got.annotate(doing);
}

}  // namespace

Expected<NodeListener> NodeListener::open() {
  Expected<NamedListener> listener = listen_at_random_name("horovod-", 4096);
  if (!listener.ok()) {
    return listener.status().annotate("making the place where the ranks of this node meet");
  }
  return NodeListener{std::move(listener->fd), std::move(listener->name)};
}

Expected<std::unique_ptr<NodeLink>> NodeLink::lead(NodeListener listener, std::string_view secret,
                                                   const std::vector<std::string>& names,
                                                   size_t bytes, Deadline deadline) {
  const int local_size = static_cast<int>(names.size());
  // A NodeLink from the start: what was mapped goes with it, whatever happens.
  std::unique_ptr<NodeLink> link(new NodeLink(Parts{}));
  Parts& parts = link->parts_;
  parts.sockets.resize(static_cast<size_t>(local_size));
  parts.pidfds.resize(static_cast<size_t>(local_size));
  Status status = gather(std::move(listener), secret, names, deadline, &parts);
  // Those who came hear of a failure even if the deadline is what failed.
  const Deadline tell = Deadline::after_ms(1000);
  if (status.ok()) status = make_doorbells(local_size, &parts);
  if (status.ok()) {
    Expected<Fd> memory = make_memory(bytes, &parts);
    status = memory.ok() ? hand_out(parts, *memory, deadline) : memory.status();
  }
  if (!status.ok()) {
    tell_all(parts.sockets, status, tell);
    return status;
  }
  return link;
}

Expected<std::unique_ptr<NodeLink>> NodeLink::join(const std::string& listener_name,
                                                   std::string_view secret, int local_rank,
                                                   const std::string& leader, Deadline deadline) {
  std::unique_ptr<NodeLink> link(new NodeLink(Parts{}));
  Parts& parts = link->parts_;
  parts.local_rank = local_rank;
  auto fd = connect_to(listener_name, leader, deadline);
  if (!fd.ok()) return fd.status();
  Status status = shake_hands(fd->get(), secret, local_rank, leader, deadline);
  if (status.ok()) {
    status = receive_parts(fd->get(), leader, deadline.plus_ms(kLeaderFirstMs), &parts);
  }
  if (!status.ok()) return status;
  parts.sockets.resize(parts.doorbells.size());
  parts.pidfds.resize(parts.doorbells.size());
  parts.pidfds[0] = process_behind(fd->get());
  parts.sockets[0] = std::move(*fd);
  return link;
}

NodeLink::~NodeLink() {
  if (parts_.unmap && parts_.base != nullptr) munmap(parts_.base, parts_.bytes);
}

void NodeLink::ring(int local_rank) const {
  const uint64_t one = 1;
  // A full counter is a doorbell that rings already; there is no other failure.
  [[maybe_unused]] const ssize_t n = write(parts_.doorbells[local_rank].get(), &one, sizeof one);
}

void NodeLink::hush() const {
  uint64_t rings;
  [[maybe_unused]] const ssize_t n =
      read(parts_.doorbells[parts_.local_rank].get(), &rings, sizeof rings);
}

void NodeLink::check_peers(const std::function<void(int local_rank, const char* why)>& gone) {
  std::vector<pollfd> fds;
  add_poll_fds(&fds);
  if (fds.size() == 1 || ::poll(fds.data(), fds.size(), 0) <= 0) return;
  for (size_t i = 1; i < fds.size(); ++i) {
    if (fds[i].revents == 0) continue;
    for (size_t r = 0; r < parts_.sockets.size(); ++r) {
      const bool by_socket = parts_.sockets[r].get() == fds[i].fd;
      const bool by_process = r < parts_.pidfds.size() && parts_.pidfds[r].get() == fds[i].fd;
      if (!by_socket && !by_process) continue;
      parts_.sockets[r].reset();
      if (r < parts_.pidfds.size()) parts_.pidfds[r].reset();
      gone(static_cast<int>(r), by_socket ? kClosed : kEnded);
      break;
    }
  }
}

void NodeLink::add_poll_fds(std::vector<pollfd>* fds) const {
  fds->push_back({parts_.doorbells[parts_.local_rank].get(), POLLIN, 0});
  for (const Fd& fd : parts_.sockets) {
    if (fd.valid()) fds->push_back({fd.get(), POLLRDHUP, 0});
  }
  for (const Fd& fd : parts_.pidfds) {
    if (fd.valid()) fds->push_back({fd.get(), POLLIN, 0});
  }
}

}  // namespace hvd
