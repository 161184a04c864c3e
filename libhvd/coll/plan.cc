// SPDX-License-Identifier: Apache-2.0
//
// See plan.h.
#include "libhvd/coll/plan.h"

#include <algorithm>

namespace hvd {
namespace {

// Batches up to this size are summed by every rank itself, whatever the number of local ranks:
// one wait instead of two.
constexpr size_t kDirectBytes = 8 << 10;
// Up to so many local ranks that is so for any size: the sum costs less than a second copy.
constexpr int kDirectRanks = 3;
// A shard is worth a message of its own from this size on.
constexpr size_t kMinShardBytes = 8 << 10;
// Shards up to this size cross by recursive doubling.
constexpr size_t kDoublingBytes = 8 << 10;
// Shards begin at multiples of this many elements: whole cache lines for every type.
constexpr size_t kShardAlign = 64;

}  // namespace

int largest_power_of_two(int n) {
  int p = 1;
  while (p * 2 <= n) p *= 2;
  return p;
}

Geometry Geometry::of(const Layout& layout, int rank, size_t block_bytes, int slots) {
  Geometry g;
  g.local_size = layout.local_size(rank);
  g.local_rank = layout.local_rank[rank];
  g.block_bytes = block_bytes;
  g.slots = slots;
  return g;
}

Range overlap(Range a, Range b) {
  const size_t begin = std::max(a.begin, b.begin);
  const size_t end = std::min(a.end, b.end);
  return begin < end ? Range{begin, end} : Range{a.begin, a.begin};
}

bool is_exclusive(OpKind kind, ReduceOp op) {
  return kind == OpKind::kAllgather || kind == OpKind::kAlltoall ||
         (kind == OpKind::kAllreduce && op == ReduceOp::kAdasum);
}

Range hull(Range a, Range b) {
  if (a.size() == 0) return b;
  if (b.size() == 0) return a;
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

size_t BatchPlan::elements_of(uint64_t block) const {
  const uint64_t begin = (block - first_block) * block_elements;
  return std::min<uint64_t>(block_elements, elements - begin);
}

BatchPlan plan_batch(const Geometry& geometry, const Team& team, const BatchOrder& order) {
  BatchPlan plan;
  plan.kind = order.kind;
  plan.type = order.type;
  plan.op = order.op;
  plan.elements = order.elements;
  plan.first_block = order.first_block;
  plan.exclusive = is_exclusive(order.kind, order.op);
  const size_t size = size_of(order.type);
  const size_t bytes = order.elements * size;
  plan.block_elements = geometry.block_bytes / size;
  plan.blocks = plan.exclusive ? kExclusiveBlocks
                               : (order.elements + plan.block_elements - 1) / plan.block_elements;
  if (order.kind == OpKind::kBroadcast) {
    const int root = team.index_of(order.root);
    plan.root_node = team.node_of[root];
    plan.root_place = team.place_of[root];
  }
  const bool sum = order.op == ReduceOp::kSum || order.op == ReduceOp::kAverage;
  const bool wide = order.type == DataType::kFloat32 || order.type == DataType::kFloat64;
  if (team.nodes > 1 && sum && wide && order.kind != OpKind::kBroadcast) plan.wire = order.wire;
  // Of a reducescatter everybody sums its own rows.
  plan.direct = team.nodes == 1 &&
                (order.kind == OpKind::kReducescatter || order.kind == OpKind::kBroadcast ||
                 team.size <= kDirectRanks || bytes <= kDirectBytes);
  const size_t block = std::min(bytes, plan.block_elements * size);
  plan.shards = static_cast<int>(
      std::clamp<size_t>(block / kMinShardBytes, 1, static_cast<size_t>(team.max_shards)));
  return plan;
}

Range shard_range(size_t elements, int shards, int shard) {
  const size_t n = static_cast<size_t>(shards);
  const size_t each = ((elements + n - 1) / n + kShardAlign - 1) / kShardAlign * kShardAlign;
  Range range;
  range.begin = std::min(elements, each * static_cast<size_t>(shard));
  range.end = std::min(elements, range.begin + each);
  return range;
}

Range rows_of(size_t rows, int size, int index) {
  const size_t n = static_cast<size_t>(size);
  const size_t i = static_cast<size_t>(index);
  const size_t begin = rows / n * i + std::min(i, rows % n);
  return {begin, begin + rows / n + (i < rows % n ? 1 : 0)};
}

namespace {

// Elements that the nodes [first, first + count) want, and those beyond the power of two that they
// serve.
Range wanted_by(const std::vector<Range>* needs, int power, int first, int count, Range all) {
  if (needs == nullptr) return all;
  Range want;
  const int nodes = static_cast<int>(needs->size());
  for (int node = first; node < first + count; ++node) {
    want = hull(want, (*needs)[node]);
    if (node + power < nodes) want = hull(want, (*needs)[node + power]);
  }
  return want;
}

}  // namespace

std::vector<CrossStep> plan_cross_sum(int nodes, int node, size_t elements, size_t element_bytes,
                                      const std::vector<Range>* needs) {
  std::vector<CrossStep> steps;
  if (nodes == 1 || elements == 0) return steps;
  const int power = largest_power_of_two(nodes);
  const int extras = nodes - power;
  const Range all = {0, elements};
  const Range none = {0, 0};
  if (node >= power) {
    const Range want = needs == nullptr ? all : (*needs)[node];
    steps.push_back({CrossStep::Kind::kFoldIn, node - power, all, none, false});
    steps.push_back({CrossStep::Kind::kFoldOut, node - power, none, want, false});
    return steps;
  }
  if (node < extras) steps.push_back({CrossStep::Kind::kFoldIn, node + power, none, all, true});
  if (elements * element_bytes <= kDoublingBytes) {
    for (int distance = 1; distance < power; distance *= 2) {
      steps.push_back({CrossStep::Kind::kReduce, node ^ distance, all, all, true});
    }
  } else {
    std::vector<CrossStep> gather;
    Range mine = all;
    for (int distance = 1; distance < power; distance *= 2) {
      const size_t middle = std::min(
          mine.end, mine.begin + (mine.size() / 2 + kShardAlign - 1) / kShardAlign * kShardAlign);
      Range keep = {mine.begin, middle};
      Range give = {middle, mine.end};
      if ((node & distance) != 0) std::swap(keep, give);
      const int peer = node ^ distance;
      steps.push_back({CrossStep::Kind::kReduce, peer, give, keep, true});
      // When this comes, a node still serves those that differ from it in the bits below.
      const Range we = wanted_by(needs, power, node / distance * distance, distance, all);
      const Range they = wanted_by(needs, power, peer / distance * distance, distance, all);
      gather.push_back(
          {CrossStep::Kind::kGather, peer, overlap(keep, they), overlap(give, we), false});
      mine = keep;
    }
    steps.insert(steps.end(), gather.rbegin(), gather.rend());
  }
  if (node < extras) {
    const Range want = needs == nullptr ? all : (*needs)[node + power];
    steps.push_back({CrossStep::Kind::kFoldOut, node + power, want, none, false});
  }
  return steps;
}

std::vector<CrossStep> plan_cross_broadcast(int nodes, int node, int root, size_t elements) {
  std::vector<CrossStep> steps;
  if (nodes == 1 || elements == 0) return steps;
  const Range all = {0, elements};
  const Range none = {0, 0};
  const int relative = (node - root + nodes) % nodes;
  int distance = 1;
  while (distance < nodes) distance *= 2;
  // The lowest set bit of `relative` is the distance to the parent; below it are the children.
  const int parent_distance = relative == 0 ? distance : relative & -relative;
  if (relative != 0) {
    const int parent = (relative - parent_distance + root) % nodes;
    steps.push_back({CrossStep::Kind::kRoot, parent, none, all, false});
  }
  for (int d = parent_distance / 2; d >= 1; d /= 2) {
    if (relative + d < nodes) {
      steps.push_back({CrossStep::Kind::kRoot, (relative + d + root) % nodes, all, none, false});
    }
  }
  return steps;
}

int cross_tag(uint64_t block, CrossStep::Kind kind) {
  return static_cast<int>(block % 4096) * 8 + static_cast<int>(kind);
}

}  // namespace hvd
