// SPDX-License-Identifier: Apache-2.0
//
// Linux lets one message carry 253 descriptors (SCM_MAX_FD), and an unprivileged user have as many
// on their way, all processes together, as RLIMIT_NOFILE says: a large node meets both.
#include "libhvd/base/unix_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "libhvd/base/sha256.h"

namespace hvd {
namespace {

constexpr size_t kMostFdsPerMessage = 250;

// Sleeps until the socket has `events`; an error when the deadline has passed.
Status wait_for(int socket, short events, Deadline deadline) {
  if (deadline.passed()) {
    return error(Code::kTimeout, "the other side does not %s",
                 events == POLLIN ? "answer" : "take what is sent");
  }
  pollfd p{socket, events, 0};
  ::poll(&p, 1, deadline.poll_ms(1000));
  return ok_status();
}

// After a failed call: waits if that helps, else says what failed.
Status wait_or_fail(int err, int socket, short events, Deadline deadline) {
  if (err == EINTR) return ok_status();
  if (err == EAGAIN || err == EWOULDBLOCK) return wait_for(socket, events, deadline);
  if (err == EPIPE || err == ECONNRESET) {
    return error(Code::kPeerLost, "it closed the connection");
  }
  return errno_error(err, "%s", events == POLLIN ? "receiving" : "sending");
}

}  // namespace

socklen_t abstract_address(const std::string& name, sockaddr_un* address) {
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof address->sun_path - 1);
  memcpy(address->sun_path + 1, name.data(), length);  // sun_path[0] == 0: no file
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

Expected<NamedListener> listen_at_random_name(const char* prefix, int backlog) {
  auto random = random_bytes(16);
  if (!random.ok()) return random.status();
  NamedListener listener;
  listener.name = prefix + to_hex(*random);
  listener.fd = Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address;
  const socklen_t length = abstract_address(listener.name, &address);
  if (!listener.fd.valid() ||
      bind(listener.fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener.fd.get(), backlog) != 0) {
    return errno_error(errno, "opening a socket");
  }
  return listener;
}

bool peer_credentials(int fd, ucred* peer) {
  socklen_t length = sizeof *peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &length) == 0;
}

Status send_all(int socket, const void* data, size_t bytes, Deadline deadline) {
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::send(socket, p, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      p += n, bytes -= static_cast<size_t>(n);
      continue;
    }
    Status status = wait_or_fail(errno, socket, POLLOUT, deadline);
    if (!status.ok()) return status;
  }
  return ok_status();
}

Status receive_all(int socket, void* data, size_t bytes, Deadline deadline) {
  char* p = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::recv(socket, p, bytes, MSG_DONTWAIT);
    if (n > 0) {
      p += n, bytes -= static_cast<size_t>(n);
      continue;
    }
    Status status = wait_or_fail(n == 0 ? ECONNRESET : errno, socket, POLLIN, deadline);
    if (!status.ok()) return status;
  }
  return ok_status();
}

Status send_fds(int socket, const std::vector<int>& fds, Deadline deadline) {
  for (size_t at = 0; at < fds.size();) {
    const size_t count = std::min(fds.size() - at, kMostFdsPerMessage);
    alignas(cmsghdr) char control[CMSG_SPACE(kMostFdsPerMessage * sizeof(int))] = {};
    char byte = 'f';
    iovec data{&byte, 1};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(header), &fds[at], count * sizeof(int));
    if (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1) {
      at += count;
      continue;
    }
    if (errno == ETOOMANYREFS && !deadline.passed()) {
      ::poll(nullptr, 0, 1);  // until others have taken theirs; there is no event for it
      continue;
    }
    Status status = wait_or_fail(errno, socket, POLLOUT, deadline);
    if (!status.ok()) return status;
  }
  return ok_status();
}

Status receive_fds(int socket, size_t count, std::vector<Fd>* fds, Deadline deadline) {
  fds->reserve(count);
  while (fds->size() < count) {
    alignas(cmsghdr) char control[CMSG_SPACE(kMostFdsPerMessage * sizeof(int))];
    char byte;
    iovec data{&byte, 1};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n <= 0) {
      Status status = wait_or_fail(n == 0 ? ECONNRESET : errno, socket, POLLIN, deadline);
      if (!status.ok()) return status;
      continue;
    }
    size_t taken = 0;
    for (cmsghdr* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
      if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
      const size_t here = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < here; ++i, ++taken) {
        int fd;
        memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
        fds->emplace_back(fd);
      }
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0) {
      return error(Code::kSystem,
                   "taking %zu descriptors: no room for more than %zu of them in this process. "
                   "Raise the limit of open files (ulimit -n)",
                   count, fds->size());
    }
    if (taken == 0) return error(Code::kInternal, "a message without descriptors");
  }
  return ok_status();
}

}  // namespace hvd
