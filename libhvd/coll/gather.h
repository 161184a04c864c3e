// SPDX-License-Identifier: Apache-2.0
//
// Everybody's bytes to everybody: the mechanism of allgather.
//
// It goes in rounds of one block each, several in flight. In a round each member writes a chunk
// straight to its own place in the node's result slot; the owners of shards swap regions between
// nodes; then everybody reads all chunks from the slot. Chunks are as long as the members' bytes
// are in proportion, so that all need the same number of rounds and ragged sizes waste nothing.
//
// Places are ordered by shard, then node, then member: what a node contributes to a shard is one
// region, and the regions of neighbours are neighbours. Between nodes regions spread by
// dissemination: after the step at distance d a node has the regions of 2d nodes from its own on.
// ceil(log2 N) steps, each byte received once, nothing moved afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libhvd/coll/slots.h"
#include "libhvd/transport/channel.h"

namespace hvd {

// Pure, and the same on all members.
struct GatherPlan {
  bool possible = true;  // false: more members than half a block has bytes
  uint64_t rounds = 0;
  int shards = 1;
  std::vector<size_t> bytes;    // by member
  std::vector<size_t> chunks;   // by member: of every round but its last
  std::vector<size_t> places;   // by member: where its chunk begins in the block
  std::vector<size_t> regions;  // [shard * nodes + node]: where the region begins; and the end

  Range part_of(int member, uint64_t round) const;  // of the member's bytes
};
GatherPlan plan_gather(const Team& team, std::vector<size_t> bytes, size_t block_bytes);

// One step between nodes: `count` regions from `give` on go to `to`, as many from `take` on come
// from `from`; nodes are counted round.
struct SpreadStep {
  int to = 0;
  int give = 0;
  int from = 0;
  int take = 0;
  int count = 0;
};
std::vector<SpreadStep> plan_spread(int nodes, int node);

// The one or two ranges of a block that `count` regions from node `first` on are, in their order.
std::vector<Range> regions_of(const GatherPlan& plan, int nodes, int shard, int first, int count);

class Gather {
 public:
  // Where bytes come from and go to.
  class Ends {
   public:
    virtual ~Ends() = default;
    virtual void read(Range mine, char* to) = 0;
    virtual void write(int member, Range range, const char* from) = 0;
  };

  // Uses blocks [first_block, first_block + plan.rounds). `batch_block`: the first one of the
  // batch; no slot was used since then but by it. All stay valid until done.
  Gather(Slots* slots, Channel* channel, const Team* team, uint64_t batch_block,
         uint64_t first_block, GatherPlan plan, Ends* ends);

  Expected<bool> step(bool* moved);

 private:
  // A round whose regions are on their way between nodes.
  struct Spread {
    size_t step = 0;
    bool begun = false;
    std::vector<Channel::Request> requests;
  };

  bool write_one();
  bool start_spread();
  Status spread_some(bool* moved);
  Expected<bool> advance(uint64_t round, bool* moved);
  Status begin(uint64_t round, Spread* spread);
  bool read_one();
  bool owner() const { return team_->nodes > 1 && team_->local_index < plan_.shards; }
  uint64_t block(uint64_t round) const { return first_block_ + round; }

  Slots* slots_;
  Channel* channel_;
  const Team* team_;
  uint64_t batch_block_;
  uint64_t first_block_;
  GatherPlan plan_;
  Ends* ends_;
  std::vector<SpreadStep> steps_;
  std::vector<Spread> spreads_;  // by round mod slots
  // Rounds below these are through.
  uint64_t written_ = 0;
  uint64_t started_ = 0;
  uint64_t spread_ = 0;
  uint64_t read_ = 0;
};

}  // namespace hvd
