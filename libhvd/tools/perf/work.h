// SPDX-License-Identifier: Apache-2.0
//
// Work that stands for a backward pass: a fixed amount of arithmetic in a cache, measured once. Not
// a sleep and not a loop until a certain time: what slows it down shows.
#pragma once

#include <array>
#include <cstdint>

namespace hvd::perf {

class Work {
 public:
  // Finds out how much takes [duration_ns] on a core that has nothing else to do.
  void calibrate(int64_t duration_ns);
  // Part [part] of [parts]; all of them together are the whole.
  void run(int64_t part, int64_t parts);

 private:
  void run_units(int64_t units);

  int64_t units_ = 0;
  std::array<float, 1024> numbers_{};
};

}  // namespace hvd::perf
