// SPDX-License-Identifier: Apache-2.0
//
// See board.h. Sleeping is a handshake of two sequentially consistent steps on each side: the
// sleeper sets its bit and then looks for work; the waker publishes work and then looks at the
// bits. One of the two sees the other.
#include "libhvd/control/board.h"

#include <algorithm>
#include <cstring>

namespace hvd {
namespace {

size_t align64(size_t n) { return (n + 63) / 64 * 64; }

}  // namespace

size_t Board::bytes(int local_size) {
  const size_t n = static_cast<size_t>(local_size);
  return align64(sizeof(Shared)) + n * align64(sizeof(Seat)) + n * kLaneBytes + kScheduleBytes;
}

Board::Board(char* base, int local_size, int me, std::function<void(int)> ring)
    : local_size_(local_size), me_(me), ring_(std::move(ring)) {
  shared_ = reinterpret_cast<Shared*>(base);
  base += align64(sizeof(Shared));
  seats_ = reinterpret_cast<Seat*>(base);
  base += static_cast<size_t>(local_size) * align64(sizeof(Seat));
  lanes_ = base;
  base += static_cast<size_t>(local_size) * kLaneBytes;
  schedule_ = ByteRing(&shared_->schedule_written, base, kScheduleBytes);
}

bool Board::report(std::string_view message) {
  Seat& seat = seats_[me_];
  ByteRing lane(&seat.lane_written, lanes_ + me_ * kLaneBytes, kLaneBytes);
  return lane.push(message, seat.lane_read.load(std::memory_order_acquire));
}

bool Board::next_report(int from, std::string* message, bool* broken) {
  Seat& seat = seats_[from];
  ByteRing lane(&seat.lane_written, lanes_ + from * kLaneBytes, kLaneBytes);
  uint64_t position = seat.lane_read.load(std::memory_order_relaxed);
  if (!lane.pop(&position, message, broken)) return false;
  seat.lane_read.store(position, std::memory_order_release);
  return true;
}

uint64_t Board::slowest_reader() const {
  uint64_t slowest = UINT64_MAX;
  for (int i = 0; i < local_size_; ++i) {
    if (presence(i) == Presence::kAtEnd && i != me_) continue;
    slowest = std::min(slowest, seats_[i].schedule_read.load(std::memory_order_acquire));
  }
  return slowest;
}

bool Board::publish(std::string_view message) { return schedule_.push(message, slowest_reader()); }

bool Board::next_entry(std::string* message, bool* broken) {
  if (!schedule_.pop(&schedule_position_, message, broken)) return false;
  seats_[me_].schedule_read.store(schedule_position_, std::memory_order_release);
  return true;
}

void Board::sleep_begin() {
  shared_->sleepers[me_ / 64].fetch_or(uint64_t{1} << (me_ % 64), std::memory_order_seq_cst);
}

void Board::sleep_end() {
  shared_->sleepers[me_ / 64].fetch_and(~(uint64_t{1} << (me_ % 64)), std::memory_order_seq_cst);
}

void Board::wake(int local_rank) {
  const uint64_t bit = uint64_t{1} << (local_rank % 64);
  std::atomic<uint64_t>& word = shared_->sleepers[local_rank / 64];
  if ((word.load(std::memory_order_seq_cst) & bit) == 0) return;
  if (word.fetch_and(~bit, std::memory_order_seq_cst) & bit) ring_(local_rank);
}

void Board::rouse() {
  for (int w = 0; w * 64 < local_size_; ++w) {
    std::atomic<uint64_t>& word = shared_->sleepers[w];
    if (word.load(std::memory_order_seq_cst) == 0) continue;
    uint64_t bits = word.exchange(0, std::memory_order_seq_cst);
    for (; bits != 0; bits &= bits - 1) {
      const int local_rank = w * 64 + __builtin_ctzll(bits);
      if (local_rank < local_size_) ring_(local_rank);
    }
  }
}

void Board::ring_all() {
  for (int i = 0; i < local_size_; ++i) ring_(i);
}

void Board::set_presence(Presence presence) {
  seats_[me_].presence.store(static_cast<uint32_t>(presence), std::memory_order_seq_cst);
}

Board::Presence Board::presence(int local_rank) const {
  return static_cast<Presence>(seats_[local_rank].presence.load(std::memory_order_seq_cst));
}

void Board::set_started() { seats_[me_].started.store(1, std::memory_order_release); }

bool Board::has_started(int local_rank) const {
  return seats_[local_rank].started.load(std::memory_order_acquire) != 0;
}

void Board::set_cpus(const uint64_t (&cpus)[16]) {
  for (int i = 0; i < 16; ++i) seats_[me_].cpus[i].store(cpus[i], std::memory_order_relaxed);
}

int Board::cpu_count() const {
  int count = 0;
  for (int i = 0; i < 16; ++i) {
    uint64_t any = 0;
    for (int rank = 0; rank < local_size_; ++rank) {
      any |= seats_[rank].cpus[i].load(std::memory_order_relaxed);
    }
    count += __builtin_popcountll(any);
  }
  return count;
}

bool Board::claim_news() {
  uint32_t free = 0;
  return shared_->claimed.compare_exchange_strong(free, 1, std::memory_order_seq_cst);
}

void Board::tell(std::string_view line) {
  const size_t length = std::min(line.size(), kMaxNews);
  memcpy(shared_->news, line.data(), length);
  shared_->news_length = static_cast<uint32_t>(length);
  shared_->told.store(1, std::memory_order_seq_cst);
}

bool Board::told(std::string* line) const {
  if (!told()) return false;
  line->assign(shared_->news, std::min<size_t>(shared_->news_length, kMaxNews));
  return true;
}

}  // namespace hvd
