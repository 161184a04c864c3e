// SPDX-License-Identifier: Apache-2.0
//
// A leader's half of the agreement: collects what its children say (the ranks of its node and the
// leaders below it) and says one thing for all of them once all have spoken. The root's aggregator
// says it to the scheduler.
//
// Steady state costs one bit and one counter per (ticket, child). Descriptions are compared here,
// so that equal ones travel up once per subtree, and different ones travel with their ranks.
//
// Of a process set those children have to speak that have members of it below. A rank that has
// joined counts as one that has spoken, for every name.
//
// Not thread-safe: called under the engine's lock. No input or output of its own: pure state.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "libhvd/control/message.h"

namespace hvd {

class Aggregator {
 public:
  // `ranks_below` by child, ascending each.
  explicit Aggregator(std::vector<std::vector<int>> ranks_below);

  // What a child said. False if it cannot be (a child that is not there): the sender is broken.
  // What is about a set that was removed meanwhile is dropped.
  bool take(int child, Report report);

  // The process of a child that is one rank has ended, in order: in this epoch and in all that
  // follow it has shut down.
  void left(int child);

  // An entry of the schedule, in order.
  void apply(const Entry& entry);

  // What this subtree has to say since the last call, in order.
  std::vector<Report> drain();

  // Names that some children have submitted and others have not, for the stall watch and tests.
  size_t incomplete() const { return incomplete_; }
  size_t names() const { return names_.size(); }
  size_t sets() const { return sets_.size(); }
  // Evicted tickets that are still understood.
  size_t remembered() const { return evicted_.size(); }

 private:
  // What an evicted ticket stood for.
  struct Evicted {
    OpKey key;
    std::string description;
  };
  // A process set, as far as it is below.
  struct Set {
    std::vector<std::vector<int>> members;  // by child, ascending
    int needed = 0;                         // children that have members
    std::vector<size_t> joined;             // by child: how many of its members have joined

    bool all_joined(size_t child) const { return joined[child] == members[child].size(); }
  };
  enum class Said : uint8_t { kNothing, kTicket, kDescription };
  struct Name {
    OpKey key;
    Set* set = nullptr;
    Ticket ticket = 0;              // 0: none yet
    std::string description;        // the ticket's
    std::vector<Said> said;         // by child
    int heard = 0;                  // children that said something
    std::vector<Opinion> opinions;  // of the children that sent descriptions
    int32_t last = 0;               // as in Ready
    int32_t joined = -1;
    bool stalled = false;  // was said
    bool final = false;
  };

  Name* find_or_add(const OpKey& key);
  void take_ticket(int child, const Ready& ready);
  void take_description(int child, const OpKey& key, const std::vector<Opinion>& opinions,
                        int32_t last, int32_t joined);
  bool take_join(int child, Report report);
  void take_stalled(Report report);
  void hear(Name* name, int child, Said what, int32_t last, int32_t joined);
  bool all_heard(const Name& name) const;
  void complete(Name* name);
  void complete_by_join();
  static void note_joined(Name* name, int32_t rank);
  void add_opinion(Name* name, const std::string& description, const std::vector<int>& ranks);
  void define(const Entry& entry);
  void run(const Entry& entry);
  void fail(const OpKey& key);
  void evict(Ticket ticket);
  void begin_epoch();
  void add_set(int32_t id, const std::vector<std::vector<int>>& members);
  void remove_set(int32_t id);
  void forget_evicted(int child, uint64_t evictions);
  void say_forgotten();
  void say(Report report);

  const std::vector<std::vector<int>> ranks_below_;
  std::unordered_map<int32_t, std::unique_ptr<Set>> sets_;
  int32_t next_set_ = 1;
  std::unordered_map<Ticket, Description> set_changes_;  // tickets that add or remove sets
  std::unordered_set<int> joined_;                       // ranks below
  std::unordered_map<OpKey, std::unique_ptr<Name>, OpKeyHash> names_;
  std::unordered_map<Ticket, Name*> tickets_;
  // Evicted tickets that a child may still say: the last ones of evictions_.
  std::unordered_map<Ticket, Evicted> evicted_;
  std::deque<Ticket> evicted_order_;
  uint64_t evictions_ = 0;  // applied
  uint64_t evictions_said_ = 0;
  std::vector<uint64_t> evictions_read_;  // by child
  size_t incomplete_ = 0;
  std::vector<bool> gone_;  // by child, this epoch
  std::vector<bool> bye_;   // by child
  std::vector<bool> left_;  // by child
  int gone_count_ = 0;
  int bye_count_ = 0;
  bool goodbye_said_ = false;
  bool leave_said_ = false;
  std::vector<Report> said_;
};

}  // namespace hvd
