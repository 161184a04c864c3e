// SPDX-License-Identifier: Apache-2.0
//
// Measures one operation at one size: alternating rounds of libhvd and its peer, each of a few
// untimed and many timed operations, every result checked. All ranks call it together, and all get
// the same row.
//
// Before every operation the data is written anew and the ranks meet in a barrier of the library
// that is measured. A rank's time in a round is its median; a round's time is that of its slowest
// rank; the time that is reported is the median of the rounds. So one disturbed operation, or one
// disturbed round, on a machine with other work changes nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "libhvd/base/status.h"
#include "libhvd/tools/perf/collectives.h"
#include "libhvd/tools/perf/options.h"
#include "libhvd/tools/perf/pattern.h"

namespace hvd::perf {

struct Row {
  int64_t bytes = 0;
  int64_t count = 0;
  double time_us = 0;
  int64_t wrong = 0;  // elements, over all operations and ranks
  std::optional<double> peer_time_us;
  int64_t peer_wrong = 0;
};

// The sizes to measure; a barrier has one, 0.
std::vector<int64_t> sizes(const Options& options);

class Bench {
 public:
  // [peer] may be null. All three outlive the bench. Between hvd_init and hvd_shutdown.
  Bench(const Options& options, Collectives& hvd, Collectives* peer);

  // Allocates for the largest size; before measure().
  Status prepare();
  Expected<Row> measure(int64_t bytes);

 private:
  struct Round {
    double median_us = 0;
    int64_t wrong = 0;
  };
  struct Free {
    void operator()(void* memory) const { free(memory); }
  };
  using Memory = std::unique_ptr<void, Free>;

  Expected<Round> run_round(Collectives& library, int64_t count);
  Expected<double> run_once(Collectives& library, int64_t count);
  Status operate(Collectives& library, int64_t count);
  Status gather(Row& row, const std::vector<Round>& hvd, const std::vector<Round>& peer);

  const Options& options_;
  Collectives& hvd_;
  Collectives* peer_;
  Pattern sent_;
  Pattern expected_;
  Memory input_;
  Memory output_memory_;    // none if in place
  void* output_ = nullptr;  // input_ if in place
  int64_t shift_ = 0;
  int64_t wrong_ = 0;  // of the round that runs
};

}  // namespace hvd::perf
