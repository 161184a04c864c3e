// SPDX-License-Identifier: Apache-2.0
//
// A batch as one rank has it: the plan and this rank's own tensors, as one virtual concatenation.
#pragma once

#include <cstddef>
#include <vector>

#include "libhvd/coll/plan.h"
#include "libhvd/data/kernels.h"

namespace hvd {

// One tensor of a batch. Memory belongs to the user until the batch is done.
struct Segment {
  const char* input = nullptr;
  char* output = nullptr;
  size_t elements = 0;
  Scale before;         // applied to the input
  Scale after;          // applied to the result
  uint64_t cookie = 0;  // the engine's handle
};

class Batch {
 public:
  Batch(BatchPlan plan, std::vector<Segment> segments);

  const BatchPlan& plan() const { return plan_; }
  const std::vector<Segment>& segments() const { return segments_; }

  // Elements of `block` (absolute) from the user's tensors to `slot`, scaled by `before`; but not
  // those of `skip`, which nobody else reads.
  void pack(uint64_t block, Range skip, char* slot) const;
  // result[shard] = the sum over `count` slots, in order. Slot `me` is this rank's own and was
  // packed without the shard: that comes from the user's tensors.
  void reduce(uint64_t block, Range shard, char* const* slots, int count, int me,
              char* result) const;
  // From `slot` to the user's tensors, scaled by `after`.
  void unpack(uint64_t block, const char* slot) const;
  // The sum over `count` slots, in order, to the user's tensors, scaled by `after`. Slot `me` is
  // this rank's own.
  void sum(uint64_t block, const char* const* slots, int count, int me) const;

 private:
  // Calls fn(segment, first element within it, offset in the block in bytes, elements) for each
  // piece of a tensor that lies in `part` of the block, cut to at most so many bytes.
  template <typename Fn>
  void for_each_piece(uint64_t block, Range part, size_t most_bytes, Fn fn) const;
  Range all_of(uint64_t block) const { return {0, plan_.elements_of(block)}; }

  BatchPlan plan_;
  std::vector<Segment> segments_;
  std::vector<size_t> begins_;  // by segment: its first element in the concatenation
};

}  // namespace hvd
