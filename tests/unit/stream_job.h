// SPDX-License-Identifier: Apache-2.0
//
// A job of streams without engines: its ranks are threads of this process over plain memory and an
// in-memory channel, and the schedule is what the test says. What every rank must get is worked out
// from everybody's input, plainly.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "libhvd/coll/stream.h"
#include "tests/random.h"

namespace hvd::test {

using Bytes = std::vector<char>;

// A batch of the schedule. Sizes are those of its tensors.
struct Item {
  OpKind kind = OpKind::kAllreduce;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  WireType wire = WireType::kOwn;
  std::vector<int> members;  // ranks
  int root = 0;              // rank
  int joined = -1;           // a rank that has nothing: zeros, and no result
  Scale before;
  Scale after;
  std::vector<size_t> elements;           // allreduce, broadcast
  std::vector<size_t> row_elements;       // else: of a row; and rows:
  std::vector<std::vector<size_t>> rows;  // reducescatter: [0][tensor]; allgather: [member][tensor]
  // alltoall: [from][to * tensors + tensor]
  // Of the inputs: kSame, members have the same; kOrthogonal, each element is one member's only.
  enum class Pattern { kRandom, kSame, kOrthogonal } pattern = Pattern::kRandom;
  uint64_t seed = 0;         // items with the same have the same inputs; 0: like nobody else
  uint64_t first_block = 0;  // set by the job

  size_t tensors() const {
    return kind == OpKind::kAllreduce || kind == OpKind::kBroadcast ? elements.size()
                                                                    : row_elements.size();
  }
  std::string text() const;
};

// Elements of tensor `tensor` that the member with this index puts in.
size_t elements_of(const Item& item, int member, size_t tensor);
// Its input: numbers of which hardly two are alike, few enough bits for products of them.
Bytes input_of(const Item& item, int member, size_t tensor);

// What the member must get; Adasum and a lower wire precision are compared otherwise.
Bytes result_of(const Item& item, const Layout& layout, int member, size_t tensor);

class FakeFabric;

class StreamJob {
 public:
  struct Options {
    size_t block_bytes = 4096;
    int slots = 3;
    int abandon_after = -1;  // steps, on every rank
  };
  StreamJob(const std::vector<int>& node_of_rank, Options options);

  // Runs the schedule on a thread per rank. "" or what went wrong; not whether results are right.
  std::string run(std::vector<Item> schedule);

  const Layout& layout() const { return layout_; }
  const std::vector<Item>& schedule() const { return schedule_; }
  // The result of a tensor of item `item` on the member with this index.
  const Bytes& output(size_t item, int member, size_t tensor) const;
  // "" or the first result that is not what it must be, bit by bit. Adasum is left out, and what
  // went between nodes in a lower precision: of these all members must have the same.
  std::string wrong_results() const;

 private:
  struct Rank;
  void number_blocks();
  Batch batch_of(const Item& item, int rank, size_t number);
  std::string run_rank(int rank);
  void collect(const Batch& batch, int rank);

  Layout layout_;
  Options options_;
  std::vector<Item> schedule_;
  uint64_t next_block_ = 0;
  std::shared_ptr<FakeFabric> fabric_;
  std::vector<std::shared_ptr<Rank>> ranks_;
  std::vector<std::vector<std::vector<Bytes>>> outputs_;  // [item][member][tensor]
};

// Items of random kinds and teams of a job of this layout.
std::vector<Item> random_schedule(Random* random, const Layout& layout, int items);

}  // namespace hvd::test
