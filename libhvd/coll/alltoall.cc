// SPDX-License-Identifier: Apache-2.0
//
// See alltoall.h.
#include "libhvd/coll/alltoall.h"

#include <string.h>

#include <algorithm>

namespace hvd {

Alltoall::Alltoall(Slots* slots, Channel* channel, const Batch& batch)
    : channel_(channel),
      most_bytes_(slots->geometry().block_bytes),
      batch_(batch),
      mail_(slots, channel, &batch.team(), batch.plan().first_block),
      rows_from_(batch.team().ranks.size() * tensors()) {
  std::vector<size_t> filled(tensors(), 0);
  for (int member = 0; member < batch.team().size; ++member) {
    for (size_t t = 0; t < tensors(); ++t) {
      const Ragged& ragged = *batch.segments()[t].ragged;
      rows_to_.push_back(ragged.send_rows[member]);
      begin_to_.push_back(filled[t]);
      filled[t] += static_cast<size_t>(rows_to_.back()) * ragged.row_bytes;
    }
  }
  for (size_t t = 0; t < tensors(); ++t) {
    rows_from_[at(batch.team().index, t)] = rows_to_[at(batch.team().index, t)];
  }
}

Expected<bool> Alltoall::step(bool* moved) {
  if (Status s = mail_.step(moved); !s.ok()) return s;
  if (!told_) {
    if (!tell(moved)) return false;
    told_ = true;
    make_room();
    out_ = Side();
    in_ = Side();
  }
  return move_rows(moved);
}

// True once all are over. `direction`: 1 for those behind me, -1 for those before.
bool Alltoall::advance(Side* side, int direction, const Start& start, bool* moved) {
  const int size = batch_.team().size;
  for (; side->begun < size && side->begun - side->over < Side::kWindow; ++side->begun) {
    const int member = (batch_.team().index + direction * side->begun + size) % size;
    start(member, &side->transfers[side->begun % Side::kWindow]);
    *moved = true;
  }
  for (; side->over < side->begun; ++side->over) {
    auto& transfers = side->transfers[side->over % Side::kWindow];
    transfers.erase(std::remove_if(transfers.begin(), transfers.end(),
                                   [this](auto transfer) { return mail_.done(transfer); }),
                    transfers.end());
    if (!transfers.empty()) return false;
    *moved = true;
  }
  return side->over == size;
}

bool Alltoall::exchange(const Start& send, const Start& receive, bool* moved) {
  const bool sent = advance(&out_, 1, send, moved);
  const bool received = advance(&in_, -1, receive, moved);
  return sent && received;
}

bool Alltoall::tell(bool* moved) {
  const size_t bytes = tensors() * sizeof(int64_t);
  return exchange(
      [&](int member, auto* transfers) {
        transfers->push_back(mail_.send(member, rows_to_.data() + at(member, 0), bytes));
      },
      [&](int member, auto* transfers) {
        transfers->push_back(mail_.receive(member, rows_from_.data() + at(member, 0), bytes));
      },
      moved);
}

void Alltoall::make_room() {
  begin_from_.resize(rows_from_.size());
  for (size_t t = 0; t < tensors(); ++t) {
    Ragged* ragged = batch_.segments()[t].ragged;
    ragged->rows_from.clear();
    ragged->total_rows = 0;
    for (int member = 0; member < batch_.team().size; ++member) {
      begin_from_[at(member, t)] = static_cast<size_t>(ragged->total_rows) * ragged->row_bytes;
      ragged->rows_from.push_back(rows_from_[at(member, t)]);
      ragged->total_rows += ragged->rows_from.back();
    }
    ragged->data.allocate(static_cast<size_t>(ragged->total_rows) * ragged->row_bytes);
  }
}

bool Alltoall::move_rows(bool* moved) {
  const bool copied = !copy_own();
  if (!copied) *moved = true;
  const bool exchanged = exchange(
      [&](int member, auto* transfers) {
        for (size_t t = 0; t < tensors(); ++t) {
          const Segment& s = batch_.segments()[t];
          const size_t bytes = static_cast<size_t>(rows_to_[at(member, t)]) * s.ragged->row_bytes;
          transfers->push_back(mail_.send(member, s.input + begin_to_[at(member, t)], bytes));
        }
      },
      [&](int member, auto* transfers) {
        for (size_t t = 0; t < tensors(); ++t) {
          Ragged* ragged = batch_.segments()[t].ragged;
          const size_t bytes = static_cast<size_t>(rows_from_[at(member, t)]) * ragged->row_bytes;
          transfers->push_back(
              mail_.receive(member, ragged->data.get() + begin_from_[at(member, t)], bytes));
        }
      },
      moved);
  return copied && exchanged;
}

// A piece of what this member sends to itself; false if there is nothing left.
bool Alltoall::copy_own() {
  if (own_tensor_ == tensors()) return false;
  const Segment& s = batch_.segments()[own_tensor_];
  const size_t mine = at(batch_.team().index, own_tensor_);
  const size_t bytes = static_cast<size_t>(rows_to_[mine]) * s.ragged->row_bytes;
  const size_t n = std::min(bytes - own_bytes_, most_bytes_);
  if (n > 0) {
    memcpy(s.ragged->data.get() + begin_from_[mine] + own_bytes_,
           s.input + begin_to_[mine] + own_bytes_, n);
  }
  own_bytes_ += n;
  if (own_bytes_ == bytes) {
    ++own_tensor_;
    own_bytes_ = 0;
  }
  return true;
}

void Alltoall::abandon() {
  for (const Segment& segment : batch_.segments()) {
    channel_->keep(std::make_shared<AlignedBytes>(std::move(segment.ragged->data)));
  }
}

}  // namespace hvd
