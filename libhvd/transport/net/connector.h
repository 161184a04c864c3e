// SPDX-License-Identifier: Apache-2.0
//
// Finds the way to one listener that has several addresses. An attempt on the next address starts
// when the last one failed or has been silent for a moment; all that are under way go on, and the
// first whose other side proves to be the right process of this job wins. So an address that leads
// nowhere, or to somebody else, costs a moment and not the deadline. One thread at a time.
#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "libhvd/base/clock.h"
#include "libhvd/base/fd.h"
#include "libhvd/transport/handshake.h"

namespace hvd {

class Connector {
 public:
  Connector(std::string secret, const Introduction& introduction, std::vector<std::string> ips,
            int port);

  // Goes on as far as that goes now; call again at once, when a descriptor is ready, or after
  // sleep_ms(). True once connected: take() the socket.
  bool step();
  Fd take() { return std::move(connected_); }

  void add_poll_fds(std::vector<pollfd>* fds) const;
  int sleep_ms() const;
  // Where it tried and what came of it, for the text of a timeout.
  std::string describe() const;

 private:
  struct Attempt {
    Fd fd;
    size_t address;
    bool connected;
    Handshake handshake;
  };
  void start_next();
  bool drive(Attempt* attempt);  // false: it failed, and last_error_ says why
  void failed(size_t address, const std::string& why);

  std::string secret_;
  Introduction introduction_;
  std::vector<std::string> ips_;
  int port_;
  std::vector<Attempt> attempts_;
  size_t next_ = 0;        // index of the address to try next
  int64_t pause_ms_ = 20;  // before the next round over all addresses
  Deadline next_at_;
  std::string last_error_;
  Fd connected_;
};

}  // namespace hvd
