// SPDX-License-Identifier: Apache-2.0
//
// The root's half of the agreement: turns what the root's aggregator says into the one schedule.
// Gives out tickets, forgets the least recently used ones, compares descriptions for the last time,
// and decides what is fused.
//
// A batch is formed when the data path has room for one (few are in flight), out of everything
// that is complete at that moment: so batches grow by themselves while the network is busy, and a
// single tensor on an idle job leaves at once.
//
// Not thread-safe: called under the engine's lock. Pure: time comes in as an argument.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "libhvd/control/message.h"

namespace hvd {

class Scheduler {
 public:
  struct Limits {
    int64_t fusion_bytes = int64_t{128} << 20;  // most bytes of a batch of several tensors
    size_t cache_capacity = 1024;               // tickets kept
    int64_t cycle_ns = 0;                       // wait so long for more once something is complete
    int batches_in_flight = 2;
    uint64_t block_bytes = 256 << 10;
    bool fuse_groups = true;  // a group may share its batch with others
  };
  explicit Scheduler(Limits limits, int ranks);

  // What all ranks together say.
  void take(Report report, int64_t now_ns);

  // Forms batches while fewer than the limit are in flight. `finished`: batches finished so far.
  void form(uint64_t finished, int64_t now_ns);

  // The ranks of a process set; none if there is no such set.
  std::vector<int> members(int32_t set) const;
  const std::vector<int>& joined() const { return joined_; }  // in this round of joins

  // When form() has something to do that only waits for the clock; INT64_MAX if nothing.
  int64_t due_ns() const;

  // New entries since the last call, in order.
  std::vector<Entry> drain();

  // Batches formed in the life of this object; form() compares it with `finished`.
  uint64_t formed() const { return formed_; }
  size_t known() const { return known_.size(); }  // tickets
  size_t sets() const { return sets_.size(); }    // but for the global one

 private:
  struct Known {
    OpKey key;
    std::string encoded;
    Description description;
    std::list<Ticket>::iterator used;  // place in recently_
    bool waiting = false;              // complete, not in a batch yet
  };

  void submit(const Report& report, int64_t now_ns);
  void define(const Report& report);
  void make_ready(const Ready& ready, int64_t now_ns);
  std::string join_objection(const OpKey& key, const Description& description,
                             int32_t joined) const;
  std::string set_objection(const OpKey& key, const Description& description) const;
  void fail(const OpKey& key, std::string text);
  void join(int rank);
  void end_join();
  void end_epoch();
  void touch(Ticket ticket);
  void evict_beyond_capacity();
  std::list<Ticket>::iterator evict(Ticket ticket);
  bool fits_together(const Known& a, const Known& b) const;
  void add_batch(std::vector<Ready> tickets);
  void change_sets(const Description& description);
  void add(Entry entry) { entries_.push_back(std::move(entry)); }

  const Limits limits_;
  const int ranks_;
  std::unordered_map<OpKey, Ticket, OpKeyHash> names_;
  std::unordered_map<Ticket, Known> known_;
  std::map<int32_t, std::vector<int32_t>> sets_;  // members; the global set is not here
  int32_t next_set_ = 1;
  std::vector<int> joined_;     // ranks, in order
  bool all_joined_ = false;     // kJoined is due
  std::list<Ticket> recently_;  // most recent first
  std::deque<Ready> ready_;     // complete, in order
  int64_t first_ready_ns_ = 0;  // when the oldest of ready_ became so
  Ticket next_ticket_ = 1;
  uint64_t next_block_ = 0;
  uint64_t formed_ = 0;
  bool somebody_left_ = false;
  bool finalized_ = false;
  bool granted_ = false;
  std::vector<Entry> entries_;
};

}  // namespace hvd
