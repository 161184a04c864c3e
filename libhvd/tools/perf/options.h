// SPDX-License-Identifier: Apache-2.0
//
// hvd-perf's command line. Pure: it starts nothing and prints nothing, so that a wrong argument is
// a sentence before any rank waits for another.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libhvd/base/status.h"
#include "libhvd/tools/perf/element.h"
#include "libhvd/tools/perf/models.h"
#include "libhvd/tools/perf/operation.h"

namespace hvd::perf {

struct Options {
  enum class Action { kMeasure, kHelp, kVersion };

  Action action = Action::kMeasure;
  Operation operation = Operation::kAllreduce;
  int64_t min_bytes = 0;  // parse_options leaves both set, for operations that have a size
  int64_t max_bytes = 0;
  int64_t factor = 4;
  const ElementType* type = &kElementTypes[0];
  hvd_op op = HVD_SUM;
  int64_t tensors = 1;                // of a group
  std::optional<int64_t> iterations;  // none: as many as the size calls for
  int64_t warmup = 2;
  int64_t rounds = 5;
  bool in_place = true;
  bool compare_mpi = false;
  std::string json_file;  // empty: none
  int64_t idle_ns = 0;
  const Model* model = nullptr;  // of a step
  int64_t compute_ns = 0;        // of a step; 0: none
};

// [arguments]: without the program's name. An error is a sentence with the way out.
Expected<Options> parse_options(const std::vector<std::string_view>& arguments);

std::string usage();

}  // namespace hvd::perf
