// SPDX-License-Identifier: Apache-2.0
//
// What the timeline is told about an operation, in one place: the phases of its life and their
// names. Everything is nothing while no timeline is on.
#pragma once

#include <cstdint>
#include <string>

#include "libhvd/coll/stage_times.h"
#include "libhvd/engine/operation.h"
#include "libhvd/trace/timeline.h"

namespace hvd {

class Tracing {
 public:
  // `timeline` may be null and outlives this object.
  Tracing(Timeline* timeline, int rank) : timeline_(timeline), rank_(rank) {}

  bool on() const { return timeline_ != nullptr && timeline_->on(); }

  void submitted(const Operation& operation);            // NEGOTIATE_ begins
  void scheduled(const Operation& operation, int last);  // NEGOTIATE_ ends, QUEUE begins
  void begun(const Operation& operation, int64_t ns);    // QUEUE ends, the operation begins
  void stages(const Operation& operation, const StageTimes& times);
  void finished(const Operation& operation);  // the operation ends, whatever it was in
  void cycle();

 private:
  Timeline* const timeline_;
  const int rank_;
};

}  // namespace hvd
