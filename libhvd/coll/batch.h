// SPDX-License-Identifier: Apache-2.0
//
// A batch as one rank has it: the plan and this rank's own tensors, as one virtual concatenation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "libhvd/coll/plan.h"
#include "libhvd/coll/stage_times.h"
#include "libhvd/data/kernels.h"

namespace hvd {

// Bytes at a multiple of 64, not initialised.
class AlignedBytes {
 public:
  // At least one byte is there afterwards, or std::bad_alloc is thrown.
  void allocate(size_t bytes);
  char* get() const { return bytes_.get(); }

 private:
  static constexpr std::align_val_t kAlign{64};
  struct Free {
    void operator()(char* bytes) const;
  };
  std::unique_ptr<char, Free> bytes_;
};

// The rows of an allgather's or alltoall's tensor. The result is the rows of all members, in their
// order.
struct Ragged {
  size_t row_bytes = 0;
  int64_t rows = 0;                // allgather: mine
  std::vector<int64_t> send_rows;  // alltoall: by member index, those that the member gets

  // Set by the time the batch is done.
  std::vector<int64_t> rows_from;  // by member index
  int64_t total_rows = 0;
  AlignedBytes data;
};

// One tensor of a batch. Memory belongs to the user until the batch is done.
struct Segment {
  const char* input = nullptr;  // null: zeros
  char* output = nullptr;       // null: the result is dropped
  size_t elements = 0;          // of the input
  Scale before;                 // applied to the input
  Scale after;                  // applied to the result
  // Elements of the result that are wanted: output[0] is the first of them.
  Range keep = {0, SIZE_MAX};
  size_t rows = 0;           // reducescatter: of the whole tensor
  Ragged* ragged = nullptr;  // allgather, alltoall: instead of `output`
  uint64_t cookie = 0;       // the engine's handle
};

class Batch {
 public:
  // `times`: where to note when it is in which stage; may be null.
  Batch(std::shared_ptr<const Team> team, BatchPlan plan, std::vector<Segment> segments,
        std::shared_ptr<StageTimes> times = nullptr);

  const Team& team() const { return *team_; }
  const std::shared_ptr<const Team>& shared_team() const { return team_; }
  const BatchPlan& plan() const { return plan_; }
  const std::vector<Segment>& segments() const { return segments_; }
  StageTimes* times() const { return times_.get(); }

  // Elements of `block` (absolute) from the user's tensors to `slot`, scaled by `before`; but not
  // those of `skip`, which nobody else reads.
  void pack(uint64_t block, Range skip, char* slot) const;
  // result[shard] = what `count` slots make together, in order. Slot `me` is this rank's own and
  // was packed without the shard: that comes from the user's tensors.
  void reduce(uint64_t block, Range shard, char* const* slots, int count, int me,
              char* result) const;
  // What is wanted of it from `slot` to the user's tensors, scaled by `after`; or only to those
  // that are not in place.
  void unpack(uint64_t block, const char* slot, bool not_in_place) const;
  // What `count` slots make together, in order, to the user's tensors, scaled by `after`; what is
  // wanted of it. Slot `me` is this rank's own.
  void reduce_out(uint64_t block, const char* const* slots, int count, int me) const;

  // Of a reducescatter, by node of the team: the elements of `shard` that members there keep,
  // counted from its begin, and what lies between them. Nothing for other kinds: all of them.
  std::vector<Range> needs(uint64_t block, Range shard) const;

 private:
  // Calls fn(segment, first element within it, offset in the block in bytes, elements) for each
  // piece of a tensor that lies in `part` of the block, cut to at most so many bytes.
  template <typename Fn>
  void for_each_piece(uint64_t block, Range part, size_t most_bytes, Fn fn) const;
  // Elements of the input, or zeros, scaled by `before`.
  void take(const Segment& s, size_t within, size_t n, size_t size, char* to) const;
  Range all_of(uint64_t block) const { return {0, plan_.elements_of(block)}; }

  std::shared_ptr<const Team> team_;
  BatchPlan plan_;
  std::vector<Segment> segments_;
  std::shared_ptr<StageTimes> times_;
  std::vector<size_t> begins_;  // by segment: its first element in the concatenation
};

}  // namespace hvd
