// SPDX-License-Identifier: Apache-2.0
//
// The agreement as a whole without a runtime: announcers, aggregators and the scheduler, with
// queues for the board and the tree. Words are delivered one at a time in any order that queues
// allow: the caller's random numbers decide.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libhvd/control/aggregator.h"
#include "libhvd/control/announcer.h"
#include "libhvd/control/scheduler.h"
#include "libhvd/topo/layout.h"
#include "tests/random.h"

namespace hvd::test {

struct Tree {
  std::vector<int> node_of_rank;
  std::vector<int> parent;  // by node; -1 for the root
};

class AgreementJob {
 public:
  // `on_entry` hears every entry at every rank, in order.
  AgreementJob(const Tree& tree, Scheduler::Limits limits, Random* random,
               std::function<void(size_t rank, const Entry&)> on_entry);

  size_t size() const { return ranks_.size(); }
  void announce(size_t rank, const OpKey& key, const std::string& description);
  void say(size_t rank, Report report);
  const Announcer& announcer(size_t rank) const { return ranks_[rank].announcer; }

  // How many words there are that can be delivered next; deliver() takes one of them.
  size_t deliverable();
  void deliver();

  // What is wrong: a word that is none, more memory than `most_remembered` for evicted tickets.
  std::string error(size_t most_remembered) const;
  // What is left when all is delivered and nothing is in flight: whatever should not be.
  std::string leftover() const;

 private:
  struct Rank {
    Rank(int rank) : announcer(rank) {}
    Announcer announcer;
    std::deque<std::string> lane;     // to the leader, encoded
    std::deque<std::string> entries;  // from the board, encoded
  };
  struct Node {
    std::unique_ptr<Aggregator> aggregator;
    std::vector<size_t> children;
    std::deque<std::string> up;    // to the parent
    std::deque<std::string> down;  // from the parent
  };

  std::vector<int> ranks_below(size_t node) const;
  void hear(size_t node, size_t child, std::deque<std::string>* queue);
  void pass_on(size_t node);
  void distribute(size_t node, const std::string& bytes);
  void read_entries(size_t rank);

  const Layout layout_;
  const Tree tree_;
  Random& random_;
  const std::function<void(size_t, const Entry&)> on_entry_;
  Scheduler scheduler_;
  std::vector<Node> nodes_;
  std::vector<Rank> ranks_;
  std::vector<std::pair<char, size_t>> can_;  // what deliver() chooses from
  uint64_t finished_ = 0;
  std::string error_;
};

}  // namespace hvd::test
