// SPDX-License-Identifier: Apache-2.0
#include "libhvd/tools/perf/work.h"

#include <algorithm>

#include "libhvd/base/clock.h"

namespace hvd::perf {

void Work::run_units(int64_t units) {
  for (int64_t unit = 0; unit < units; ++unit) {
    for (float& number : numbers_) number = number * 0.75f + 0.5f;
    // The compiler must believe that somebody looks at them.
    asm volatile("" : : "r"(numbers_.data()) : "memory");
  }
}

void Work::calibrate(int64_t duration_ns) {
  constexpr int64_t kUnits = 10000;
  constexpr int kTries = 5;
  int64_t best = INT64_MAX;
  for (int i = 0; i < kTries; ++i) {
    const int64_t start = now_ns();
    run_units(kUnits);
    best = std::min(best, std::max<int64_t>(now_ns() - start, 1));
  }
  units_ = std::max<int64_t>(
      static_cast<int64_t>(static_cast<double>(duration_ns) / static_cast<double>(best) * kUnits),
      1);
}

void Work::run(int64_t part, int64_t parts) {
  run_units(units_ * (part + 1) / parts - units_ * part / parts);
}

}  // namespace hvd::perf
