// SPDX-License-Identifier: Apache-2.0
//
// libhvd's pack kernels on the fake device, as their twins in the object that FAKE_GPU_KERNELS
// names.
#include <cstring>

#include "libhvd/transport/gpu/pack_arguments.h"
#include "tests/fakes/gpu/probe.h"
#include "tests/fakes/gpu/reduce.h"

namespace fake_gpu {
namespace {

constexpr uint32_t kCount = 20000;  // of each of two pieces; more than a chunk

// Two pieces of float32 become one of bfloat16, times two.
struct Packing {
  const Rank& rank;
  Handle function = nullptr;
  Buffer from, to;
  hvd::PackArguments arguments = {};

  explicit Packing(const Rank& the_rank) : rank(the_rank) {
    Handle module = nullptr;
    MUST(rank.api.cuModuleLoadData(&module, "FAKEFATB"));
    MUST(rank.api.cuModuleGetFunction(&function, module, "hvd_pack_float32_bfloat16"));
    from = make_buffer(rank, 2 * kCount * sizeof(float));
    to = make_buffer(rank, 2 * kCount * sizeof(std::uint16_t));
    arguments.pieces = 2;
    arguments.chunk = 16384;
    arguments.chunks = 4;
    arguments.factor = arguments.multiply = 2;
    arguments.divide = 1;
    const auto piece = [&](const Buffer& buffer, size_t at) {
      return reinterpret_cast<void*>(buffer.device + at);
    };
    arguments.piece[0] = {piece(from, 0), piece(to, 0), kCount, 0};
    arguments.piece[1] = {piece(from, 4 * kCount), piece(to, 2 * kCount), kCount, 2};
  }

  int launch(Handle stream) {
    void* parameters[] = {&arguments};
    return rank.api.cuLaunchKernel(function, 3, 1, 1, hvd::kPackThreads, 1, 1, 0, stream,
                                   parameters, nullptr);
  }
};

void pack(const Rank& rank) {
  Packing packing(rank);
  std::vector<char> values(packing.from.bytes), wanted(packing.to.bytes);
  for (uint32_t i = 0; i < 2 * kCount; ++i) {
    const auto value = static_cast<float>(i % 100);
    const std::uint16_t twice = to_bfloat16(2 * value);
    memcpy(values.data() + i * sizeof value, &value, sizeof value);
    memcpy(wanted.data() + i * sizeof twice, &twice, sizeof twice);
  }
  fill(rank, packing.from, values);
  const Handle stream = make_stream(rank);
  MUST(packing.launch(stream));
  memset(&packing.arguments, 0, sizeof packing.arguments);
  MUST(rank.api.cuStreamSynchronize(stream));
  expect(read(rank, packing.to) == wanted, "40000 values were doubled and cast");
}

// The second tensor is still being written in the user's stream.
void pack_missing_wait(const Rank& rank) {
  Packing packing(rank);
  MUST(rank.api.cuMemsetD8Async(packing.from.device + 8 * kCount - 4, 0, 4, make_stream(rank)));
  packing.launch(make_stream(rank));
}

// The framework's stream reads what was packed without waiting.
void packed_missing_wait(const Rank& rank) {
  Packing packing(rank);
  const Buffer copy = make_buffer(rank, 8);
  MUST(packing.launch(make_stream(rank)));
  rank.api.cuMemcpyDtoDAsync_v2(copy.device, packing.to.device, 8, make_stream(rank));
}

void pack_overrun(const Rank& rank) {
  Packing packing(rank);
  ++packing.arguments.piece[1].count;
  packing.launch(make_stream(rank));
}

}  // namespace

const std::vector<Case> kPackCases = {{"pack", pack},
                                      {"pack-missing-wait", pack_missing_wait},
                                      {"packed-missing-wait", packed_missing_wait},
                                      {"pack-overrun", pack_overrun}};

}  // namespace fake_gpu
