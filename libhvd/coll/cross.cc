// SPDX-License-Identifier: Apache-2.0
//
// See cross.h.
#include "libhvd/coll/cross.h"

#include <algorithm>

#include "libhvd/data/kernels.h"

namespace hvd {

void CrossRun::start(const Crossing& crossing, std::vector<CrossStep> steps) {
  crossing_ = crossing;
  steps_ = std::move(steps);
  at_ = 0;
  begun_ = false;
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
      if (crossing_.channel->done(*request)) *request = Channel::kNone;
    }
    if (receive_ != Channel::kNone || send_ != Channel::kNone) return false;
    end_step();
    begun_ = false;
    ++at_;
    *moved = true;
  }
  return true;
}

DataType CrossRun::wire_type() const {
  switch (crossing_.wire) {
    case WireType::kOwn:
      return crossing_.type;
    case WireType::kBfloat16:
      return DataType::kBfloat16;
    case WireType::kFloat16:
      return DataType::kFloat16;
  }
  return crossing_.type;
}

// Where a message comes in. What goes out in a lower precision has the first half of the scratch
// block, what comes in the second.
char* CrossRun::incoming(const CrossStep& step) const {
  if (rounds()) return crossing_.scratch + crossing_.elements * size_of(wire_type());
  char* to = step.reduce ? crossing_.scratch : crossing_.data;
  return to + step.receive.begin * size_of(crossing_.type);
}

Status CrossRun::begin_step() {
  const CrossStep& step = steps_[at_];
  const size_t size = size_of(wire_type());
  const int rank = crossing_.team->ranks_by_node[step.peer][crossing_.team->local_index];
  const int tag = cross_tag(crossing_.block, step.kind);
  if (step.receive.size() > 0) {
    Expected<Channel::Request> request =
        crossing_.channel->receive(rank, tag, incoming(step), step.receive.size() * size);
    if (!request.ok()) return request.status();
    receive_ = *request;
  }
  if (step.send.size() > 0) {
    const char* from = crossing_.data + step.send.begin * size_of(crossing_.type);
    if (rounds()) {
      kernels().convert(wire_type(), crossing_.scratch, crossing_.type, from, step.send.size());
      from = crossing_.scratch;
    }
    Expected<Channel::Request> request =
        crossing_.channel->send(rank, tag, from, step.send.size() * size);
    if (!request.ok()) return request.status();
    send_ = *request;
  }
  return ok_status();
}

void CrossRun::end_step() {
  const CrossStep& step = steps_[at_];
  if (step.receive.size() == 0) return;
  char* to = crossing_.data + step.receive.begin * size_of(crossing_.type);
  if (step.reduce && rounds()) {
    end_reduced(step);
  } else if (step.reduce) {
    const void* from[2] = {to, incoming(step)};
    kernels().reduce(crossing_.type, crossing_.op, to, from, 2, step.receive.size());
  } else if (rounds()) {
    kernels().convert(crossing_.type, to, wire_type(), incoming(step), step.receive.size());
  }
}

// The sum of two rounded numbers; rounded, too, if it is the last.
void CrossRun::end_reduced(const CrossStep& step) {
  constexpr size_t kPiece = 1024;
  alignas(64) char narrow[kPiece * 2];
  alignas(64) char wide[kPiece * 8];
  const DataType type = crossing_.type;
  const DataType wire = wire_type();
  const bool last = at_ + 1 == steps_.size() || !steps_[at_ + 1].reduce;
  const auto round = [&](char* data, size_t n) {
    kernels().convert(wire, narrow, type, data, n);
    kernels().convert(type, data, wire, narrow, n);
  };
  for (size_t at = 0; at < step.receive.size(); at += kPiece) {
    const size_t n = std::min(kPiece, step.receive.size() - at);
    char* own = crossing_.data + (step.receive.begin + at) * size_of(type);
    round(own, n);
    kernels().convert(type, wide, wire, incoming(step) + at * size_of(wire), n);
    const void* from[2] = {own, wide};
    kernels().reduce(type, crossing_.op, own, from, 2, n);
    if (last) round(own, n);
  }
}

}  // namespace hvd
