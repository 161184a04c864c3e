// SPDX-License-Identifier: Apache-2.0
//
// Measures the reduction of a training step: the gradients of a model, each an allreduce of its
// own, submitted in the order in which a backward pass makes them (the last layer first), then a
// wait for all. Optionally with work between the submits; and beside MPI, which gets the same
// gradients one after the other, and as one copy. Data, rounds and medians as in measure.h.
#pragma once

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libhvd/tools/perf/collectives.h"
#include "libhvd/tools/perf/options.h"
#include "libhvd/tools/perf/pattern.h"
#include "libhvd/tools/perf/work.h"

namespace hvd::perf {

class RankTable;

struct StepRow {
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t bytes = 0;
  double time_us = 0;             // from the first submit until all are done
  std::optional<double> batches;  // a step, on average; none: this process cannot ask itself
  int64_t wrong = 0;              // elements, over all steps and ranks
  // With --compute: the work alone, and the work with the gradients submitted in between.
  std::optional<double> compute_us;
  std::optional<double> together_us;
  std::optional<double> peer_time_us;   // one after the other
  std::optional<double> peer_fused_us;  // copied together, one operation, copied back
  int64_t peer_wrong = 0;
};

class StepBench {
 public:
  // [peer] may be null. All three outlive the bench. Between hvd_init and hvd_shutdown.
  StepBench(const Options& options, HvdCollectives& hvd, Collectives* peer);

  Status prepare();
  Expected<StepRow> measure();

 private:
  struct Gradient {
    std::string name;
    int64_t count = 0;
    void* data = nullptr;
  };
  struct Free {
    void operator()(void* memory) const { free(memory); }
  };
  using Memory = std::unique_ptr<void, Free>;
  // What a step does between barrier and check.
  using Step = Status (StepBench::*)();

  Status step();      // libhvd, nothing in between
  Status compute();   // the work alone
  Status together();  // both
  Status peer_one_by_one();
  Status peer_fused();

  Status submit(size_t gradient);
  Status wait_all();
  Expected<double> run_round(Collectives& library, Step step, const Pattern& expected,
                             int64_t* wrong);
  Expected<double> run_once(Collectives& library, Step step, const Pattern& expected,
                            int64_t* wrong);
  Status measure_round(int64_t round, RankTable* table);
  StepRow row_of(const RankTable& table) const;

  const Options& options_;
  HvdCollectives& hvd_;
  Collectives* peer_;
  Pattern sent_;
  Pattern expected_;
  Pattern peer_expected_;
  std::vector<Gradient> gradients_;  // in the order of their submission
  std::vector<hvd_handle> handles_;
  int64_t elements_ = 0;
  Memory memory_;
  Memory fused_;
  Work work_;
  int64_t shift_ = 0;
};

}  // namespace hvd::perf
