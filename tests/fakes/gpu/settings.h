// SPDX-License-Identifier: Apache-2.0
//
// What the fake device is told by the environment (FAKE_GPU_*), the faults it has to play, and how
// it ends a process that broke a rule. Part of the fake libcuda.so.1; the fake NCCL uses it too.
// README.md has the list for users.
#ifndef TESTS_FAKES_GPU_SETTINGS_H
#define TESTS_FAKES_GPU_SETTINGS_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// The fake NCCL calls what is exported.
#define FAKE_GPU_EXPORT __attribute__((visibility("default")))

namespace fake_gpu {

struct Settings {
  int gpus;          // of the node
  std::string node;  // simulated
  int rank;          // for texts and for faults of one rank; -1 unknown
  std::uint64_t seed;
  long delay_us;     // longest random delay before a task of a stream; 0 for none
  long deadline_ms;  // of every wait
  int driver_version, nccl_version;
  bool launch_order;      // communicators of one device run in the order they were launched
  bool detects_death;     // NCCL reports a peer that died, instead of hanging
  bool exit_check;        // for communicators
  bool leak_check;        // for memory, streams and events
  std::string kernels;    // shared object with host twins
  std::string directory;  // of the files that ranks share
  size_t memory_bytes;    // of each device
};

// Read once.
FAKE_GPU_EXPORT const Settings& settings();

// One thing that has to go wrong: "[RANK:]POINT[@N][=VALUE]", at the N-th time this process comes
// to the point (1).
struct Fault {
  std::optional<int> rank;
  std::string point;
  long at = 1;
  long value = 0;
};

// Empty if the text is none.
std::optional<std::vector<Fault>> parse_faults(const std::string& text);

// The value of the fault planted here, if this is its time. Counts.
FAKE_GPU_EXPORT std::optional<long> fault(const char* point);

// Ends the process with one sentence: "fake gpu: rank R: RULE: what happened".
[[noreturn]] FAKE_GPU_EXPORT void violation(const char* rule, const char* format, ...)
    __attribute__((format(printf, 2, 3)));

FAKE_GPU_EXPORT long now_ms();

// xorshift; two of one seed draw the same.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x2545F4914F6CDD1Du) {}
  std::uint64_t below(std::uint64_t bound) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return bound == 0 ? 0 : state_ % bound;
  }

 private:
  std::uint64_t state_;
};

}  // namespace fake_gpu

#endif  // TESTS_FAKES_GPU_SETTINGS_H
