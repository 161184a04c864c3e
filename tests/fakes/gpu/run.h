// SPDX-License-Identifier: Apache-2.0
//
// One launch on a communicator, in a stream's thread. All ranks say what they do and compare it,
// then move the data through their slots, 64 KiB at a time, between barriers; sends and receives go
// through mails, all of a launch at once. Where NCCL would hang or mix up data because ranks do not
// agree, the process ends with a sentence.
#ifndef TESTS_FAKES_GPU_RUN_H
#define TESTS_FAKES_GPU_RUN_H

#include <cstdint>
#include <vector>

#include "tests/fakes/gpu/operation.h"

namespace fake_gpu {

// Returns early if the communicator is aborted.
void run(const std::vector<Operation>& operations, std::uint64_t number);

}  // namespace fake_gpu

#endif  // TESTS_FAKES_GPU_RUN_H
