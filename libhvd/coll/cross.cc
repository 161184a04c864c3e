// SPDX-License-Identifier: Apache-2.0
//
// See cross.h.
#include "libhvd/coll/cross.h"

#include "libhvd/data/kernels.h"

namespace hvd {

void CrossRun::start(Channel* channel, const Team* team, uint64_t block,
                     std::vector<CrossStep> steps, DataType type, ReduceOp op, char* data,
                     char* scratch) {
  channel_ = channel;
  team_ = team;
  block_ = block;
  steps_ = std::move(steps);
  at_ = 0;
  begun_ = false;
  type_ = type;
  op_ = op;
  data_ = data;
  scratch_ = scratch;
}

Expected<bool> CrossRun::advance(bool* moved) {
  while (at_ < steps_.size()) {
    if (!begun_) {
      if (Status s = begin_step(); !s.ok()) return s;
      begun_ = true;
      *moved = true;
    }
    for (Channel::Request* request : {&receive_, &send_}) {
      if (*request == Channel::kNone) continue;
      if (channel_->done(*request)) *request = Channel::kNone;
    }
    if (receive_ != Channel::kNone || send_ != Channel::kNone) return false;
    end_step();
    begun_ = false;
    ++at_;
    *moved = true;
  }
  return true;
}

Status CrossRun::begin_step() {
  const CrossStep& step = steps_[at_];
  const size_t size = size_of(type_);
  const int rank = team_->ranks_by_node[step.peer][team_->local_index];
  const int tag = cross_tag(block_, step.kind);
  if (step.receive.size() > 0) {
    char* to = (step.reduce ? scratch_ : data_) + step.receive.begin * size;
    Expected<Channel::Request> request =
        channel_->receive(rank, tag, to, step.receive.size() * size);
    if (!request.ok()) return request.status();
    receive_ = *request;
  }
  if (step.send.size() > 0) {
    Expected<Channel::Request> request =
        channel_->send(rank, tag, data_ + step.send.begin * size, step.send.size() * size);
    if (!request.ok()) return request.status();
    send_ = *request;
  }
  return ok_status();
}

void CrossRun::end_step() {
  const CrossStep& step = steps_[at_];
  if (!step.reduce || step.receive.size() == 0) return;
  const size_t offset = step.receive.begin * size_of(type_);
  const void* from[2] = {data_ + offset, scratch_ + offset};
  kernels().reduce(type_, op_, data_ + offset, from, 2, step.receive.size());
}

}  // namespace hvd
