// SPDX-License-Identifier: Apache-2.0
//
// The devices that a process sees, its contexts, and how every entry point of the fake driver
// begins.
#ifndef TESTS_FAKES_GPU_DEVICES_H
#define TESTS_FAKES_GPU_DEVICES_H

#include <vector>

namespace fake_gpu {

// Devices of the node that CUDA_VISIBLE_DEVICES leaves, by their ordinal: numbers or UUIDs, up to
// the first that is neither.
const std::vector<int>& visible_devices();

bool is_device(int device);

// The start of an entry point: not initialised, a planted fault, a broken device are codes; to have
// no current context where one is needed ends the process. What: the entry point's name without its
// version.
int begin(const char* what, bool needs_context = true);

// The number of the context in which the calling thread is. Begin has checked that there is one.
void* current_context();

}  // namespace fake_gpu

// Starts the body of an entry point.
#define FAKE_GPU_BEGIN(...) \
  if (const int begin_code = begin(__VA_ARGS__); begin_code != kCudaSuccess) return begin_code

#endif  // TESTS_FAKES_GPU_DEVICES_H
