// SPDX-License-Identifier: Apache-2.0
//
// The cross leg of one shard of one block: carries out the steps of a plan over the channel, one
// after the other, without ever waiting.
#pragma once

#include <vector>

#include "libhvd/coll/plan.h"
#include "libhvd/coll/team.h"
#include "libhvd/transport/channel.h"

namespace hvd {

// One shard on its way. All of it stays valid until it is done.
struct Crossing {
  Channel* channel = nullptr;
  const Team* team = nullptr;  // my peers are those with my place among the members of their nodes
  uint64_t block = 0;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  // joins what comes in with what is there
  WireType wire = WireType::kOwn;
  size_t elements = 0;
  char* data = nullptr;     // the shard
  char* scratch = nullptr;  // as many bytes
};

// With a lower wire precision elements travel in that. Both sides of a sum round what they put in,
// and who has summed rounds the result before it is told to anybody: so all nodes have the same
// bits, whichever steps the plan has.
class CrossRun {
 public:
  void start(const Crossing& crossing, std::vector<CrossStep> steps);

  // Does what can be done now. True once all steps are done; sets *moved if anything happened.
  Expected<bool> advance(bool* moved);

 private:
  Status begin_step();
  void end_step();
  void end_reduced(const CrossStep& step);
  bool rounds() const { return crossing_.wire != WireType::kOwn; }
  DataType wire_type() const;
  char* incoming(const CrossStep& step) const;

  Crossing crossing_;
  std::vector<CrossStep> steps_;
  size_t at_ = 0;
  bool begun_ = false;
  Channel::Request send_ = Channel::kNone;
  Channel::Request receive_ = Channel::kNone;
};

}  // namespace hvd
