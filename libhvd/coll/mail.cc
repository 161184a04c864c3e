// SPDX-License-Identifier: Apache-2.0
//
// See mail.h.
#include "libhvd/coll/mail.h"

#include <string.h>

#include <algorithm>
#include <new>

#include "libhvd/coll/plan.h"

namespace hvd {
namespace {

constexpr size_t kMessageBytes = 4 << 20;
constexpr int kMessagesPerLane = 4;
constexpr size_t kLine = 64;

}  // namespace

// Behind it lie box_bytes_ bytes. Bytes are counted for ever; byte i lies at i mod box_bytes_.
struct Mail::Box {
  alignas(kLine) std::atomic<uint64_t> written;
  alignas(kLine) std::atomic<uint64_t> read;
  char* bytes() { return reinterpret_cast<char*>(this + 1); }
};

Mail::Mail(Slots* slots, Channel* channel, const Team* team, uint64_t first_block)
    : slots_(slots),
      channel_(channel),
      team_(team),
      first_block_(first_block),
      tag_(cross_tag(first_block, CrossStep::Kind::kMail)),
      lanes_(2 * team->ranks.size()) {
  const int n = team->local_size();
  if (n > 1) {
    const size_t room = slots->memory_bytes() / static_cast<size_t>(n - 1) / kLine * kLine;
    box_bytes_ = room > sizeof(Box) ? room - sizeof(Box) : 0;
    for (int to = 0; box_bytes_ > 0 && to < n; ++to) {
      if (to != team->local_index) new (box(team->local_index, to)) Box();
    }
  }
  slots->post(&Slots::Flags::packed, first_block + 1, *team, n);
}

Mail::Box* Mail::box(int from, int to) const {
  const size_t number = static_cast<size_t>(to < from ? to : to - 1);
  return reinterpret_cast<Box*>(slots_->memory(team_->local_ranks[from]) +
                                number * (sizeof(Box) + box_bytes_));
}

Mail::Transfer Mail::send(int member, const void* data, size_t bytes) {
  return start(2 * member, static_cast<char*>(const_cast<void*>(data)), bytes);
}

Mail::Transfer Mail::receive(int member, void* data, size_t bytes) {
  return start(2 * member + 1, static_cast<char*>(data), bytes);
}

Mail::Transfer Mail::start(int number, char* data, size_t bytes) {
  int transfer = static_cast<int>(items_.size());
  if (free_.empty()) {
    items_.emplace_back();
  } else {
    transfer = free_.back();
    free_.pop_back();
  }
  items_[transfer] = Item{data, bytes, 0, 0, -1};
  if (bytes == 0) return transfer;
  Lane& lane = lanes_[number];
  (lane.first < 0 ? lane.first : items_[lane.last].next) = transfer;
  lane.last = transfer;
  if (!lane.active) active_.push_back(number);
  lane.active = true;
  return transfer;
}

bool Mail::done(Transfer transfer) {
  const Item& item = items_[transfer];
  if (item.at < item.bytes || item.flying > 0) return false;
  free_.push_back(transfer);
  return true;
}

Status Mail::step(bool* moved) {
  if (team_->local_size() > 1 && box_bytes_ == 0) {
    return error(Code::kInvalid,
                 "%d ranks on a node need more than %zu bytes of slots each for this. Set "
                 "HOROVOD_BLOCK_SIZE",
                 team_->local_size(), slots_->memory_bytes());
  }
  if (!open_) open_ = slots_->all(&Slots::Flags::packed, first_block_ + 1, *team_);
  land(moved);
  size_t budget = slots_->geometry().block_bytes;
  ++turn_;
  for (size_t i = 0; i < active_.size(); ++i) {
    const int number = active_[(turn_ + i) % active_.size()];
    if (!local(number / 2)) {
      if (Status s = fly(number, moved); !s.ok()) return s;
    } else if (open_ && budget > 0) {
      number % 2 == 0 ? put(number, &budget, moved) : take(number, &budget, moved);
    }
  }
  const auto idle = [this](int number) {
    lanes_[number].active = lanes_[number].first >= 0;
    return !lanes_[number].active;
  };
  active_.erase(std::remove_if(active_.begin(), active_.end(), idle), active_.end());
  return ok_status();
}

void Mail::land(bool* moved) {
  const auto landed = [this](const Message& message) {
    if (!channel_->done(message.request)) return false;
    --items_[message.item].flying;
    --lanes_[message.lane].flying;
    return true;
  };
  const auto end = std::remove_if(messages_.begin(), messages_.end(), landed);
  *moved |= end != messages_.end();
  messages_.erase(end, messages_.end());
}

// Starts messages of a lane, in order, as many as may be under way.
Status Mail::fly(int number, bool* moved) {
  Lane& lane = lanes_[number];
  while (lane.first >= 0 && lane.flying < kMessagesPerLane) {
    Item& item = items_[lane.first];
    if (Status s = post(number, &item, lane.first); !s.ok()) return s;
    *moved = true;
    drop_moved(&lane);
  }
  return ok_status();
}

Status Mail::post(int number, Item* item, int transfer) {
  const size_t n = std::min(item->bytes - item->at, kMessageBytes);
  const int rank = team_->ranks[number / 2];
  Expected<Channel::Request> request =
      number % 2 == 0 ? channel_->send(rank, tag_, item->data + item->at, n)
                      : channel_->receive(rank, tag_, item->data + item->at, n);
  if (!request.ok()) return request.status();
  item->at += n;
  ++item->flying;
  ++lanes_[number].flying;
  messages_.push_back({*request, transfer, number});
  return ok_status();
}

void Mail::drop_moved(Lane* lane) {
  const Item& item = items_[lane->first];
  if (item.at == item.bytes) lane->first = item.next;
}

// Moves items of a lane through a ring from byte `from` on, up to byte `end` of it: copy(item's
// bytes, place in the ring, how many). Returns how far it came.
template <typename Copy>
uint64_t Mail::pass(Lane* lane, uint64_t from, uint64_t end, size_t* budget, Copy copy) {
  while (lane->first >= 0 && *budget > 0) {
    Item& item = items_[lane->first];
    const size_t place = from % box_bytes_;
    const size_t n = std::min(
        {item.bytes - item.at, *budget, box_bytes_ - place, static_cast<size_t>(end - from)});
    if (n == 0) break;
    copy(item.data + item.at, place, n);
    item.at += n;
    from += n;
    *budget -= n;
    drop_moved(lane);
  }
  return from;
}

// As much as the box has room for, of as many items as there are.
void Mail::put(int number, size_t* budget, bool* moved) {
  const int peer = team_->place_of[number / 2];
  Box* to = box(team_->local_index, peer);
  const uint64_t before = to->written.load(std::memory_order_relaxed);
  const uint64_t read = to->read.load(std::memory_order_seq_cst);
  const uint64_t written =
      pass(&lanes_[number], before, read + box_bytes_, budget,
           [to](char* data, size_t place, size_t n) { memcpy(to->bytes() + place, data, n); });
  if (written == before) return;
  to->written.store(written, std::memory_order_seq_cst);
  slots_->wake(team_->local_ranks[peer]);
  *moved = true;
}

void Mail::take(int number, size_t* budget, bool* moved) {
  const int peer = team_->place_of[number / 2];
  Box* from = box(peer, team_->local_index);
  const uint64_t before = from->read.load(std::memory_order_relaxed);
  const uint64_t written = from->written.load(std::memory_order_seq_cst);
  const uint64_t read =
      pass(&lanes_[number], before, written, budget,
           [from](char* data, size_t place, size_t n) { memcpy(data, from->bytes() + place, n); });
  if (read == before) return;
  from->read.store(read, std::memory_order_seq_cst);
  slots_->wake(team_->local_ranks[peer]);
  *moved = true;
}

}  // namespace hvd
