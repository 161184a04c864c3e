// SPDX-License-Identifier: Apache-2.0
//
// A listening socket whose connections are handed on only after the handshake. Strangers, garbage
// and the silent are dropped without a word; they cannot keep the others out. One thread at a time.
#pragma once

#include <poll.h>

#include <functional>
#include <string>
#include <vector>

#include "libhvd/base/clock.h"
#include "libhvd/base/fd.h"
#include "libhvd/transport/handshake.h"

namespace hvd {

class Acceptor {
 public:
  struct Rules {
    std::string secret;
    int own = 0;                  // who we are: see Handshake::accepting
    int64_t patience_ms = 10000;  // for the handshake of one connection
    size_t most_pending = 128;    // unfinished handshakes; the oldest gives way to a newer one
    // Looks at a socket before anything is read from it. Empty: all are welcome.
    std::function<bool(int fd)> check_socket;
    // Decides about somebody who has proved to be of the job.
    std::function<bool(const Introduction&)> admit;
    // Gets the socket of somebody who was admitted.
    std::function<void(Fd, const Introduction&)> arrived;
  };

  Acceptor(Fd listener, Rules rules) : listener_(std::move(listener)), rules_(std::move(rules)) {}

  // Accepts and shakes hands as far as that goes now; true if anything moved.
  bool step();
  bool has_pending() const { return !pending_.empty(); }
  void add_poll_fds(std::vector<pollfd>* fds) const;

 private:
  struct Pending {
    Fd fd;
    Handshake handshake;
    Deadline deadline;
  };
  bool accept_new();
  bool drive(Pending* p);  // true: finished, one way or the other

  Fd listener_;
  Rules rules_;
  std::vector<Pending> pending_;  // oldest first
};

}  // namespace hvd
