// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of one communicator share: a file in FAKE_GPU_DIR, mapped by all, that has no name
// any more as soon as all have it. So a rank that is killed leaves nothing but, at worst, the file
// of a communicator that never came to be, and that goes with the next one. Each rank holds a lock
// on a byte of the file, which tells the others that it lives.
#ifndef TESTS_FAKES_GPU_SEGMENT_H
#define TESTS_FAKES_GPU_SEGMENT_H

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace fake_gpu {

constexpr int kMostRanks = 64;
constexpr size_t kSlotBytes = 64 << 10, kMailBytes = 16 << 10;

// What a rank says it does; equal on all of them.
struct Descriptor {
  std::uint64_t number, count;
  int kind, type, op, root;
};

// Of one rank, written by it alone.
struct Plate {
  std::atomic<std::uint32_t> here, left;
  std::atomic<std::uint32_t> arrivals[2];  // at barriers: of the device's work, of the host's
  pid_t process;
  int global_rank;
  char node[64], bus_id[20];
  Descriptor doing;
  std::atomic<std::uint64_t> front_comm, front_launch;  // what its device runs, of any communicator
  int color, key;
};

// One message of a point-to-point operation after the other, in pieces.
struct Mail {
  std::atomic<std::uint64_t> written, read;  // pieces
  std::uint64_t message_bytes;
  std::uint32_t piece_bytes;
  int type;
  char data[kMailBytes];
};

class Segment {
 public:
  // A new name, and the file, which this process keeps alive until forget_root.
  static bool make_root(std::string* name);
  static void forget_root(const std::string& name);
  // Null: errno says why.
  static std::unique_ptr<Segment> open(const std::string& name, int ranks, int rank);

  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  Plate& plate(int rank) { return shared_->plate[rank]; }
  char* slot(int rank) { return slots_ + static_cast<size_t>(rank) * kSlotBytes; }
  Mail& mail(int from, int to) { return mails_[from * ranks_ + to]; }
  std::atomic<int>& error() { return shared_->error; }

  // Wakes whoever waits; waits for that, if it has not been since bell was seen, for some
  // milliseconds.
  void ring();
  std::uint32_t bell() const { return shared_->bell; }
  void wait(std::uint32_t seen);

  bool is_alive(int rank) const;
  void remove_name();

 private:
  struct Shared {
    std::atomic<std::uint32_t> bell;
    std::atomic<int> error;
    Plate plate[kMostRanks];
  };

  Segment(std::string path, int file, int ranks)
      : path_(std::move(path)), file_(file), ranks_(ranks) {}
  static size_t bytes(int ranks);

  std::string path_;
  int file_;
  int ranks_;
  Shared* shared_ = nullptr;
  char* slots_ = nullptr;
  Mail* mails_ = nullptr;
};

}  // namespace fake_gpu

#endif  // TESTS_FAKES_GPU_SEGMENT_H
