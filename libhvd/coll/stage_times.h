// SPDX-License-Identifier: Apache-2.0
//
// When a batch was in which stage on this rank, for the timeline: from the first block's beginning
// to the last one's end so far. Only batches that are watched have one.
#pragma once

#include <cstdint>

#include "libhvd/base/clock.h"

namespace hvd {

struct StageTimes {
  struct Span {
    int64_t begin_ns = 0;  // 0: not yet
    int64_t end_ns = 0;
  };
  Span pack;
  Span reduce;
  Span cross;
  Span unpack;

  int64_t first_ns() const {  // 0: none has begun
    int64_t first = 0;
    for (const Span* span : {&pack, &reduce, &cross, &unpack}) {
      if (span->begin_ns != 0 && (first == 0 || span->begin_ns < first)) first = span->begin_ns;
    }
    return first;
  }
};

// Extends a span by its own life. Nothing without times.
class StageClock {
 public:
  StageClock(StageTimes* times, StageTimes::Span StageTimes::*span)
      : span_(times == nullptr ? nullptr : &(times->*span)) {
    if (span_ != nullptr && span_->begin_ns == 0) span_->begin_ns = now_ns();
  }
  ~StageClock() {
    if (span_ != nullptr) span_->end_ns = now_ns();
  }
  StageClock(const StageClock&) = delete;
  StageClock& operator=(const StageClock&) = delete;

 private:
  StageTimes::Span* const span_;
};

}  // namespace hvd
