// SPDX-License-Identifier: Apache-2.0
//
// See stop_watch.h.
#include "libhvd/stop/stop_watch.h"

#include <signal.h>
#include <time.h>

#include "libhvd/base/parse.h"
#include "libhvd/stop/signals.h"
#include "libhvd/stop/squeue.h"

namespace hvd {
namespace {

// A controller that is busy with a large queue answers in a second or two.
constexpr int64_t kAskMs = 5000;

const char* name_of(int signal) { return signal == SIGUSR1 ? "SIGUSR1" : "SIGTERM"; }

}  // namespace

StopWatch::StopWatch(Parts parts) : parts_(std::move(parts)) {}

Expected<std::unique_ptr<StopWatch>> StopWatch::of_process(const Getenv& get,
                                                           const Settings& settings, int rank,
                                                           const Log& log) {
  if (Status s = watch_stop_signals(); !s.ok()) return s;
  Parts parts;
  parts.signal = stop_signal;
  parts.now = [] { return static_cast<int64_t>(time(nullptr)); };
  parts.log = log;
  const std::string job = slurm_job_of(get);
  if (rank == 0 && !job.empty()) {
    parts.margin = (settings.ns(Setting::kStopMargin) + kNsPerSecond - 1) / kNsPerSecond;
    const char* end = get("SLURM_JOB_END_TIME");
    if (end != nullptr) parts.end = end_time_of(end);
    parts.ask = [job] { return ask_squeue("squeue", job, Deadline::after_ms(kAskMs)); };
  }
  return std::make_unique<StopWatch>(std::move(parts));
}

bool StopWatch::has_reason() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (has_reason_) return true;
  if (const int signal = parts_.signal()) {
    parts_.log.line(LogLevel::kInfo, "%s has come: the program is told to stop", name_of(signal));
    has_reason_ = true;
  } else if (parts_.margin > 0 && end_is_near()) {
    parts_.log.line(LogLevel::kInfo, "the job ends in %lld s: the program is told to stop",
                    static_cast<long long>(*parts_.end - parts_.now()));
    has_reason_ = true;
  }
  return has_reason_;
}

bool StopWatch::end_is_near() {
  if (!parts_.end && !asked_for_end_) {
    ask();
    return within_margin();
  }
  if (!within_margin()) return false;
  ask();
  return within_margin();
}

void StopWatch::ask() {
  asked_for_end_ = true;
  if (!parts_.ask) return;
  const Expected<std::optional<int64_t>> end = parts_.ask();
  if (end.ok()) {
    parts_.end = *end;
  } else {
    parts_.log.line(LogLevel::kDebug, "when the job ends: %s", end.status().text().c_str());
  }
}

bool StopWatch::within_margin() const {
  return parts_.end && parts_.now() >= *parts_.end - parts_.margin;
}

}  // namespace hvd
