// SPDX-License-Identifier: Apache-2.0
//
// The program that tests the fake device: it opens both libraries as libhvd does, by name, and
// starts its ranks itself. Cases that break a rule on purpose must end with the rule's sentence;
// tests/ranks/80_fake_gpu.bats says which.
#ifndef TESTS_FAKES_GPU_PROBE_H
#define TESTS_FAKES_GPU_PROBE_H

#include <cstdlib>

#define FAKE_GPU_NAME(name) library_##name
#include <functional>
#include <string>
#include <vector>

#include "tests/fakes/gpu/cuda_abi.h"
#include "tests/fakes/gpu/nccl_abi.h"

namespace fake_gpu {

// Both libraries' functions, under their own names.
struct Api {
#define FAKE_GPU_POINTER(name, parameters) int(*name) parameters = nullptr;
  FAKE_GPU_CUDA(FAKE_GPU_POINTER)
  FAKE_GPU_NCCL(FAKE_GPU_POINTER)
#undef FAKE_GPU_POINTER
  const char* (*ncclGetErrorString)(int) = nullptr;
  const char* (*ncclGetLastError)(CommHandle) = nullptr;
};

// One rank of a case, with its device's context current.
struct Rank {
  const Api& api;
  int rank, ranks, local_rank;
  unsigned seed;
  UniqueId id;                         // for a communicator of all
  std::function<UniqueId(int)> share;  // the n-th further id, made by rank 0; all must ask
};

// Ends the rank with a sentence unless the code is what is expected.
void expect(int code, int wanted, const char* what);
#define MUST(call) expect(call, 0, #call)
void expect(bool holds, const char* what);

struct Buffer {
  Address device = 0;
  size_t bytes = 0;
  void* pointer() const { return reinterpret_cast<void*>(device); }
};
Buffer make_buffer(const Rank& rank, size_t bytes);
Handle make_stream(const Rank& rank);
Handle make_event(const Rank& rank);
void fill(const Rank& rank, const Buffer& buffer, const std::vector<char>& bytes);
std::vector<char> read(const Rank& rank, const Buffer& buffer);

CommHandle make_comm(const Rank& rank, bool blocking, const UniqueId& id);
// Polls until the communicator is ready; its error.
int settle(const Rank& rank, CommHandle comm);

struct Case {
  const char* name;
  void (*run)(const Rank&);
};
extern const std::vector<Case> kValueCases, kPackCases, kRuleCases, kFaultCases;

}  // namespace fake_gpu

#endif  // TESTS_FAKES_GPU_PROBE_H
