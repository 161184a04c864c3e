// SPDX-License-Identifier: Apache-2.0
//
// Time for deadlines: one monotonic clock, and a Deadline that never forgets its start.
#pragma once

#include <time.h>

#include <cstdint>

namespace hvd {

inline int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

// A point in time; copyable. `never()` does not pass.
class Deadline {
 public:
  // More than 100 years ahead is never.
  static Deadline after_ms(int64_t ms) {
    return ms > INT64_MAX / 4000000 ? never() : Deadline(now_ns() + ms * 1000000);
  }
  static Deadline never() { return Deadline(INT64_MAX); }

  Deadline plus_ms(int64_t ms) const {
    return is_never() ? *this : Deadline(at_ns_ + ms * 1000000);
  }

  bool passed() const { return at_ns_ != INT64_MAX && now_ns() >= at_ns_; }
  bool is_never() const { return at_ns_ == INT64_MAX; }
  int64_t at_ns() const { return at_ns_; }

  // Milliseconds left, rounded up, at most `cap`: fit for poll(2). 0 when passed.
  int poll_ms(int cap) const {
    if (at_ns_ == INT64_MAX) return cap;
    const int64_t left = at_ns_ - now_ns();
    if (left <= 0) return 0;
    const int64_t ms = (left + 999999) / 1000000;
    return ms < cap ? static_cast<int>(ms) : cap;
  }

 private:
  explicit Deadline(int64_t at_ns) : at_ns_(at_ns) {}
  int64_t at_ns_;
};

}  // namespace hvd
