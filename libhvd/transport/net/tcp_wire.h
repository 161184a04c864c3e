// SPDX-License-Identifier: Apache-2.0
//
// The tree's sockets: one TCP connection from each leader to its parent's leader. Framing, the
// challenge-response that lets a connection in, keepalive. What the messages mean is control's.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libhvd/base/clock.h"
#include "libhvd/base/fd.h"
#include "libhvd/base/status.h"
#include "libhvd/base/wire.h"

namespace hvd {

// A listening TCP socket on all the node's addresses. Every rank opens one before the bootstrap's
// exchange; only leaders keep theirs.
struct TcpListener {
  Fd fd;
  int port = 0;

  static Expected<TcpListener> open();
};

// The node's usable addresses as text, "10.0.0.1/24 fe80::..." style entries with prefix length and
// interface name, for the record. `interfaces` narrows: names or CIDR ranges separated by ":"
// (IPv6 ranges in brackets); empty means all that are up, loopback only if nothing else is there.
// kInvalid if `interfaces` matches nothing; the text lists what there is.
struct Endpoint {
  std::vector<std::string> addresses;  // "ip/prefix%interface"
  int port = 0;
};
Expected<std::vector<std::string>> local_addresses(const std::string& interfaces);

class TcpWire final : public Wire {
 public:
  struct Config {
    int node = 0;                     // own node index
    int parent = -1;                  // node index, -1 at the root
    std::vector<int> children;        // node indices
    std::vector<Endpoint> endpoints;  // by node: where its leader listens
    std::vector<std::string> names;   // by node: "rank R on HOST" of its leader, for texts
    std::string secret;               // the job's, from the exchange
    int64_t peer_timeout_ms = 10000;  // silence of a host after which it is gone
  };

  // Connects to the parent and waits for the children. kTimeout names who did not come, or is what
  // a neighbour has brought (bring_news); either way the neighbours are told.
  // Addresses on a common subnet are tried first, then the others.
  static Expected<std::unique_ptr<TcpWire>> connect(Config config, TcpListener listener,
                                                    Deadline deadline);

  ~TcpWire() override;
  void send(int node, std::string_view message) override;
  bool poll(const Sink& sink) override;
  size_t queued() const override;
  void add_poll_fds(std::vector<pollfd>* fds) const override;

  // For a rank whose leader is dead, or a leader that cannot start: tells the leader of `node` (one
  // of config.endpoints) the text, which it gets as Sink::news, or as the error of connect().
  // Blocks until handed over or the deadline; best effort.
  static Status bring_news(const Config& config, int node, std::string_view text,
                           Deadline deadline);
  // For a leader that cannot start: the same for all its neighbours, one after the other. Blocks
  // for a fraction of a second.
  static void call_off(const Config& config, std::string_view text);

 private:
  struct State;
  explicit TcpWire(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hvd
