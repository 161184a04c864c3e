// SPDX-License-Identifier: Apache-2.0
//
// The data path of one rank: agreed batches flow through it in the order of the schedule, over the
// node's shared slots (slots.h) and, between nodes, over the channel. Batches whose blocks are
// known beforehand are the pipeline's (pipeline.h); an exclusive one is an Exchange of its own.
//
// Every rank hears of every batch in the order of the schedule: add() for one of a set of which it
// is a member, pass() for the others, which may use slots that it wants later.
//
// Not thread-safe: called under the engine's lock. Never waits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "libhvd/coll/batch.h"
#include "libhvd/coll/exchange.h"
#include "libhvd/coll/pipeline.h"
#include "libhvd/coll/plan.h"
#include "libhvd/coll/slots.h"
#include "libhvd/coll/turn.h"
#include "libhvd/transport/channel.h"

namespace hvd {

class Stream {
 public:
  // Bytes of shared memory for a node of `local_size` ranks; zeroed memory is the start.
  static size_t bytes(int local_size, size_t block_bytes, int slots) {
    return Slots::bytes(local_size, block_bytes, slots);
  }

  // `base` has bytes() bytes, page aligned. `channel` may be null on one node. `rouse` wakes the
  // node's sleepers, `wake` one of them (none: it rouses).
  Stream(const Geometry& geometry, char* base, Channel* channel, std::function<void()> rouse,
         std::function<void(int local_rank)> wake = nullptr);

  // A batch of a team that this rank is a member of.
  void add(Batch batch);
  // A batch of another team: blocks first_block to end_block, without end_block.
  void pass(const std::shared_ptr<const Team>& team, uint64_t first_block, uint64_t end_block);

  // Does at most about one block's worth of each stage. Sets *moved if anything happened. Finished
  // batches are handed to `finished`, in order; but one without elements at once.
  Status step(bool* moved, const std::function<void(const Batch&)>& finished);

  bool idle() const { return turns_.empty() && empty_.empty(); }
  // Batches, in the life of this object: those that are finished, and those that were passed.
  uint64_t finished() const { return finished_; }

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
  Status step_front(bool* moved, bool* over);
  Status step_exchange(bool* moved, bool* over);

  Slots slots_;
  SlotUses uses_;
  Channel* channel_;
  Turns turns_;
  Pipeline pipeline_;
  std::unique_ptr<Exchange> exchange_;  // the front turn, if it is exclusive and has begun
  std::vector<Batch> empty_;            // of no blocks: finished as soon as somebody can be told
  uint64_t finished_ = 0;
  bool abandoned_ = false;
};

}  // namespace hvd
