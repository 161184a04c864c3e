// SPDX-License-Identifier: Apache-2.0
//
// How a batch travels, decided alike on every rank from what all ranks know. Pure.
//
// A batch is the concatenation of its tensors, cut into blocks of `block_elements`. On a node each
// block goes through pack (my part into my slot), reduce (owners of shards sum over the slots),
// cross (owners of the same shard on all nodes combine), unpack (into the user's tensors).
// On one node with few ranks, or little data, reduce and cross fall away: after packing, every rank
// sums over all slots straight into its own tensors, or copies the root's ("direct").
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libhvd/coll/team.h"
#include "libhvd/control/description.h"
#include "libhvd/topo/layout.h"

namespace hvd {

// What does not change in the life of a job.
struct Geometry {
  int local_size = 1;  // ranks on my node
  int local_rank = 0;  // mine
  size_t block_bytes = 256 << 10;
  int slots = 4;  // blocks in flight

  static Geometry of(const Layout& layout, int rank, size_t block_bytes, int slots);
};

// Elements [begin, end) of something.
struct Range {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
};
Range overlap(Range a, Range b);  // empty, of a's begin, if there is none
Range hull(Range a, Range b);     // all between the two; an empty one does not count

// The precision of sums of float32 and float64 on their way between nodes.
enum class WireType : uint8_t { kOwn = 0, kBfloat16 = 1, kFloat16 = 2 };

// What the schedule says about a batch. Kinds that do not calculate give their size in bytes, as
// elements of kUint8, so that they may mix types.
struct BatchOrder {
  OpKind kind = OpKind::kAllreduce;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  // of an allreduce or reducescatter
  size_t elements = 0;           // of all tensors together; of no meaning if exclusive
  uint64_t first_block = 0;
  int root = 0;  // of a broadcast: rank in the job
  WireType wire = WireType::kOwn;
};

// Allgather, alltoall and Adasum: how many blocks they need is not known when they are scheduled.
// The schedule keeps a range of so many block numbers free for them, and they have the slots of
// their members to themselves.
bool is_exclusive(OpKind kind, ReduceOp op);
constexpr uint64_t kExclusiveBlocks = uint64_t{1} << 28;

struct BatchPlan {
  OpKind kind = OpKind::kAllreduce;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  uint64_t first_block = 0;
  uint64_t blocks = 0;
  size_t elements = 0;        // of the whole batch
  size_t block_elements = 0;  // of every block but perhaps the last
  int shards = 1;             // owners are the first members of every node
  bool direct = false;
  bool exclusive = false;
  int root_node = 0;   // of a broadcast: node of the team
  int root_place = 0;  // and place among the members there
  WireType wire = WireType::kOwn;

  uint64_t end_block() const { return first_block + blocks; }
  size_t elements_of(uint64_t block) const;  // `block` is absolute
};

BatchPlan plan_batch(const Geometry& geometry, const Team& team, const BatchOrder& order);

// Elements of a block of `elements` that belong to shard `shard` of `shards`.
Range shard_range(size_t elements, int shards, int shard);

// Rows of `rows` that member `index` of `size` keeps of a reducescatter: the first rows % size
// members have one more.
Range rows_of(size_t rows, int size, int index);

// The largest power of two that is not more than n >= 1: so many take part in halving and doubling,
// the others give what they have to one of these first.
int largest_power_of_two(int n);

// One exchange of the cross leg with one peer: send [send), receive [receive) of the shard.
// Received elements are added to the own ones (reduce) or take their place.
struct CrossStep {
  enum class Kind : uint8_t {
    kFoldIn = 0,
    kReduce = 1,
    kGather = 2,
    kFoldOut = 3,
    kRoot = 4,
    kSpread = 5,
    kMail = 6
  };
  Kind kind = Kind::kReduce;
  int peer = 0;  // node
  Range send;
  Range receive;
  bool reduce = false;
};

// Steps of node `node` of `nodes` to sum a shard of `elements` over all nodes, in order.
//
// The sum is always this tree over node indices: with P the largest power of two <= nodes, first
// node i+P is added to node i (i < nodes-P), then neighbours at distance 1, 2, 4 ... P/2 are added
// pairwise. Recursive doubling exchanges the whole shard at each level (log2 P messages, few
// bytes), recursive halving-doubling half of what is left and gathers it back (2 log2 P messages,
// each byte sent about twice): the same tree, so the same bits. Cost of the latter per node and
// direction: 2 (P-1)/P shards.
//
// `needs`, by node: the elements of the sum that its members want (a reducescatter); null: all of
// them. Sums are the same; what is gathered back is only what somebody wants whom the receiver
// still serves. Other elements of the shard are undefined afterwards.
std::vector<CrossStep> plan_cross_sum(int nodes, int node, size_t elements, size_t element_bytes,
                                      const std::vector<Range>* needs = nullptr);

// Steps to bring a shard from `root` to all nodes: a binomial tree. A node has one receiving step
// (but for the root), then sending steps.
std::vector<CrossStep> plan_cross_broadcast(int nodes, int node, int root, size_t elements);

// A message's tag: tells apart the messages that a pair of ranks has under way.
int cross_tag(uint64_t block, CrossStep::Kind kind);

}  // namespace hvd
