// SPDX-License-Identifier: Apache-2.0
//
// How batches travel whose blocks are known beforehand: allreduce, reducescatter, broadcast. They
// flow one after the other through four stages, several blocks in flight; the pipeline does not
// drain between them. An exclusive batch is a wall: nothing behind it starts before it is over.
//
// Each stage has a cursor that walks over the blocks of all batches in order. What a block needs,
// by stage (n members on this node, s owners = the first s of them):
//   pack    slot free                                     (broadcast: the root only; an owner packs
//           all but its own shard, which it reads from the user's tensors when it reduces)
//   reduce  packed > b of all n; broadcast: on the root's node packed > b of the root, elsewhere
//           the result slot is free                       (owners only)
//   cross   its own messages                              (owners only)
//   unpack  direct: packed > b of all n (broadcast: of the root); else reduced > b of the s owners
// A slot is free if whoever used it last has done that block: the batch's own members b - slots, or
// for its first blocks what the turn says.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "libhvd/coll/cross.h"
#include "libhvd/coll/slots.h"
#include "libhvd/coll/turn.h"
#include "libhvd/transport/channel.h"

namespace hvd {

class Pipeline {
 public:
  Pipeline(Slots* slots, const Turns* turns);

  // A turn was pushed.
  void added();
  // The front turn, which was none of ours, is over and popped.
  void passed();

  // Does at most about one block's worth of each stage. Sets *moved if anything happened, and
  // *over if the front batch is done: the caller pops it.
  Status step(Channel* channel, bool* moved, bool* over);

  // Messages may still come in: the channel gets what they write to.
  void abandon(Channel* channel) {
    if (scratch_ != nullptr) channel->keep(std::shared_ptr<char[]>(std::move(scratch_)));
  }

 private:
  // A stage's place: a block of a batch (by number of its turn).
  struct Cursor {
    uint64_t turn = 0;
    uint64_t block = 0;
  };
  // A block whose shard is on its way between nodes.
  struct Run {
    CrossRun run;
    bool done = false;
  };

  const Turn* at(const Cursor& cursor) const;
  void next(Cursor* cursor) const;
  bool same(const Cursor& a, const Cursor& b) const {
    return a.turn == b.turn && a.block == b.block;
  }

  bool pack_one();
  bool reduce_one(Channel* channel);
  Status cross_some(bool* moved);
  bool unpack_one(bool* over);
  bool unpack_block(const Batch& batch, uint64_t block);

  bool owner(const Batch& batch) const;
  void start_crossing(Channel* channel, const Batch& batch, uint64_t block, Range shard);
  bool slot_free(const Turn& turn, uint64_t block) const;
  int root_rank(const Batch& batch) const;
  bool root(const Batch& batch) const;
  char* source(const Batch& batch, uint64_t block) const;
  void point_at_slots(const Team& team, uint64_t block);

  Slots* slots_;
  const Turns* turns_;
  Cursor pack_;
  Cursor reduce_;
  Cursor cross_;
  Cursor unpack_;
  std::vector<Run> runs_;             // by block mod slots
  std::vector<char*> members_slots_;  // of the block in hand
  std::unique_ptr<char[]> scratch_;   // one block per slot, once something crosses
};

}  // namespace hvd
