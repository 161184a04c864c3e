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

class CrossRun {
 public:
  // Received elements are joined with the own ones by `op`. `data`: the shard, of `type`;
  // `scratch`: as many bytes, for what comes in. My peers are those with my place among the members
  // of their nodes. All stay valid until done.
  void start(Channel* channel, const Team* team, uint64_t block, std::vector<CrossStep> steps,
             DataType type, ReduceOp op, char* data, char* scratch);

  // Does what can be done now. True once all steps are done; sets *moved if anything happened.
  Expected<bool> advance(bool* moved);

 private:
  Status begin_step();
  void end_step();

  Channel* channel_ = nullptr;
  const Team* team_ = nullptr;
  uint64_t block_ = 0;
  std::vector<CrossStep> steps_;
  size_t at_ = 0;
  bool begun_ = false;
  DataType type_ = DataType::kFloat32;
  ReduceOp op_ = ReduceOp::kSum;
  char* data_ = nullptr;
  char* scratch_ = nullptr;
  Channel::Request send_ = Channel::kNone;
  Channel::Request receive_ = Channel::kNone;
};

}  // namespace hvd
