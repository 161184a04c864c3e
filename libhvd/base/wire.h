// SPDX-License-Identifier: Apache-2.0
//
// Messages between a node's leader and its neighbours in the tree, as the agreement sees them.
// Implemented over TCP by transport/net and in memory by the tests; not used for tensors.
// One thread at a time calls a Wire (the engine's lock); nothing here blocks.
#pragma once

#include <poll.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd {

class Wire {
 public:
  // What arrives. `node` is the index of the neighbour's node.
  struct Sink {
    // A whole message, exactly as the neighbour's send() got it; in order per neighbour.
    std::function<void(int node, std::string_view message)> message;
    // The connection ended: why, e.g. "connection closed", "no answer for 10 s". Once per node.
    std::function<void(int node, const std::string& why)> closed;
    // A rank of `node` whose leader is dead connected to bring this text (see TcpWire::bring_news).
    std::function<void(int node, std::string_view text)> news;
  };

  virtual ~Wire() = default;

  // Queues a message for a neighbour and sends what the socket takes. Never blocks, never fails:
  // a broken connection is reported by poll(). Messages to a closed neighbour are dropped.
  virtual void send(int node, std::string_view message) = 0;

  // Sends what is queued, receives what is there, hands it to `sink`; true if anything moved.
  virtual bool poll(const Sink& sink) = 0;

  // Bytes queued and not yet taken by the system, all neighbours together.
  virtual size_t queued() const = 0;

  // Appends the descriptors (with the events wanted) that end a sleep in ppoll(2).
  virtual void add_poll_fds(std::vector<pollfd>* fds) const = 0;
};

}  // namespace hvd
