// SPDX-License-Identifier: Apache-2.0
//
// Does this rank have a reason to stop: a signal, or the end of the job's time? Ranks may answer
// differently; hvd_should_stop makes one answer of them. Decides; asks and listens through what it
// is given. Owned by the runtime, made at the first question. Any thread may ask.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "libhvd/base/log.h"
#include "libhvd/base/settings.h"
#include "libhvd/base/status.h"

namespace hvd {

class StopWatch {
 public:
  // All times in seconds since 1970.
  struct Parts {
    int64_t margin = 0;          // so long before the end; 0: the end does not count
    std::optional<int64_t> end;  // what is known without asking
    std::function<int64_t()> now;
    // When the job ends, if Slurm is to be asked. It costs, so it is done once where the end is not
    // known, and once more when the end seems near: the time limit may have been raised.
    std::function<Expected<std::optional<int64_t>>()> ask;
    std::function<int()> signal;  // the signal that has come, 0 for none
    Log log;
  };

  explicit StopWatch(Parts parts);

  // Of this process, on this rank: rank 0 alone looks at the clock. Signals are watched from here
  // on.
  static Expected<std::unique_ptr<StopWatch>> of_process(const Getenv& get,
                                                         const Settings& settings, int rank,
                                                         const Log& log);

  // Has this rank a reason? Once it has, it has for ever.
  bool has_reason();

 private:
  bool end_is_near();
  void ask();
  bool within_margin() const;

  Parts parts_;
  std::mutex mutex_;
  bool has_reason_ = false;
  bool asked_for_end_ = false;
};

}  // namespace hvd
