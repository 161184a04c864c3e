// SPDX-License-Identifier: Apache-2.0
//
// Slurm's answer to when a job ends, from the program squeue. Called by rank 0 alone, seldom.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libhvd/base/clock.h"
#include "libhvd/base/settings.h"
#include "libhvd/base/status.h"

namespace hvd {

// A point in time as Slurm's variable or squeue has it, in seconds since 1970. Of several lines
// (the components of a heterogeneous job) the earliest. None if no line is a number: a job without
// a time limit.
std::optional<int64_t> end_time_of(std::string_view text);

// What squeue knows this process's job by, "12" or "12_3"; "" if it is in none.
std::string slurm_job_of(const Getenv& get);

// Asks until the deadline. An error if squeue cannot be run, does not answer or says nothing.
Expected<std::optional<int64_t>> ask_squeue(const std::string& program, const std::string& job,
                                            Deadline deadline);

}  // namespace hvd
