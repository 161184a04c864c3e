// SPDX-License-Identifier: Apache-2.0
//
// The node's shared memory as batches use it: slots for blocks, and counters that say how far each
// local rank has come.
//
// Every local rank has `slots` slots of one block, and the node has as many result slots. Block b
// uses slot b mod slots. Blocks have absolute numbers, the same on all ranks and growing for ever;
// each rank publishes how far it has come with three counters ("all my blocks below v are packed",
// "my shards of all blocks below v are final", "all blocks below v are in my tensors"), so that a
// flag is a comparison and nothing is ever reset.
//
// Process sets share all of it. A flag is compared only for members of the batch, and a slot may be
// written once the members of the batch that used it last have done the block that was in it:
// every rank of the node hears of every batch, and remembers the last use of each slot (SlotUses).
//
// Whoever's counter makes a condition true for all rouses those that sleep; others do not, so a
// sleeper is not woken for news it cannot use.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "libhvd/coll/plan.h"
#include "libhvd/coll/team.h"

namespace hvd {

class Slots {
 public:
  struct Flags {
    alignas(64) std::atomic<uint64_t> packed;
    alignas(64) std::atomic<uint64_t> reduced;
    alignas(64) std::atomic<uint64_t> done;
  };
  using Counter = std::atomic<uint64_t> Flags::*;

  // Bytes of shared memory for a node of `local_size` ranks; zeroed memory is the start.
  static size_t bytes(int local_size, size_t block_bytes, int slots);

  // `base` has bytes() bytes, page aligned. `rouse` wakes the node's sleepers, `wake` one of them.
  Slots(const Geometry& geometry, char* base, std::function<void()> rouse,
        std::function<void(int local_rank)> wake);
  Slots(const Slots&) = delete;

  const Geometry& geometry() const { return geometry_; }

  // The first `count` local members of the team have a counter of at least that.
  bool all(Counter counter, uint64_t at_least, const Team& team, int count) const;
  bool all(Counter counter, uint64_t at_least, const Team& team) const {
    return all(counter, at_least, team, team.local_size());
  }
  bool one(Counter counter, uint64_t at_least, int local_rank) const {
    return (flags_[local_rank].*counter).load(std::memory_order_seq_cst) >= at_least;
  }
  // Sets my counter, and rouses if that completes the first `count` members.
  void post(Counter counter, uint64_t value, const Team& team, int count);
  // Sets my counter and rouses: for what others wait for from me alone.
  void announce(Counter counter, uint64_t value);
  void rouse() const { rouse_(); }
  void wake(int local_rank) const { wake_(local_rank); }

  char* slot(int local_rank, uint64_t block) const;
  char* result(uint64_t block) const { return slot(geometry_.local_size, block); }
  // All slots of a rank lie one after the other.
  char* memory(int local_rank) const { return slot(local_rank, 0); }
  size_t memory_bytes() const {
    return static_cast<size_t>(geometry_.slots) * geometry_.block_bytes;
  }

 private:
  const Geometry geometry_;
  Flags* flags_;
  char* slots_;
  const std::function<void()> rouse_;
  const std::function<void(int)> wake_;
};

// Whose done counters a slot waits for: all of them must be at least `done`. No team: nobody's.
struct SlotUse {
  std::shared_ptr<const Team> team;
  uint64_t done = 0;
};

// The last use of each slot, as far as the schedule was heard.
class SlotUses {
 public:
  explicit SlotUses(int slots) : last_(static_cast<size_t>(slots)) {}

  // What the first blocks of a batch must wait for; a later block waits for the batch itself.
  std::vector<SlotUse> before(uint64_t first_block, uint64_t end_block) const;
  // From here on these blocks are the last use of their slots. A team without members on this node
  // leaves no trace.
  void note(const std::shared_ptr<const Team>& team, uint64_t first_block, uint64_t end_block);

 private:
  std::vector<SlotUse> last_;  // by block mod slots
};

}  // namespace hvd
