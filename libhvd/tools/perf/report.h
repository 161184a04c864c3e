// SPDX-License-Identifier: Apache-2.0
//
// What rank 0 says: a table for people, row by row as they are measured, and one JSON object for
// programs at the end. Makes texts only; main.cc writes them.
#pragma once

#include <string>
#include <vector>

#include "libhvd/tools/perf/idle.h"
#include "libhvd/tools/perf/measure.h"
#include "libhvd/tools/perf/options.h"

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

std::string idle_table(const Job& job, const Options& options, const std::vector<IdleRow>& rows);
std::string idle_json(const Job& job, const Options& options, const std::vector<IdleRow>& rows);

}  // namespace hvd::perf
