// SPDX-License-Identifier: Apache-2.0
//
// Framing and queueing, as declared in the header.
#include "libhvd/transport/net/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "libhvd/base/status.h"

namespace hvd {
namespace {

constexpr size_t kHeaderBytes = 4;
constexpr size_t kMostBytesPerReceive = 1 << 20;

size_t get_length(const char* p) {
  size_t length = 0;
  for (size_t i = 0; i < kHeaderBytes; ++i) {
    length |= size_t{static_cast<unsigned char>(p[i])} << 8 * i;
  }
  return length;
}

}  // namespace

std::string Connection::why(int err) const {
  switch (err) {
    case 0:
    case EPIPE:
    case ECONNRESET:
      return "connection closed";
    // The kernel gives up with one of these, whichever the last attempt to reach the host met.
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return format("no answer for %g s", static_cast<double>(silence_ms_) / 1000);
    default:
      return errno_error(err, "connection broken").text();
  }
}

short Connection::poll_events() const {
  return static_cast<short>(POLLIN | (queued() > 0 && !broken_ ? POLLOUT : 0));
}

void Connection::send(std::string_view message) {
  if (broken() || !fd_.valid()) return;
  if (message.size() > most_bytes_) {
    ended_ = format("a message of %zu bytes for it is too long", message.size());
    return;
  }
  for (size_t i = 0; i < kHeaderBytes; ++i) output_ += static_cast<char>(message.size() >> 8 * i);
  output_ += message;
  (void)flush();
}

bool Connection::flush() {
  bool moved = false;
  while (queued() > 0 && !broken_) {
    const ssize_t n =
        ::send(fd_.get(), output_.data() + sent_, queued(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      sent_ += static_cast<size_t>(n);
      moved = true;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      broken_ = true;
    }
  }
  if (queued() == 0 || broken_) {
    output_.clear();
    sent_ = 0;
  }
  return moved;
}

void Connection::hand_on(const std::function<void(std::string_view)>& on_message) {
  size_t at = 0;
  while (input_.size() - at >= kHeaderBytes) {
    const size_t length = get_length(&input_[at]);
    if (length > most_bytes_) {
      ended_ = format("a message of %zu bytes from it does not parse", length);
      at = input_.size();
      break;
    }
    if (input_.size() - at - kHeaderBytes < length) break;
    on_message({&input_[at + kHeaderBytes], length});
    at += kHeaderBytes + length;
  }
  input_.erase(0, at);
}

bool Connection::receive(const std::function<void(std::string_view)>& on_message) {
  char buffer[1 << 16];
  size_t taken = 0;
  std::string end;
  while (taken < kMostBytesPerReceive && ended_.empty()) {
    const ssize_t n = ::recv(fd_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      // The peer said nothing more, and what we say does not arrive.
      if (broken_) end = why(EPIPE);
      break;
    }
    if (n <= 0) {
      end = why(n == 0 ? 0 : errno);
      break;
    }
    taken += static_cast<size_t>(n);
    input_.append(buffer, static_cast<size_t>(n));
    if (static_cast<size_t>(n) < sizeof buffer) break;
  }
  if (taken > 0) hand_on(on_message);
  if (ended_.empty()) ended_ = end;
  return taken > 0 || !ended_.empty();
}

void Connection::close() {
  if (!fd_.valid()) return;
  (void)flush();
  shutdown(fd_.get(), SHUT_WR);
  // Unread bytes at close(2) become a reset, and that could overtake what was just sent.
  char buffer[1 << 16];
  int pieces = 0;
  while (++pieces < 64 && ::recv(fd_.get(), buffer, sizeof buffer, MSG_DONTWAIT) > 0) {
  }
  fd_.reset();
}

void tune_socket(int fd, int64_t silence_ms) {
  const auto set = [fd](int level, int option, int64_t value) {
    const int number = static_cast<int>(std::clamp<int64_t>(value, 1, 1 << 30));
    setsockopt(fd, level, option, &number, sizeof number);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  if (silence_ms <= 0) return;
  // TCP_USER_TIMEOUT bounds unacknowledged data; on an idle connection Linux looks at it when a
  // keepalive probe is due. The first goes after half the time, then one each tenth.
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, silence_ms);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, std::min<int64_t>(silence_ms / 2000, 32767));
  set(IPPROTO_TCP, TCP_KEEPINTVL, std::min<int64_t>(silence_ms / 10000, 32767));
  set(IPPROTO_TCP, TCP_KEEPCNT, 127);
}

}  // namespace hvd
