// SPDX-License-Identifier: Apache-2.0
//
// What can be measured, and the reductions: how they are called, and what is true of each. Pure.
// One table each; option parser, data and reports read them.
//
// Sizes are those of nccl-tests. What every rank sends or receives in n equal parts is counted
// whole: of an allgather the output, of an alltoall and a reducescatter the input.
#pragma once

#include <cstdint>
#include <string_view>

#include "libhvd/hvd.h"

namespace hvd::perf {

enum class Operation {
  kAllreduce,
  kAllgather,
  kBroadcast,
  kAlltoall,
  kReducescatter,
  kBarrier,
  kStep,
  kIdle
};

struct OperationFacts {
  std::string_view name;
  bool sized;    // it is measured for one size after the other
  bool reduces;  // it takes --op
  bool can_be_in_place;
  bool grouped;       // the library has a grouped form
  bool input_parts;   // the input has a part for each rank
  bool output_parts;  // the output has a part of each rank
};

inline constexpr OperationFacts kOperations[] = {
    {"allreduce", true, true, true, true, false, false},
    {"allgather", true, false, false, true, false, true},
    {"broadcast", true, false, false, false, false, false},
    {"alltoall", true, false, false, false, true, true},
    {"reducescatter", true, true, true, true, true, false},
    {"barrier", false, false, false, false, false, false},
    {"step", false, true, false, false, false, false},
    {"idle", false, false, false, false, false, false},
};

constexpr const OperationFacts& facts(Operation operation) {
  return kOperations[static_cast<int>(operation)];
}
constexpr std::string_view name_of(Operation operation) { return facts(operation).name; }

struct Reduction {
  std::string_view name;
  hvd_op number;
};

inline constexpr Reduction kReductions[] = {
    {"sum", HVD_SUM}, {"average", HVD_AVERAGE}, {"min", HVD_MIN},
    {"max", HVD_MAX}, {"product", HVD_PRODUCT}, {"adasum", HVD_ADASUM},
};

// Parts of the input, and of the output, of one of [ranks].
constexpr int64_t input_parts(Operation operation, int ranks) {
  return facts(operation).input_parts ? ranks : 1;
}
constexpr int64_t output_parts(Operation operation, int ranks) {
  return facts(operation).output_parts ? ranks : 1;
}
// The larger of the two: a size is so many times what one part has.
constexpr int64_t parts(Operation operation, int ranks) {
  return facts(operation).input_parts || facts(operation).output_parts ? ranks : 1;
}

// busbw / algbw: the part of a size that each rank has to send, and to receive, at least.
constexpr double bus_factor(Operation operation, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (operation) {
    case Operation::kAllreduce:
    case Operation::kStep:
      return 2 * others;
    case Operation::kAllgather:
    case Operation::kAlltoall:
    case Operation::kReducescatter:
      return others;
    default:
      return 1;
  }
}

}  // namespace hvd::perf
