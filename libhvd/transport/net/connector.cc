// SPDX-License-Identifier: Apache-2.0
//
// Attempts in rounds over the addresses, as declared in the header.
#include "libhvd/transport/net/connector.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "libhvd/base/status.h"
#include "libhvd/transport/net/address.h"

namespace hvd {
namespace {

constexpr int64_t kStaggerMs = 200;    // more than a round trip in any cluster
constexpr int64_t kMostPauseMs = 500;  // between rounds

std::string errno_text(int err) {
  char buffer[128];
  return strerror_r(err, buffer, sizeof buffer);
}

}  // namespace

Connector::Connector(std::string secret, const Introduction& introduction,
                     std::vector<std::string> ips, int port)
    : secret_(std::move(secret)),
      introduction_(introduction),
      ips_(std::move(ips)),
      port_(port),
      next_at_(Deadline::after_ms(0)) {}

void Connector::failed(size_t address, const std::string& why) {
  last_error_ = ips_[address] + ": " + why;
  // The next address at once; the next round after a pause, longer each time.
  if (next_ < ips_.size()) {
    next_at_ = Deadline::after_ms(0);
  } else if (attempts_.size() <= 1) {
    next_at_ = Deadline::after_ms(pause_ms_);
    pause_ms_ = std::min(2 * pause_ms_, kMostPauseMs);
  }
}

void Connector::start_next() {
  if (next_ >= ips_.size()) next_ = 0;
  const size_t address = next_++;
  next_at_ = Deadline::after_ms(kStaggerMs);
  for (const Attempt& a : attempts_) {
    if (a.address == address) return;
  }
  const auto target = socket_address(ips_[address], port_);
  if (!target) return failed(address, "not an address");
  Fd fd(socket(target->first.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return failed(address, errno_text(errno));
  const int rc =
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&target->first), target->second);
  if (rc != 0 && errno != EINPROGRESS && errno != EINTR) return failed(address, errno_text(errno));
  attempts_.push_back(
      {std::move(fd), address, rc == 0, Handshake::connecting(secret_, introduction_)});
}

bool Connector::drive(Attempt* attempt) {
  if (!attempt->connected) {
    pollfd p{attempt->fd.get(), POLLOUT, 0};
    if (::poll(&p, 1, 0) != 1) return true;
    int err = 0;
    socklen_t length = sizeof err;
    getsockopt(attempt->fd.get(), SOL_SOCKET, SO_ERROR, &err, &length);
    if (err != 0) {
      failed(attempt->address, errno_text(err));
      return false;
    }
    attempt->connected = true;
  }
  if (attempt->handshake.drive(attempt->fd.get()) != Handshake::State::kRefused) return true;
  failed(attempt->address, attempt->handshake.why());
  return false;
}

bool Connector::step() {
  if (connected_.valid() || ips_.empty()) return connected_.valid();
  const bool won = attempts_.size() == 1 && attempts_[0].handshake.proved();
  if (!won && next_at_.passed()) start_next();
  for (size_t i = 0; i < attempts_.size();) {
    if (!drive(&attempts_[i])) {
      attempts_.erase(attempts_.begin() + static_cast<ptrdiff_t>(i));
      continue;
    }
    Handshake& handshake = attempts_[i].handshake;
    if (handshake.state() == Handshake::State::kAsking) {
      // Only the winner proves itself, so the other side never takes two connections for one.
      handshake.proceed();
      Attempt winner = std::move(attempts_[i]);
      attempts_.clear();
      attempts_.push_back(std::move(winner));
      i = 0;
      continue;
    }
    if (handshake.state() == Handshake::State::kDone) {
      connected_ = std::move(attempts_[i].fd);
      attempts_.clear();
      return true;
    }
    ++i;
  }
  return false;
}

void Connector::add_poll_fds(std::vector<pollfd>* fds) const {
  for (const Attempt& a : attempts_) {
    fds->push_back({a.fd.get(), a.connected ? a.handshake.poll_events() : short{POLLOUT}, 0});
  }
}

int Connector::sleep_ms() const { return next_at_.poll_ms(static_cast<int>(kMostPauseMs)); }

std::string Connector::describe() const {
  if (ips_.empty()) return "it has published no address";
  std::string text = "tried ";
  for (size_t i = 0; i < ips_.size(); ++i) text += (i == 0 ? "" : ", ") + ips_[i];
  text += format(" port %d", port_);
  if (!last_error_.empty()) text += "; " + last_error_;
  return text;
}

}  // namespace hvd
