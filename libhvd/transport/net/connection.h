// SPDX-License-Identifier: Apache-2.0
//
// Whole messages over a non-blocking stream socket, with a queue for what the socket does not take.
// A message is its length (4 bytes, little endian) and its bytes. One thread at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "libhvd/base/fd.h"

namespace hvd {

class Connection {
 public:
  // `most_bytes`: a longer message ends the connection, at either end. `silence_ms`: the peer's
  // silence after which the kernel gives up (see tune_socket), for the text.
  Connection(Fd fd, size_t most_bytes, int64_t silence_ms)
      : fd_(std::move(fd)), most_bytes_(most_bytes), silence_ms_(silence_ms) {}

  int fd() const { return fd_.get(); }
  short poll_events() const;
  size_t queued() const { return output_.size() - sent_; }

  // Queues and sends what goes. May be called from inside receive()'s callback.
  void send(std::string_view message);
  bool flush();  // true if anything went

  // Takes what is there, a megabyte at most, and hands on the messages that are complete; false if
  // nothing was there. What came before the end is handed on first.
  bool receive(const std::function<void(std::string_view)>& on_message);

  // Not empty once the connection has ended, and why. A failed send does not end it before all
  // that the peer said last is received.
  const std::string& ended() const { return ended_; }
  bool broken() const { return broken_ || !ended_.empty(); }

  // Sends what goes now, lets the peer see an orderly end, closes.
  void close();

 private:
  void hand_on(const std::function<void(std::string_view)>& on_message);
  std::string why(int err) const;

  Fd fd_;
  size_t most_bytes_;
  int64_t silence_ms_;
  std::string input_;   // not yet complete messages
  std::string output_;  // of which the first sent_ bytes are gone
  size_t sent_ = 0;
  bool broken_ = false;  // sending is over
  std::string ended_;
};

// No delay for small messages, and the kernel's own watch on the peer: after `silence_ms` without
// an answer, data or keepalive, the connection ends with ETIMEDOUT. Nobody is woken meanwhile.
void tune_socket(int fd, int64_t silence_ms);

}  // namespace hvd
