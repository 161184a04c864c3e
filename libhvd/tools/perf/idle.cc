// SPDX-License-Identifier: Apache-2.0
#include "libhvd/tools/perf/idle.h"

#include <sys/resource.h>
#include <time.h>

#include <cerrno>

#include "libhvd/base/clock.h"
#include "libhvd/tools/perf/collectives.h"

namespace hvd::perf {
namespace {

int64_t ns(const timeval& time) {
  return int64_t{time.tv_sec} * 1000000000 + int64_t{time.tv_usec} * 1000;
}

// CPU time of this process, all threads.
int64_t used_ns() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

void sleep_ns(int64_t duration) {
  const int64_t end = now_ns() + duration;
  const timespec until{end / 1000000000, end % 1000000000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

// CPU use from its making on.
class Meter {
 public:
  double percent() const {
    return 100.0 * static_cast<double>(used_ns() - used_ns_) /
           static_cast<double>(now_ns() - start_ns_);
  }

 private:
  int64_t start_ns_ = now_ns();
  int64_t used_ns_ = used_ns();
};

}  // namespace

Expected<std::vector<IdleRow>> measure_idle(const Options& options) {
  HvdCollectives hvd;
  const int ranks = hvd_size();
  // One entry a rank for the first part; the last is rank 0's in the second.
  std::vector<double> percent(static_cast<size_t>(ranks) + 1);
  const auto gather = [&] { return hvd.sum(&percent); };

  // What is used for the first time must not count as idling.
  Status status = gather();
  if (status.ok()) status = hvd.barrier();
  if (!status.ok()) return status;

  const Meter idle;
  sleep_ns(options.idle_ns);
  percent[static_cast<size_t>(hvd_rank())] = idle.percent();
  status = hvd.barrier();
  if (!status.ok()) return status;

  const Meter waiting;
  if (hvd_rank() != 0) sleep_ns(options.idle_ns);
  status = hvd.barrier();
  if (hvd_rank() == 0) percent.back() = waiting.percent();
  if (status.ok()) status = gather();
  if (!status.ok()) return status;

  std::vector<IdleRow> rows;
  for (int rank = 0; rank < ranks; ++rank) {
    rows.push_back({rank, false, percent[static_cast<size_t>(rank)]});
  }
  if (ranks > 1) rows.push_back({0, true, percent.back()});
  return rows;
}

}  // namespace hvd::perf
