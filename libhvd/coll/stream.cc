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
  if (Status s = step_front(moved, &over); !s.ok()) return s;
  if (over) {
    const bool exclusive = turns_.front()->batch.plan().exclusive;
    finished(turns_.front()->batch);
    turns_.pop();
    ++finished_;
    if (exclusive) pipeline_.passed();
  }
  return ok_status();
}

Status Stream::step_front(bool* moved, bool* over) {
  if (turns_.front()->batch.plan().exclusive) return step_exchange(moved, over);
  return pipeline_.step(channel_, moved, over);
}

Status Stream::step_exchange(bool* moved, bool* over) {
  const Turn& turn = *turns_.front();
  const Team& team = turn.batch.team();
  if (exchange_ == nullptr) {
    for (const SlotUse& use : turn.before) {
      if (use.team != nullptr && !slots_.all(&Slots::Flags::done, use.done, *use.team)) {
        return ok_status();
      }
    }
    exchange_ = make_exchange(&slots_, channel_, turn.batch);
    *moved = true;
  }
  const StageClock clock(turn.batch.times(), &StageTimes::cross);
  Expected<bool> done = exchange_->step(moved);
  if (!done.ok()) return done.status();
  if (!*done) return ok_status();
  exchange_.reset();
  for (auto counter : {&Slots::Flags::packed, &Slots::Flags::reduced, &Slots::Flags::done}) {
    slots_.post(counter, turn.batch.plan().end_block(), team, team.local_size());
  }
  *moved = *over = true;
  return ok_status();
}

Status Stream::flush() {
  return channel_ == nullptr || abandoned_ ? ok_status() : channel_->progress();
}

void Stream::abandon() {
  abandoned_ = true;
  if (channel_ != nullptr && channel_->outstanding() > 0) {
    // Messages under way may still come in: what they write to stays where it is.
    pipeline_.abandon(channel_);
    if (exchange_ != nullptr) exchange_->abandon();
    channel_->keep(std::shared_ptr<Exchange>(std::move(exchange_)));
  }
  exchange_.reset();
  turns_.clear();
  empty_.clear();
}

}  // namespace hvd
