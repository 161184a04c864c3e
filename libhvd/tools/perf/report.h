// SPDX-License-Identifier: Apache-2.0
//
// What rank 0 says: a table for people, row by row as they are measured, and one JSON object for
// programs at the end. Makes texts only; main.cc writes them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libhvd/tools/perf/idle.h"
#include "libhvd/tools/perf/measure.h"
#include "libhvd/tools/perf/options.h"
#include "libhvd/tools/perf/step.h"

namespace hvd::perf {

// The job that is measured, and who in it this process is.
struct Job {
  std::string version;
  std::string host;  // rank 0's
  int nodes = 1;
  int ranks = 1;
  int rank = 0;
};

std::string table_header(const Job& job, const Options& options);
std::string table_row(const Job& job, const Options& options, const Row& row);
std::string json(const Job& job, const Options& options, const std::vector<Row>& rows);

// The part of the communication that did not lengthen the step: 1 - (together - compute) / alone.
// Below 0 if the two hinder each other by more than the communication takes alone.
std::optional<double> overlap(const StepRow& row);
// The better of MPI's two ways / libhvd's time.
std::optional<double> ratio(const StepRow& row);

std::string step_table(const Job& job, const Options& options, const StepRow& row);
std::string step_json(const Job& job, const Options& options, const StepRow& row);

std::string idle_table(const Job& job, const Options& options, const std::vector<IdleRow>& rows);
std::string idle_json(const Job& job, const Options& options, const std::vector<IdleRow>& rows);

// What all of them begin with.
std::string title(const Job& job, const Options& options);
std::string json_head(const Job& job, const Options& options);
std::string json_list(const std::vector<std::string>& items);

}  // namespace hvd::perf
