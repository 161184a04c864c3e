// SPDX-License-Identifier: Apache-2.0
//
// The blackboard of a node, in the shared memory of its ranks: a lane from each rank to the leader,
// the schedule from the leader to everybody, who sleeps, and the one line that is written when a
// rank dies. Zeroed memory is a valid, empty board.
//
// Each lane has one writer (its rank) and one reader (the leader); the schedule has one writer (the
// leader). Within a process all calls but wake() and rouse() are made under the engine's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "libhvd/control/byte_ring.h"

namespace hvd {

class Board {
 public:
  // What a rank's seat says about its process: kClosed between shutdown and the next init, kAtEnd
  // at its end. In both it may vanish without being missed.
  enum class Presence : uint32_t { kHere = 0, kClosed = 1, kAtEnd = 2 };

  static size_t bytes(int local_size);

  // `base` has bytes(local_size) bytes, 64-byte aligned. `ring` ends the sleep of a local rank.
  Board(char* base, int local_size, int me, std::function<void(int)> ring);

  // To the leader: false if the lane is full now.
  bool report(std::string_view message);
  // The leader: the next report of local rank `from`.
  bool next_report(int from, std::string* message, bool* broken);

  // The leader: appends to the schedule; false if the slowest reader leaves no room now. The
  // leader reads the schedule like everybody else.
  bool publish(std::string_view message);
  // Everybody: the next message of the schedule.
  bool next_entry(std::string* message, bool* broken);

  // Before sleeping: from here on wake() and rouse() reach this rank. The caller looks once more
  // for work afterwards, and calls sleep_end() when it is up.
  void sleep_begin();
  void sleep_end();
  // Rings `local_rank` if it sleeps (any thread).
  void wake(int local_rank);
  // Rings everybody who sleeps (any thread).
  void rouse();
  // Rings everybody, whatever their bits say: a rank that took the bits may have died before it
  // rang.
  void ring_all();

  void set_presence(Presence presence);
  Presence presence(int local_rank) const;

  // That a rank has come to the start of the job.
  void set_started();
  bool has_started(int local_rank) const;

  // CPUs this rank may run on, for everybody's decision to spin; bit i is CPU i mod 1024.
  void set_cpus(const uint64_t (&cpus)[16]);
  // CPUs in the union over all ranks that have set theirs.
  int cpu_count() const;

  // The first caller on the node gets true: it writes the line, then calls tell().
  bool claim_news();
  // Makes the line known to all ranks of the node. Longer than kMaxNews: cut.
  void tell(std::string_view line);
  // The line, if it was told.
  bool told(std::string* line) const;
  bool told() const { return shared_->told.load(std::memory_order_acquire) != 0; }

  static constexpr size_t kMaxNews = 1000;

 private:
  static constexpr size_t kLaneBytes = 64 << 10;
  static constexpr size_t kScheduleBytes = 256 << 10;
  static constexpr int kSleepWords = 16;  // 1024 local ranks

  struct Shared {
    alignas(64) std::atomic<uint32_t> claimed;
    std::atomic<uint32_t> told;
    uint32_t news_length;
    char news[kMaxNews];
    alignas(64) std::atomic<uint64_t> schedule_written;
    alignas(64) std::atomic<uint64_t> sleepers[kSleepWords];
  };
  struct Seat {
    alignas(64) std::atomic<uint64_t> lane_written;
    alignas(64) std::atomic<uint64_t> lane_read;
    alignas(64) std::atomic<uint64_t> schedule_read;
    alignas(64) std::atomic<uint32_t> presence;
    std::atomic<uint32_t> started;
    std::atomic<uint64_t> cpus[16];
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free, "flags are shared between processes");

  uint64_t slowest_reader() const;

  Shared* shared_;
  Seat* seats_;
  char* lanes_;
  int local_size_;
  int me_;
  std::function<void(int)> ring_;
  ByteRing schedule_;
  uint64_t schedule_position_ = 0;
};

// Bytes of the largest report and schedule message that always fit when the ring is empty.
constexpr size_t kMaxReport = 40 << 10;
constexpr size_t kMaxScheduleMessage = 64 << 10;

}  // namespace hvd
