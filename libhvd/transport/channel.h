// SPDX-License-Identifier: Apache-2.0
//
// Point-to-point messages between ranks of different nodes, for tensors. Implemented over MPI and,
// in the tests, in memory. Nonblocking; messages with the same peer and tag do not overtake each
// other. One thread at a time (the engine's lock).
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "libhvd/base/status.h"

namespace hvd {

class Channel {
 public:
  using Request = int;                  // index of a message under way
  static constexpr Request kNone = -1;  // nothing under way

  virtual ~Channel() = default;

  // Starts a message of `bytes` to or from `rank` (of the job). `data` stays untouched (send) or
  // unread (receive) until test() says so.
  virtual Expected<Request> send(int rank, int tag, const void* data, size_t bytes) = 0;
  virtual Expected<Request> receive(int rank, int tag, void* data, size_t bytes) = 0;

  // Moves messages; afterwards done() is up to date. Called once for all of them, since a look at
  // the network costs the same for one as for many. An error is final. Needed now and then also
  // while none is under way: "done" means that the memory is free, not that the other side has all.
  virtual Status progress() = 0;

  // True once the message is done; the request is then free for another.
  virtual bool done(Request request) = 0;

  // Messages started and not done.
  virtual int outstanding() const = 0;

  // Memory that messages under way may touch, of somebody who does not wait for them any more: it
  // stays as long as the channel.
  void keep(std::shared_ptr<const void> memory) { kept_.push_back(std::move(memory)); }

 private:
  std::vector<std::shared_ptr<const void>> kept_;
};

}  // namespace hvd
