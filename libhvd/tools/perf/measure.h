// SPDX-License-Identifier: Apache-2.0
//
// Measures one operation at one size: alternating rounds of libhvd and its peer, each of a few
// untimed and many timed operations, every result checked. All ranks call it together, and all get
// the same row.
//
// Before every operation the data is written anew and the ranks meet in a barrier of the library
// that is measured. The time of an operation includes what it takes to give back the memory that
// the library made for its result. A rank's time in a round is its median; a round's time is that
// of its slowest rank; the time that is reported is the median of the rounds. So one disturbed
// operation, or one disturbed round, on a machine with other work changes nothing.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "libhvd/base/status.h"
#include "libhvd/tools/perf/collectives.h"
#include "libhvd/tools/perf/options.h"
#include "libhvd/tools/perf/pattern.h"

namespace hvd::perf {

struct Row {
  int64_t bytes = 0;
  int64_t count = 0;  // elements of one tensor's part
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
  Bench(const Options& options, HvdCollectives& hvd, Collectives* peer);

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

  Request request_for(int64_t bytes) const;
  Expected<Round> run_round(Collectives& library, const Request& request);
  Expected<double> run_once(Collectives& library, const Request& request);
  // Where the pattern starts in what a rank sends, and for this rank in what it gets from one.
  int64_t sent_shift(int64_t tensor, int rank) const;
  int64_t received_shift(const Request& request, int64_t tensor, int rank) const;
  void fill(const Request& request) const;
  int64_t count_wrong(const Request& request) const;
  Expected<Row> gather(const std::vector<Round>& hvd, const std::vector<Round>& peer);

  const Options& options_;
  HvdCollectives& hvd_;
  Collectives* peer_;
  Pattern sent_;
  Pattern expected_;
  Memory input_;
  Memory output_memory_;  // none if in place
  std::vector<const void*> results_;
  int64_t shift_ = 0;
  int64_t wrong_ = 0;  // of the round that runs
};

}  // namespace hvd::perf
