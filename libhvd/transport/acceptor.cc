// SPDX-License-Identifier: Apache-2.0
//
// Accepting, as declared in the header.
#include "libhvd/transport/acceptor.h"

#include <sys/socket.h>

#include <utility>

namespace hvd {

bool Acceptor::accept_new() {
  bool moved = false;
  for (;;) {
    Fd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    // Whatever the reason (nothing there, the other side has gone again, no descriptors left): the
    // next step tries again, and the caller's deadline ends it.
    if (!fd.valid()) return moved;
    moved = true;
    if (rules_.check_socket && !rules_.check_socket(fd.get())) continue;
    if (pending_.size() >= rules_.most_pending) pending_.erase(pending_.begin());
    pending_.push_back({std::move(fd), Handshake::accepting(rules_.secret, rules_.own),
                        Deadline::after_ms(rules_.patience_ms)});
  }
}

bool Acceptor::drive(Pending* p) {
  Handshake& handshake = p->handshake;
  Handshake::State state = handshake.drive(p->fd.get());
  if (state == Handshake::State::kAsking) {
    if (!rules_.admit(handshake.introduction())) return true;
    handshake.proceed();
    state = handshake.drive(p->fd.get());
  }
  if (state == Handshake::State::kDone && handshake.output().empty()) {
    rules_.arrived(std::move(p->fd), handshake.introduction());
    return true;
  }
  return state == Handshake::State::kRefused || p->deadline.passed();
}

bool Acceptor::step() {
  bool moved = accept_new();
  for (size_t i = 0; i < pending_.size();) {
    if (drive(&pending_[i])) {
      pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(i));
      moved = true;
    } else {
      ++i;
    }
  }
  return moved;
}

void Acceptor::add_poll_fds(std::vector<pollfd>* fds) const {
  fds->push_back({listener_.get(), POLLIN, 0});
  for (const Pending& p : pending_) {
    fds->push_back({p.fd.get(), p.handshake.poll_events(), 0});
  }
}

}  // namespace hvd
