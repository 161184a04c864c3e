// SPDX-License-Identifier: Apache-2.0
//
// See pipeline.h.
#include "libhvd/coll/pipeline.h"

namespace hvd {
namespace {

using Flags = Slots::Flags;

}  // namespace

Pipeline::Pipeline(Slots* slots, const Turns* turns)
    : slots_(slots),
      turns_(turns),
      runs_(static_cast<size_t>(slots->geometry().slots)),
      members_slots_(static_cast<size_t>(slots->geometry().local_size)) {}

void Pipeline::added() {
  // A cursor that stood behind everything stands on the new batch now.
  const uint64_t number = turns_->end() - 1;
  for (Cursor* cursor : {&pack_, &reduce_, &cross_, &unpack_}) {
    if (cursor->turn == number) cursor->block = turns_->at(number)->batch.plan().first_block;
  }
}

void Pipeline::passed() {
  for (Cursor* cursor : {&pack_, &reduce_, &cross_, &unpack_}) {
    cursor->turn = turns_->first();
    if (const Turn* turn = turns_->front()) cursor->block = turn->batch.plan().first_block;
  }
}

const Turn* Pipeline::at(const Cursor& cursor) const {
  const Turn* turn = turns_->at(cursor.turn);
  return turn == nullptr || turn->batch.plan().exclusive ? nullptr : turn;
}

void Pipeline::next(Cursor* cursor) const {
  if (++cursor->block < at(*cursor)->batch.plan().end_block()) return;
  ++cursor->turn;
  if (const Turn* turn = turns_->at(cursor->turn)) cursor->block = turn->batch.plan().first_block;
}

Status Pipeline::step(Channel* channel, bool* moved, bool* over) {
  if (unpack_one(over)) *moved = true;
  if (*over) return ok_status();
  if (Status s = cross_some(moved); !s.ok()) return s;
  if (reduce_one(channel)) *moved = true;
  if (pack_one()) *moved = true;
  return ok_status();
}

bool Pipeline::owner(const Batch& batch) const {
  return !batch.plan().direct && batch.team().local_index < batch.plan().shards;
}

bool Pipeline::pack_one() {
  const Turn* turn = at(pack_);
  if (turn == nullptr) return false;
  const Batch& batch = turn->batch;
  const uint64_t block = pack_.block;
  StageTimes* const times = batch.times();
  char* slot = slots_->slot(slots_->geometry().local_rank, block);
  if (batch.plan().kind == OpKind::kBroadcast) {
    if (root(batch)) {
      if (!slot_free(*turn, block)) return false;
      const StageClock clock(times, &StageTimes::pack);
      batch.pack(block, Range(), slot);
      slots_->announce(&Flags::packed, block + 1);
    }
  } else {
    if (!slot_free(*turn, block)) return false;
    const StageClock clock(times, &StageTimes::pack);
    Range own;
    if (owner(batch)) {
      own = shard_range(batch.plan().elements_of(block), batch.plan().shards,
                        batch.team().local_index);
    }
    batch.pack(block, own, slot);
    slots_->post(&Flags::packed, block + 1, batch.team(), batch.team().local_size());
  }
  next(&pack_);
  return true;
}

bool Pipeline::reduce_one(Channel* channel) {
  const Turn* turn = at(reduce_);
  if (turn == nullptr) return false;
  const Batch& batch = turn->batch;
  const BatchPlan& plan = batch.plan();
  const Team& team = batch.team();
  const uint64_t block = reduce_.block;
  if (owner(batch)) {
    const Range shard = shard_range(plan.elements_of(block), plan.shards, team.local_index);
    if (plan.kind == OpKind::kBroadcast) {
      const bool ready = plan.root_node == team.node
                             ? slots_->one(&Flags::packed, block + 1, root_rank(batch))
                             : slot_free(*turn, block);
      if (!ready) return false;
    } else {
      if (!slots_->all(&Flags::packed, block + 1, team)) return false;
      const StageClock clock(batch.times(), &StageTimes::reduce);
      point_at_slots(team, block);
      batch.reduce(block, shard, members_slots_.data(), team.local_size(), team.local_index,
                   slots_->result(block));
    }
    start_crossing(channel, batch, block, shard);
  }
  next(&reduce_);
  return true;
}

void Pipeline::start_crossing(Channel* channel, const Batch& batch, uint64_t block, Range shard) {
  const BatchPlan& plan = batch.plan();
  const Team& team = batch.team();
  Run& run = runs_[block % runs_.size()];
  run.done = team.nodes == 1;
  if (run.done) return;
  const size_t size = size_of(plan.type);
  const size_t block_bytes = slots_->geometry().block_bytes;
  if (scratch_ == nullptr) scratch_.reset(new char[runs_.size() * block_bytes]);
  std::vector<CrossStep> steps;
  if (plan.kind == OpKind::kBroadcast) {
    steps = plan_cross_broadcast(team.nodes, team.node, plan.root_node, shard.size());
  } else {
    const std::vector<Range> needs = batch.needs(block, shard);
    steps =
        plan_cross_sum(team.nodes, team.node, shard.size(), size, needs.empty() ? nullptr : &needs);
  }
  Crossing crossing;
  crossing.channel = channel;
  crossing.team = &team;
  crossing.block = block;
  crossing.type = plan.type;
  crossing.op = plan.op;
  crossing.wire = plan.wire;
  crossing.elements = shard.size();
  crossing.data = source(batch, block) + shard.begin * size;
  crossing.scratch = scratch_.get() + block % runs_.size() * block_bytes;
  run.run.start(crossing, std::move(steps));
}

Status Pipeline::cross_some(bool* moved) {
  // All blocks in flight advance; the counter follows in order.
  for (Cursor look = cross_; at(look) != nullptr && !same(look, reduce_); next(&look)) {
    Run& run = runs_[look.block % runs_.size()];
    if (!owner(at(look)->batch) || run.done) continue;
    const StageClock clock(at(look)->batch.times(), &StageTimes::cross);
    Expected<bool> done = run.run.advance(moved);
    if (!done.ok()) return done.status();
    run.done = *done;
  }
  for (; at(cross_) != nullptr && !same(cross_, reduce_); next(&cross_)) {
    const Batch& batch = at(cross_)->batch;
    if (!owner(batch)) continue;
    if (!runs_[cross_.block % runs_.size()].done) break;
    slots_->post(&Flags::reduced, cross_.block + 1, batch.team(), batch.plan().shards);
    *moved = true;
  }
  return ok_status();
}

bool Pipeline::unpack_one(bool* over) {
  const Turn* turn = at(unpack_);
  if (turn == nullptr) return false;
  const Batch& batch = turn->batch;
  const uint64_t block = unpack_.block;
  if (!unpack_block(batch, block)) return false;
  *over = block + 1 == batch.plan().end_block();
  slots_->post(&Flags::done, block + 1, batch.team(), batch.team().local_size());
  next(&unpack_);
  if (*over) {
    // The cursors of stages that this rank has no part in may still stand on this batch.
    for (Cursor* cursor : {&pack_, &reduce_, &cross_}) {
      if (cursor->turn < unpack_.turn) *cursor = unpack_;
    }
  }
  return true;
}

bool Pipeline::unpack_block(const Batch& batch, uint64_t block) {
  const BatchPlan& plan = batch.plan();
  const Team& team = batch.team();
  const bool broadcast = plan.kind == OpKind::kBroadcast;
  if (plan.direct && !broadcast) {
    if (!slots_->all(&Flags::packed, block + 1, team)) return false;
    const StageClock clock(batch.times(), &StageTimes::reduce);
    point_at_slots(team, block);
    batch.reduce_out(block, members_slots_.data(), team.local_size(), team.local_index);
    return true;
  }
  const bool ready = plan.direct ? slots_->one(&Flags::packed, block + 1, root_rank(batch))
                                 : slots_->all(&Flags::reduced, block + 1, team, plan.shards);
  if (!ready) return false;
  const StageClock clock(batch.times(), &StageTimes::unpack);
  // The root of a broadcast in place has it already.
  batch.unpack(block, source(batch, block), broadcast && root(batch));
  return true;
}

bool Pipeline::slot_free(const Turn& turn, uint64_t block) const {
  const uint64_t nth = block - turn.batch.plan().first_block;
  if (nth >= turn.before.size()) {
    return slots_->all(&Flags::done, block + 1 - runs_.size(), turn.batch.team());
  }
  const SlotUse& use = turn.before[nth];
  return use.team == nullptr || slots_->all(&Flags::done, use.done, *use.team);
}

// The local rank of a broadcast's root, on its node.
int Pipeline::root_rank(const Batch& batch) const {
  return batch.team().local_ranks[batch.plan().root_place];
}

bool Pipeline::root(const Batch& batch) const {
  const BatchPlan& plan = batch.plan();
  return plan.root_node == batch.team().node && plan.root_place == batch.team().local_index;
}

// Where a block's final elements are: the root's own slot on the node of a broadcast's root, the
// result slot everywhere else.
char* Pipeline::source(const Batch& batch, uint64_t block) const {
  const BatchPlan& plan = batch.plan();
  if (plan.kind == OpKind::kBroadcast && plan.root_node == batch.team().node) {
    return slots_->slot(root_rank(batch), block);
  }
  return slots_->result(block);
}

void Pipeline::point_at_slots(const Team& team, uint64_t block) {
  for (int i = 0; i < team.local_size(); ++i) {
    members_slots_[i] = slots_->slot(team.local_ranks[i], block);
  }
}

}  // namespace hvd
