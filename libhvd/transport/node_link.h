// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of one node share: a piece of memory, a doorbell (eventfd) each, and sockets that
// tell when a process ends. It carries no meaning: the layout of the memory is control's (board)
// and coll's (slots).
//
// The leader makes a memfd, reserves all of it with fallocate, and hands it with the doorbells to
// the other ranks over an abstract unix socket (SCM_RIGHTS); no name in /dev/shm ever exists.
// The sockets stay open: their EOF, or the pidfd of the process behind them, is the death watch.
// The leader watches all its ranks, every rank watches the leader.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libhvd/base/clock.h"
#include "libhvd/base/fd.h"
#include "libhvd/base/status.h"

namespace hvd {

// A listening abstract unix socket under a random name. Every rank opens one before the bootstrap's
// exchange and publishes the name; only the leader's is used, the others are closed after it.
struct NodeListener {
  Fd fd;
  std::string name;  // without the leading zero byte

  static Expected<NodeListener> open();
};

class NodeLink {
 public:
  // Everything a NodeLink owns; the tests fill one in for ranks that are threads of one process.
  struct Parts {
    char* base = nullptr;  // `bytes` of zeroed memory, page aligned, the same on all ranks
    size_t bytes = 0;
    bool unmap = false;  // munmap(base) at the end
    int local_rank = 0;
    std::vector<Fd> doorbells;  // by local rank: eventfd, nonblocking; size = local size
    std::vector<Fd> sockets;    // by local rank: socket to it, or empty
    std::vector<Fd> pidfds;     // by local rank: process behind it, or empty
  };

  // The leader's side: waits until every other local rank has come. `names` by local rank: "rank 3
  // on node1", for texts. `secret` is the job's; who cannot prove to know it, or runs under another
  // uid, is not let in. `bytes` of shared memory. kTimeout names the ranks that are missing, to
  // those who have come as well.
  static Expected<std::unique_ptr<NodeLink>> lead(NodeListener listener, std::string_view secret,
                                                  const std::vector<std::string>& names,
                                                  size_t bytes, Deadline deadline);
  // The other ranks' side; `leader` is the leader's name.
  static Expected<std::unique_ptr<NodeLink>> join(const std::string& listener_name,
                                                  std::string_view secret, int local_rank,
                                                  const std::string& leader, Deadline deadline);
  explicit NodeLink(Parts parts) : parts_(std::move(parts)) {}
  ~NodeLink();
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;

  char* base() const { return parts_.base; }
  size_t bytes() const { return parts_.bytes; }
  int local_rank() const { return parts_.local_rank; }
  int local_size() const { return static_cast<int>(parts_.doorbells.size()); }

  // Ends the sleep of a local rank (itself too). Any thread; async-signal-safe.
  void ring(int local_rank) const;
  // Forgets the rings this rank got. One thread at a time.
  void hush() const;

  // Calls `gone` once for each local rank whose process ended or closed its socket since the last
  // call; `why` is "connection closed" or "process ended". One thread at a time, never blocks.
  void check_peers(const std::function<void(int local_rank, const char* why)>& gone);

  // Appends own doorbell, sockets and pidfds for a sleep in ppoll(2).
  void add_poll_fds(std::vector<pollfd>* fds) const;

 private:
  Parts parts_;
};

}  // namespace hvd
