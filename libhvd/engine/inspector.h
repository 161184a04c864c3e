// SPDX-License-Identifier: Apache-2.0
//
// The socket on which a rank tells hvd-info about itself: an abstract unix socket under a random
// name, which hvd-info finds in /proc. Who connects, and is the same user or root, gets one
// descriptor: a sealed piece of memory with the text. So nothing here ever waits for anybody, and
// nothing that a client sends is read. It costs nothing while nobody asks; while many ask it
// answers a few, and rests.
//
// Used by the thread that drives the engine; the descriptors are closed in forked children.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libhvd/base/unix_socket.h"

namespace hvd {

class Inspector {
 public:
  static Expected<std::unique_ptr<Inspector>> open();

  const std::string& name() const { return listener_.name; }

  // For a sleep in ppoll(2): appends the descriptor, unless it rests. Until when it does, else
  // INT64_MAX.
  int64_t add_poll_fd(std::vector<pollfd>* fds, int64_t now_ns) const;

  // Answers who has connected, if anybody; all of a turn get the text of one call of `describe`.
  void serve(int64_t now_ns, const std::function<std::string()>& describe);

 private:
  explicit Inspector(NamedListener listener) : listener_(std::move(listener)) {}

  NamedListener listener_;
  int64_t rests_until_ns_ = 0;
};

}  // namespace hvd
