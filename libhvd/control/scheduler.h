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
    // Blocks that `elements` of `type` take in the data path.
    uint64_t block_bytes = 256 << 10;
  };
  explicit Scheduler(Limits limits);

  // What all ranks together say.
  void take(Report report, int64_t now_ns);

  // Forms batches while fewer than the limit are in flight. `finished`: batches finished so far.
  void form(uint64_t finished, int64_t now_ns);

  // When form() has something to do that only waits for the clock; INT64_MAX if nothing.
  int64_t due_ns() const;

  // New entries since the last call, in order.
  std::vector<Entry> drain();

  // Batches formed in the life of this object; form() compares it with `finished`.
  uint64_t formed() const { return formed_; }

 private:
  struct Known {
    std::string name;
    std::string encoded;
    Description description;
    std::list<Ticket>::iterator used;  // place in recently_
    bool waiting = false;              // complete, not in a batch yet
  };

  void submit(const Report& report, int64_t now_ns);
  void make_ready(Ticket ticket, int64_t now_ns);
  void touch(Ticket ticket);
  void evict_beyond_capacity();
  bool fits_together(const Description& a, const Description& b) const;
  void add_batch(std::vector<Ticket> tickets);
  void add(Entry entry) { entries_.push_back(std::move(entry)); }

  const Limits limits_;
  std::unordered_map<std::string, Ticket> names_;
  std::unordered_map<Ticket, Known> known_;
  std::list<Ticket> recently_;  // most recent first
  std::deque<Ticket> ready_;    // complete, in order
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
