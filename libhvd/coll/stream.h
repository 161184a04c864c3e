// SPDX-License-Identifier: Apache-2.0
//
// The data path of one rank: agreed batches flow through it block by block, several blocks in
// flight, over the node's shared slots and, between nodes, over the channel.
//
// Every local rank has `slots` slots of one block, and the node has as many result slots. Block b
// uses slot b mod slots. Blocks have absolute numbers, the same on all ranks and growing for ever;
// each rank publishes how far it has come with three counters ("all my blocks below v are packed",
// "my shards of all blocks below v are final", "all blocks below v are in my tensors"), so that a
// flag is a comparison and nothing is ever reset. Slot b may be written once every rank has done
// block b - slots.
//
// Whoever's counter makes a condition true for all rouses those that sleep; others do not, so a
// sleeper is not woken for news it cannot use.
//
// Not thread-safe: called under the engine's lock. Never waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "libhvd/coll/batch.h"
#include "libhvd/coll/cross.h"
#include "libhvd/coll/plan.h"
#include "libhvd/transport/channel.h"

namespace hvd {

class Stream {
 public:
  // Bytes of shared memory for a node of `local_size` ranks; zeroed memory is the start.
  static size_t bytes(int local_size, size_t block_bytes, int slots);

  // `base` has bytes() bytes, page aligned. `channel` may be null on one node.
  // `rank_of[node][local rank]` is the layout. `rouse` wakes the node's sleepers.
  Stream(const Geometry& geometry, char* base, Channel* channel,
         std::vector<std::vector<int>> ranks_by_node, std::function<void()> rouse);

  // Batches run in the order they are added. A batch without elements is finished at once.
  void add(Batch batch);

  // Does at most about one block's worth of each stage. Sets *moved if anything happened. Finished
  // batches are handed to `finished`, in order.
  Status step(bool* moved, const std::function<void(const Batch&)>& finished);

  bool idle() const { return batches_.empty(); }
  uint64_t finished() const { return finished_; }  // batches, in the life of this object

  // True while the channel has messages under way: nothing rings a doorbell for those.
  bool must_poll() const {
    return !abandoned_ && channel_ != nullptr && channel_->outstanding() > 0;
  }

  // Moves what the channel still has of messages that are done here: Open MPI completes a send
  // whose last bytes wait for room in a socket, and moves them only when it is called again.
  Status flush();

  // For a job of several nodes whose channel came after this object; before the first batch.
  void set_channel(Channel* channel) { channel_ = channel; }

  // Forgets all batches and never touches user memory, slots or channel again.
  void abandon();

 private:
  struct Flags {
    alignas(64) std::atomic<uint64_t> packed;
    alignas(64) std::atomic<uint64_t> reduced;
    alignas(64) std::atomic<uint64_t> done;
  };
  using Counter = std::atomic<uint64_t> Flags::*;

  // A stage's place: a block of a batch (by running number).
  struct Cursor {
    uint64_t batch = 0;
    uint64_t block = 0;
  };
  // A block whose shard is on its way between nodes.
  struct Crossing {
    CrossRun run;
    bool done = false;
  };

  const Batch* at(const Cursor& cursor) const;
  void next(Cursor* cursor) const;

  bool pack_one();
  Status reduce_one(bool* moved);
  Status cross_some(bool* moved);
  bool unpack_one(const std::function<void(const Batch&)>& finished);

  void start_crossing(const Batch& batch, uint64_t block, Range shard);
  bool all(Counter counter, uint64_t at_least, int count) const;
  void post(Counter counter, uint64_t value, int count);
  bool slot_free(uint64_t block) const;
  char* slot(int local_rank, uint64_t block) const;
  char* result(uint64_t block) const { return slot(geometry_.local_size, block); }
  char* source(const BatchPlan& plan, uint64_t block) const;

  const Geometry geometry_;
  Flags* flags_;
  char* slots_;
  Channel* channel_;
  const std::vector<std::vector<int>> ranks_by_node_;
  std::vector<int> owner_of_node_;  // by node: the rank with my local rank (shard owners only)
  const std::function<void()> rouse_;

  std::deque<Batch> batches_;
  uint64_t first_batch_ = 0;  // running number of batches_.front()
  uint64_t finished_ = 0;
  bool abandoned_ = false;
  Cursor pack_;
  Cursor reduce_;
  Cursor cross_;
  Cursor unpack_;
  std::vector<Crossing> crossings_;  // by block mod slots
  std::unique_ptr<char[]> scratch_;  // one block per slot, on several nodes
};

}  // namespace hvd
