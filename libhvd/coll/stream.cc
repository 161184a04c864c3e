// SPDX-License-Identifier: Apache-2.0
//
// See stream.h.
#include "libhvd/coll/stream.h"

#include <utility>

namespace hvd {

Stream::Stream(const Geometry& geometry, char* base, Channel* channel, std::function<void()> rouse,
               std::function<void(int)> wake)
    : slots_(geometry, base, std::move(rouse), std::move(wake)),
      uses_(geometry.slots),
      channel_(channel),
      pipeline_(&slots_, &turns_) {}

void Stream::add(Batch batch) {
  if (abandoned_) return;
  const BatchPlan& plan = batch.plan();
  if (plan.blocks == 0) {
    empty_.push_back(std::move(batch));
    return;
  }
  std::vector<SlotUse> before = uses_.before(plan.first_block, plan.end_block());
  uses_.note(batch.shared_team(), plan.first_block, plan.end_block());
  turns_.push({std::move(batch), std::move(before)});
  pipeline_.added();
}

void Stream::pass(const std::shared_ptr<const Team>& team, uint64_t first_block,
                  uint64_t end_block) {
  uses_.note(team, first_block, end_block);
  ++finished_;
}

Status Stream::step(bool* moved, const std::function<void(const Batch&)>& finished) {
  for (const Batch& batch : std::exchange(empty_, {})) {
    finished(batch);
    ++finished_;
    *moved = true;
  }
  if (turns_.empty()) return ok_status();
  if (must_poll()) {
    if (Status s = channel_->progress(); !s.ok()) return s;
  }
  bool over = false;
  if (Status s = pipeline_.step(channel_, moved, &over); !s.ok()) return s;
  if (over) {
    finished(turns_.front()->batch);
    turns_.pop();
    ++finished_;
  }
  return ok_status();
}

Status Stream::flush() {
  return channel_ == nullptr || abandoned_ ? ok_status() : channel_->progress();
}

void Stream::abandon() {
  abandoned_ = true;
  turns_.clear();
  empty_.clear();
  // Messages under way may still write here: what they know stays where it is.
  if (channel_ != nullptr && channel_->outstanding() > 0) pipeline_.leak_scratch();
}

}  // namespace hvd
