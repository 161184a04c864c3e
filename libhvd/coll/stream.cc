// SPDX-License-Identifier: Apache-2.0
//
// See stream.h. Each stage has a cursor that walks over the blocks of all batches in order, so the
// pipeline does not drain between batches.
//
// What a block needs, by stage (n local ranks, s owners = local ranks 0..s-1):
//   pack    slot free: done >= b+1-slots of all n         (broadcast: the root only; an owner packs
//           all but its own shard, which it reads from the user's tensors when it reduces)
//   reduce  allreduce: packed > b of all n; broadcast: on the root's node packed > b of the root,
//           elsewhere the result slot is free              (owners only)
//   cross   its own messages                               (owners only)
//   unpack  direct: packed > b of all n (broadcast: of the root); else reduced > b of the s owners
#include "libhvd/coll/stream.h"

namespace hvd {
namespace {

size_t page_align(size_t n) { return (n + 4095) / 4096 * 4096; }

}  // namespace

size_t Stream::bytes(int local_size, size_t block_bytes, int slots) {
  const size_t n = static_cast<size_t>(local_size);
  return page_align(n * sizeof(Flags)) + (n + 1) * static_cast<size_t>(slots) * block_bytes;
}

Stream::Stream(const Geometry& geometry, char* base, Channel* channel,
               std::vector<std::vector<int>> ranks_by_node, std::function<void()> rouse)
    : geometry_(geometry),
      flags_(reinterpret_cast<Flags*>(base)),
      slots_(base + page_align(static_cast<size_t>(geometry.local_size) * sizeof(Flags))),
      channel_(channel),
      ranks_by_node_(std::move(ranks_by_node)),
      rouse_(std::move(rouse)),
      crossings_(static_cast<size_t>(geometry.slots)) {
  if (geometry_.nodes > 1 && geometry_.local_rank < geometry_.max_shards) {
    for (const auto& ranks : ranks_by_node_) {
      owner_of_node_.push_back(ranks[static_cast<size_t>(geometry_.local_rank)]);
    }
    scratch_.reset(new char[static_cast<size_t>(geometry_.slots) * geometry_.block_bytes]);
  }
}

void Stream::add(Batch batch) {
  if (abandoned_) return;
  // A cursor that stands behind everything so far stands on the new batch now.
  const uint64_t number = first_batch_ + batches_.size();
  for (Cursor* cursor : {&pack_, &reduce_, &cross_, &unpack_}) {
    if (cursor->batch == number) cursor->block = batch.plan().first_block;
  }
  batches_.push_back(std::move(batch));
}

const Batch* Stream::at(const Cursor& cursor) const {
  const uint64_t index = cursor.batch - first_batch_;
  return index < batches_.size() ? &batches_[index] : nullptr;
}

void Stream::next(Cursor* cursor) const {
  const BatchPlan& plan = at(*cursor)->plan();
  if (++cursor->block < plan.first_block + plan.blocks) return;
  ++cursor->batch;
  if (const Batch* batch = at(*cursor)) cursor->block = batch->plan().first_block;
}

Status Stream::step(bool* moved, const std::function<void(const Batch&)>& finished) {
  if (batches_.empty()) return ok_status();
  if (unpack_one(finished)) *moved = true;
  if (Status s = cross_some(moved); !s.ok()) return s;
  if (Status s = reduce_one(moved); !s.ok()) return s;
  if (pack_one()) *moved = true;
  return ok_status();
}

bool Stream::pack_one() {
  const Batch* batch = at(pack_);
  if (batch == nullptr) return false;
  const BatchPlan& plan = batch->plan();
  const uint64_t block = pack_.block;
  if (plan.kind == OpKind::kBroadcast) {
    const bool root = plan.root_node == geometry_.node && plan.root_local == geometry_.local_rank;
    if (root) {
      if (!slot_free(block)) return false;
      batch->pack(block, Range(), slot(geometry_.local_rank, block));
      flags_[geometry_.local_rank].packed.store(block + 1, std::memory_order_seq_cst);
      rouse_();
    }
  } else {
    if (!slot_free(block)) return false;
    Range own;
    if (!plan.direct && geometry_.local_rank < plan.shards) {
      own = shard_range(plan.elements_of(block), plan.shards, geometry_.local_rank);
    }
    batch->pack(block, own, slot(geometry_.local_rank, block));
    post(&Flags::packed, block + 1, geometry_.local_size);
  }
  next(&pack_);
  return true;
}

Status Stream::reduce_one(bool* moved) {
  const Batch* batch = at(reduce_);
  if (batch == nullptr) return ok_status();
  const BatchPlan& plan = batch->plan();
  const uint64_t block = reduce_.block;
  if (plan.direct || geometry_.local_rank >= plan.shards) {
    next(&reduce_);
    *moved = true;
    return ok_status();
  }
  const Range shard = shard_range(plan.elements_of(block), plan.shards, geometry_.local_rank);
  if (plan.kind == OpKind::kBroadcast) {
    if (plan.root_node == geometry_.node) {
      const auto& packed = flags_[plan.root_local].packed;
      if (packed.load(std::memory_order_seq_cst) <= block) return ok_status();
    } else if (!slot_free(block)) {
      return ok_status();
    }
  } else {
    if (!all(&Flags::packed, block + 1, geometry_.local_size)) return ok_status();
    std::vector<char*> slots(static_cast<size_t>(geometry_.local_size));
    for (int i = 0; i < geometry_.local_size; ++i) slots[i] = slot(i, block);
    batch->reduce(block, shard, slots.data(), geometry_.local_size, geometry_.local_rank,
                  result(block));
  }
  start_crossing(*batch, block, shard);
  next(&reduce_);
  *moved = true;
  return ok_status();
}

void Stream::start_crossing(const Batch& batch, uint64_t block, Range shard) {
  const BatchPlan& plan = batch.plan();
  const size_t size = size_of(plan.type);
  std::vector<CrossStep> steps;
  if (plan.kind == OpKind::kBroadcast) {
    steps = plan_cross_broadcast(geometry_.nodes, geometry_.node, plan.root_node, shard.size());
  } else {
    steps = plan_cross_sum(geometry_.nodes, geometry_.node, shard.size(), size);
  }
  const size_t index = block % static_cast<uint64_t>(geometry_.slots);
  Crossing& crossing = crossings_[index];
  crossing.done = false;
  crossing.run.start(channel_, &owner_of_node_, block, std::move(steps), plan.type,
                     source(plan, block) + shard.begin * size,
                     scratch_.get() + index * geometry_.block_bytes);
}

Status Stream::cross_some(bool* moved) {
  if (must_poll()) {
    if (Status s = channel_->progress(); !s.ok()) return s;
  }
  // All blocks in flight advance; the counter follows in order.
  Cursor look = cross_;
  while (at(look) != nullptr && (look.batch != reduce_.batch || look.block != reduce_.block)) {
    const BatchPlan& plan = at(look)->plan();
    if (!plan.direct && geometry_.local_rank < plan.shards) {
      Crossing& crossing = crossings_[look.block % static_cast<uint64_t>(geometry_.slots)];
      if (!crossing.done) {
        Expected<bool> done = crossing.run.advance(moved);
        if (!done.ok()) return done.status();
        crossing.done = *done;
      }
    }
    next(&look);
  }
  while (at(cross_) != nullptr &&
         (cross_.batch != reduce_.batch || cross_.block != reduce_.block)) {
    const BatchPlan& plan = at(cross_)->plan();
    if (!plan.direct && geometry_.local_rank < plan.shards) {
      if (!crossings_[cross_.block % static_cast<uint64_t>(geometry_.slots)].done) break;
      post(&Flags::reduced, cross_.block + 1, plan.shards);
      *moved = true;
    }
    next(&cross_);
  }
  return ok_status();
}

bool Stream::unpack_one(const std::function<void(const Batch&)>& finished) {
  const Batch* batch = at(unpack_);
  if (batch == nullptr) return false;
  const BatchPlan& plan = batch->plan();
  const uint64_t block = unpack_.block;
  const bool broadcast = plan.kind == OpKind::kBroadcast;
  if (plan.direct && !broadcast) {
    if (!all(&Flags::packed, block + 1, geometry_.local_size)) return false;
    std::vector<const char*> slots(static_cast<size_t>(geometry_.local_size));
    for (int i = 0; i < geometry_.local_size; ++i) slots[i] = slot(i, block);
    batch->sum(block, slots.data(), geometry_.local_size, geometry_.local_rank);
  } else {
    if (plan.direct) {
      const auto& packed = flags_[plan.root_local].packed;
      if (packed.load(std::memory_order_seq_cst) <= block) return false;
    } else if (!all(&Flags::reduced, block + 1, plan.shards)) {
      return false;
    }
    const bool root =
        broadcast && plan.root_node == geometry_.node && plan.root_local == geometry_.local_rank;
    if (!root) batch->unpack(block, source(plan, block));
  }
  const bool last = block + 1 == plan.first_block + plan.blocks;
  post(&Flags::done, block + 1, geometry_.local_size);
  next(&unpack_);
  if (last) {
    // The cursors of stages that this rank has no part in may still stand on this batch.
    for (Cursor* cursor : {&pack_, &reduce_, &cross_}) {
      if (cursor->batch < unpack_.batch) *cursor = unpack_;
    }
    finished(*batch);
    batches_.pop_front();
    ++first_batch_;
    ++finished_;
  }
  return true;
}

bool Stream::all(Counter counter, uint64_t at_least, int count) const {
  for (int i = 0; i < count; ++i) {
    if ((flags_[i].*counter).load(std::memory_order_seq_cst) < at_least) return false;
  }
  return true;
}

void Stream::post(Counter counter, uint64_t value, int count) {
  (flags_[geometry_.local_rank].*counter).store(value, std::memory_order_seq_cst);
  if (geometry_.local_size > 1 && all(counter, value, count)) rouse_();
}

bool Stream::slot_free(uint64_t block) const {
  const uint64_t slots = static_cast<uint64_t>(geometry_.slots);
  return block < slots || all(&Flags::done, block + 1 - slots, geometry_.local_size);
}

char* Stream::slot(int local_rank, uint64_t block) const {
  const uint64_t slots = static_cast<uint64_t>(geometry_.slots);
  return slots_ +
         (static_cast<uint64_t>(local_rank) * slots + block % slots) * geometry_.block_bytes;
}

// Where a block's final elements are: the root's own slot on the node of a broadcast's root, the
// result slot everywhere else.
char* Stream::source(const BatchPlan& plan, uint64_t block) const {
  if (plan.kind == OpKind::kBroadcast && plan.root_node == geometry_.node) {
    return slot(plan.root_local, block);
  }
  return result(block);
}

Status Stream::flush() {
  return channel_ == nullptr || abandoned_ ? ok_status() : channel_->progress();
}

void Stream::abandon() {
  abandoned_ = true;
  batches_.clear();
  // Messages under way may still write here: what they know stays where it is.
  if (channel_ != nullptr && channel_->outstanding() > 0) static_cast<void>(scratch_.release());
}

}  // namespace hvd
