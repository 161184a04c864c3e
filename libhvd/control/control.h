// SPDX-License-Identifier: Apache-2.0
//
// The agreement as one rank takes part in it: carries reports up and the schedule down between
// this rank, its node's board and (on the leader) the tree. The thinking is done by Announcer
// (every rank), Aggregator (leaders) and Scheduler (the root); this file only moves their words.
//
// Called under the engine's lock. Never waits.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libhvd/base/wire.h"
#include "libhvd/control/aggregator.h"
#include "libhvd/control/announcer.h"
#include "libhvd/control/board.h"
#include "libhvd/control/scheduler.h"
#include "libhvd/control/stall_watch.h"
#include "libhvd/topo/layout.h"

namespace hvd {

class Control {
 public:
  struct Events {
    // A line about a death came from another node; `from` is the neighbour.
    std::function<void(const std::string& line)> news;
    // The connection to a neighbour's leader ended; `in_order`: it had said that it may.
    std::function<void(int node, const std::string& why, bool in_order)> closed;
    // A local rank or a neighbour sent what is no message.
    std::function<void(int rank, const char* what)> broken;
    // The root: an operation does not come, and this is why.
    std::function<void(const Stall& stall)> stalled;
  };

  // `wire` is null but on leaders of jobs with several nodes. All outlive this object.
  Control(const Layout& layout, int rank, Board* board, Wire* wire, Scheduler::Limits limits,
          Events events);

  // This rank has submitted an operation.
  void announce(const OpKey& key, const std::string& description);
  // This rank says something else: goodbye, bye, leave.
  void say(Report report);

  // A local rank has ended in order. Leaders only.
  void local_rank_left(int local_rank) { aggregator_->left(local_rank); }

  // Moves what can be moved; true if anything was. `finished`: batches this rank has finished.
  bool progress(uint64_t finished, int64_t now_ns);

  // The next entry of the schedule for this rank; false if there is none now. The announcer has
  // seen it already.
  bool next_entry(Entry* entry);

  // What a ticket of a batch stands for; nullptr if it is unknown: the schedule is broken.
  const Announcer::Known* find(Ticket ticket) const { return announcer_.find(ticket); }

  // The root: all ranks fail with `text`.
  void stop(std::string text);

  // Tells all neighbours but `except` (-1: nobody) that a rank died. Leaders only.
  void spread_news(const std::string& line, int except);

  // Tells all neighbours whether this leader may vanish without being missed. Leaders only.
  void say_presence(bool may_vanish);
  // Neighbours that have never said say_presence(). Leaders only.
  std::vector<int> silent_neighbours() const;
  // True once the system has taken all that was to be sent.
  bool sent() const { return wire_ == nullptr || wire_->queued() == 0; }

  // When progress() has something to do that only waits for the clock; INT64_MAX if nothing.
  int64_t due_ns() const {
    return scheduler_ ? std::min(scheduler_->due_ns(), stalls_.due_ns()) : INT64_MAX;
  }
  // True while something waits for room on the board: nobody rings when there is some.
  bool backlog() const { return !reports_.empty() || !schedule_.empty(); }

  bool leader() const { return aggregator_ != nullptr; }

  // What is remembered here: bounded, however long the job runs.
  struct Sizes {
    size_t tickets = 0;    // as a rank
    size_t names = 0;      // as a leader
    size_t evicted = 0;    // as a leader
    size_t scheduled = 0;  // tickets, as the root
    size_t sets = 0;       // as a leader
  };
  Sizes sizes() const;

 private:
  bool flush_reports();
  bool read_lanes();
  bool read_wire(int64_t now_ns);
  bool watch_stalls(int64_t now_ns);
  void take_as_root(Report report, int64_t now_ns);
  bool pass_on(uint64_t finished, int64_t now_ns);
  void distribute(const std::vector<Entry>& entries);
  void publish(std::string message);
  bool flush_schedule();
  void take_from_node(int node, std::string_view message);
  void note_presence(int node, int may_vanish);
  void send_to_neighbours(const Report& up, const Entry& down, int except);

  const Layout& layout_;
  const int rank_;
  const int node_;
  const int local_rank_;
  Board* const board_;
  Wire* const wire_;
  const Events events_;
  const int parent_;
  const std::vector<int> children_;

  Announcer announcer_;
  std::unique_ptr<Aggregator> aggregator_;  // leaders
  std::unique_ptr<Scheduler> scheduler_;    // the root
  StallWatch stalls_;                       // the root

  std::vector<int> may_vanish_;       // neighbours that have said so
  std::vector<int> heard_;            // neighbours that have said whether they may
  std::deque<std::string> reports_;   // for the leader, while the lane is full
  std::deque<std::string> schedule_;  // for the board, while a reader is behind
  std::deque<Entry> entries_;         // for this rank
};

}  // namespace hvd
