// SPDX-License-Identifier: Apache-2.0
//
// What must work: every collective with every type, kernels, streams, splits.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>

#include "tests/fakes/gpu/probe.h"
#include "tests/fakes/gpu/reduce.h"

namespace fake_gpu {
namespace {

constexpr int kTypes = kBfloat16 + 1;

// Small whole numbers, so that every type has every result exactly.
double value_of(const Rank& rank, int from, size_t at, int op) {
  const size_t drawn = static_cast<size_t>(from) * 7 + at * 3 + rank.seed;
  return op == kProd ? static_cast<double>(1 + drawn % 2) : static_cast<double>(1 + drawn % 5);
}

double expected(const Rank& rank, size_t at, int op, int type) {
  double value = value_of(rank, 0, at, op);
  for (int i = 1; i < rank.ranks; ++i) {
    const double other = value_of(rank, i, at, op);
    if (op == kSum || op == kAvg) value += other;
    if (op == kProd) value *= other;
    if (op == kMax) value = std::max(value, other);
    if (op == kMin) value = std::min(value, other);
  }
  if (op != kAvg) return value;
  value /= rank.ranks;
  return type < kFloat16 ? static_cast<double>(static_cast<long>(value)) : value;
}

template <class T>
void put(char* to, double value) {
  const T element = static_cast<T>(value);
  memcpy(to, &element, sizeof element);
}

void put(int type, char* to, double value) {
  const auto half = [&](std::uint16_t bits) { memcpy(to, &bits, sizeof bits); };
  switch (type) {
    case kInt8:
      return put<std::int8_t>(to, value);
    case kUint8:
      return put<std::uint8_t>(to, value);
    case kInt32:
      return put<std::int32_t>(to, value);
    case kUint32:
      return put<std::uint32_t>(to, value);
    case kInt64:
      return put<std::int64_t>(to, value);
    case kUint64:
      return put<std::uint64_t>(to, value);
    case kFloat32:
      return put<float>(to, value);
    case kFloat64:
      return put<double>(to, value);
    case kFloat16:
      return half(to_float16(static_cast<float>(value)));
    default:
      return half(to_bfloat16(static_cast<float>(value)));
  }
}

// Elements [0, count) of what a function says.
template <class ValueAt>
std::vector<char> elements(int type, size_t count, ValueAt value_at) {
  const size_t size = size_of_type(type);
  std::vector<char> bytes(count * size);
  for (size_t i = 0; i < count; ++i) put(type, bytes.data() + i * size, value_at(i));
  return bytes;
}

// One communicator, its stream, and two buffers that are long enough for all.
struct Trial {
  const Rank& rank;
  CommHandle comm;
  Handle stream;
  Buffer in, out;
  size_t count;

  void compare(const char* what, int type, int op, size_t elements_out,
               const std::vector<char>& wanted) const {
    Buffer part = out;
    part.bytes = elements_out * size_of_type(type);
    if (read(rank, part) == wanted) return;
    fprintf(stderr, "rank %d of %d: %s of type %d, op %d, %zu elements, seed %u: wrong\n",
            rank.rank, rank.ranks, what, type, op, count, rank.seed);
    _exit(1);
  }

  // Submits, non-blocking as libhvd does, and waits.
  template <class Call>
  void run(Call call) const {
    const int code = call();
    expect(code, kNcclInProgress, "a collective of a non-blocking communicator");
    expect(settle(rank, comm), kNcclSuccess, "a collective");
    MUST(rank.api.cuStreamSynchronize(stream));
  }

  void give(int type, size_t elements_in, int op) const {
    fill(rank, in,
         elements(type, elements_in, [&](size_t i) { return value_of(rank, rank.rank, i, op); }));
  }

  void reductions(int type, int op) const {
    const Api& api = rank.api;
    const auto all = static_cast<size_t>(rank.ranks);
    const auto sum = [&](size_t i) { return expected(rank, i, op, type); };
    give(type, count, op);
    run([&] {
      return api.ncclAllReduce(in.pointer(), out.pointer(), count, type, op, comm, stream);
    });
    compare("allreduce", type, op, count, elements(type, count, sum));

    const int root = static_cast<int>(rank.seed) % rank.ranks;
    run([&] {
      return api.ncclReduce(in.pointer(), out.pointer(), count, type, op, root, comm, stream);
    });
    if (rank.rank == root) compare("reduce", type, op, count, elements(type, count, sum));

    give(type, count * all, op);
    run([&] {
      return api.ncclReduceScatter(in.pointer(), out.pointer(), count, type, op, comm, stream);
    });
    const size_t mine = static_cast<size_t>(rank.rank) * count;
    compare("reduce-scatter", type, op, count,
            elements(type, count, [&](size_t i) { return sum(mine + i); }));
  }

  void copies(int type) const {
    const Api& api = rank.api;
    const auto all = static_cast<size_t>(rank.ranks);
    const int root = static_cast<int>(rank.seed + 1) % rank.ranks;
    give(type, count, kSum);
    run([&] {
      return api.ncclBroadcast(in.pointer(), out.pointer(), count, type, root, comm, stream);
    });
    compare("broadcast", type, 0, count,
            elements(type, count, [&](size_t i) { return value_of(rank, root, i, kSum); }));

    run([&] { return api.ncclAllGather(in.pointer(), out.pointer(), count, type, comm, stream); });
    compare("allgather", type, 0, count * all, elements(type, count * all, [&](size_t i) {
              return value_of(rank, static_cast<int>(i / count), i % count, kSum);
            }));

    // All-to-all of blocks, as a group of sends and receives.
    give(type, count * all, kSum);
    const size_t block = count * size_of_type(type);
    run([&] {
      MUST(api.ncclGroupStart());
      for (size_t i = 0; i < all; ++i) {
        const int peer = static_cast<int>(i);
        char* at = static_cast<char*>(in.pointer()) + i * block;
        char* to = static_cast<char*>(out.pointer()) + i * block;
        MUST(api.ncclSend(at, count, type, peer, comm, stream));
        MUST(api.ncclRecv(to, count, type, peer, comm, stream));
      }
      return api.ncclGroupEnd();
    });
    compare("alltoall", type, 0, count * all, elements(type, count * all, [&](size_t i) {
              return value_of(rank, static_cast<int>(i / count),
                              static_cast<size_t>(rank.rank) * count + i % count, kSum);
            }));
  }
};

void run_trials(const Rank& rank, CommHandle comm) {
  static constexpr size_t kCounts[] = {1, 3, 1000, 9000, 17, 40000};
  Trial trial{rank, comm, make_stream(rank), {}, {}, kCounts[rank.seed % 6]};
  const size_t bytes = trial.count * 8 * static_cast<size_t>(rank.ranks);
  trial.in = make_buffer(rank, bytes);
  trial.out = make_buffer(rank, bytes);
  for (int type = 0; type < kTypes; ++type) {
    trial.reductions(type, static_cast<int>(rank.seed + static_cast<unsigned>(type)) % kNumOps);
    trial.copies(type);
  }
  MUST(rank.api.cuMemFree_v2(trial.in.device));
  MUST(rank.api.cuMemFree_v2(trial.out.device));
  MUST(rank.api.cuStreamDestroy_v2(trial.stream));
}

void values(const Rank& rank) {
  CommHandle comm = make_comm(rank, false, rank.id);
  expect(settle(rank, comm), kNcclSuccess, "init");
  run_trials(rank, comm);
  expect(rank.api.ncclCommFinalize(comm), kNcclInProgress, "ncclCommFinalize");
  expect(settle(rank, comm), kNcclSuccess, "finalize");
  MUST(rank.api.ncclCommDestroy(comm));
}

// Even and odd ranks are two communicators, each in the reverse order; the world goes on.
void split(const Rank& rank) {
  CommHandle world = make_comm(rank, false, rank.id);
  expect(settle(rank, world), kNcclSuccess, "init");
  const int color = rank.rank % 2;
  CommHandle child = nullptr;
  expect(rank.api.ncclCommSplit(world, color, -rank.rank, &child, nullptr), kNcclInProgress,
         "split");
  expect(settle(rank, world), kNcclSuccess, "split");
  expect(settle(rank, child), kNcclSuccess, "split");
  Rank part = rank;
  MUST(rank.api.ncclCommCount(child, &part.ranks));
  MUST(rank.api.ncclCommUserRank(child, &part.rank));
  expect(part.ranks, (rank.ranks + 1 - color) / 2, "ranks of the child");
  expect(part.rank, part.ranks - 1 - rank.rank / 2, "rank in the child");
  run_trials(part, child);
  CommHandle none = nullptr;
  const int lonely = rank.rank == 0 ? 0 : kNoColor;
  expect(rank.api.ncclCommSplit(world, lonely, 0, &none, nullptr), kNcclInProgress, "split");
  expect(settle(rank, world), kNcclSuccess, "split");
  expect((none != nullptr) == (rank.rank == 0), "only who has a color gets a communicator");
  run_trials(rank, world);
  MUST(rank.api.ncclGroupStart());
  for (CommHandle comm : {world, child, none}) {
    if (comm != nullptr) MUST(rank.api.ncclCommAbort(comm));
  }
  MUST(rank.api.ncclGroupEnd());
}

// Ranks that are threads of one process, each with its own device.
void threads(const Rank& process) {
  std::vector<std::thread> ranks;
  for (int i = 0; i < 2; ++i) {
    ranks.emplace_back([&process, i] {
      Rank rank = process;
      rank.rank = i;
      rank.ranks = 2;
      Handle context = nullptr;
      MUST(rank.api.cuDevicePrimaryCtxRetain(&context, i));
      MUST(rank.api.cuCtxSetCurrent(context));
      CommHandle comm = make_comm(rank, false, rank.id);
      expect(settle(rank, comm), kNcclSuccess, "init");
      run_trials(rank, comm);
      MUST(rank.api.ncclCommDestroy(comm));
      MUST(rank.api.cuDevicePrimaryCtxRelease_v2(i));
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

// A kernel works on device memory; its parameters were copied at the launch.
void kernel(const Rank& rank) {
  Handle module = nullptr, function = nullptr;
  MUST(rank.api.cuModuleLoadData(&module, "FAKEFATB"));
  expect(rank.api.cuModuleGetFunction(&function, module, "no_such"), kCudaNotFound, "no_such");
  MUST(rank.api.cuModuleGetFunction(&function, module, "probe_add"));
  const Handle stream = make_stream(rank);
  const Buffer buffer = make_buffer(rank, 1000);
  MUST(rank.api.cuMemsetD8Async(buffer.device, 1, 1000, stream));
  {
    void* at = buffer.pointer();
    unsigned bytes = 1000;
    unsigned char amount = 41;
    void* parameters[] = {&at, &bytes, &amount};
    MUST(rank.api.cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, stream, parameters, nullptr));
    at = nullptr;
    bytes = 7;
    amount = 0;
  }
  MUST(rank.api.cuStreamSynchronize(stream));
  expect(read(rank, buffer) == std::vector<char>(1000, 42), "the kernel added 41 to 1000 bytes");
  MUST(rank.api.cuMemFree_v2(buffer.device));
  MUST(rank.api.cuStreamDestroy_v2(stream));
  MUST(rank.api.cuModuleUnload(module));
}

// Work in two streams, ordered by an event, by a host wait, and by a query; in the NULL stream by
// nothing.
void ordered(const Rank& rank) {
  const Api& api = rank.api;
  Handle blocking = nullptr;
  MUST(api.cuStreamCreate(&blocking, 0));
  const Handle one = make_stream(rank), two = make_stream(rank), event = make_event(rank);
  const Buffer a = make_buffer(rank, 100), b = make_buffer(rank, 100);
  for (int round = 0; round < 4; ++round) {
    const auto value = static_cast<unsigned char>(round + 1);
    MUST(api.cuMemsetD8Async(a.device, value, 100, one));
    MUST(api.cuEventRecord(event, one));
    if (round == 0) MUST(api.cuStreamWaitEvent(two, event, 0));
    if (round == 1) MUST(api.cuEventSynchronize(event));
    if (round == 2) MUST(api.cuStreamSynchronize(one));
    while (round == 3 && api.cuEventQuery(event) != kCudaSuccess) continue;
    MUST(api.cuMemcpyDtoDAsync_v2(b.device, a.device, 100, two));
    MUST(api.cuStreamSynchronize(two));
    expect(read(rank, b) == std::vector<char>(100, static_cast<char>(value)),
           "two saw what one wrote");
  }
  MUST(api.cuMemsetD8Async(a.device, 9, 100, blocking));
  MUST(api.cuMemcpyDtoDAsync_v2(b.device, a.device, 100, nullptr));
  MUST(api.cuMemsetD8Async(a.device, 8, 100, blocking));
  MUST(api.cuCtxSynchronize());
  expect(read(rank, b) == std::vector<char>(100, 9), "the NULL stream waits for blocking streams");
  for (const Handle stream : {one, two, blocking}) MUST(api.cuStreamDestroy_v2(stream));
  MUST(api.cuEventDestroy_v2(event));
  MUST(api.cuMemFree_v2(a.device));
  MUST(api.cuMemFree_v2(b.device));
}

void questions(const Rank& rank) {
  const Api& api = rank.api;
  int count = 0, version = 0;
  char id[32], other[32];
  Uuid uuid, another;
  MUST(api.cuDeviceGetCount(&count));
  MUST(api.cuDriverGetVersion(&version));
  MUST(api.cuDeviceGetPCIBusId(id, sizeof id, 0));
  MUST(api.cuDeviceGetPCIBusId(other, sizeof other, 1));
  MUST(api.cuDeviceGetUuid_v2(&uuid, 0));
  MUST(api.cuDeviceGetUuid_v2(&another, 1));
  expect(strcmp(id, other) != 0 && memcmp(&uuid, &another, sizeof uuid) != 0, "devices differ");
  expect(api.cuDeviceGet(&version, count), kCudaInvalidDevice, "no device after the last");
  const Buffer buffer = make_buffer(rank, 300);
  int attributes[] = {kPointerMemoryType, kPointerDeviceOrdinal, kPointerRangeSize};
  unsigned type = 9;
  int device = 9;
  size_t size = 9;
  void* answers[] = {&type, &device, &size};
  MUST(api.cuPointerGetAttributes(3, attributes, answers, buffer.device + 299));
  expect(type == kMemoryDevice && device == rank.local_rank && size == 300, "device memory");
  MUST(api.cuPointerGetAttributes(3, attributes, answers, reinterpret_cast<Address>(&size)));
  expect(type == 0 && device == -2 && size == 0, "pageable memory is nothing to CUDA");
  expect(api.cuPointerGetAttribute(&type, kPointerMemoryType, reinterpret_cast<Address>(&size)),
         kCudaInvalidValue, "and asked alone an error");
  void* found = nullptr;
  MUST(api.cuGetProcAddress_v2("cuMemAlloc", &found, 12000, 0, nullptr));
  expect(found == reinterpret_cast<void*>(api.cuMemAlloc_v2), "cuGetProcAddress knows versions");
  const char* text = nullptr;
  MUST(api.cuGetErrorName(kCudaIllegalAddress, &text));
  expect(strcmp(text, "CUDA_ERROR_ILLEGAL_ADDRESS") == 0, text);
  MUST(api.cuMemFree_v2(buffer.device));
}

}  // namespace

const std::vector<Case> kValueCases = {{"values", values},   {"split", split},
                                       {"threads", threads}, {"kernel", kernel},
                                       {"ordered", ordered}, {"questions", questions}};

}  // namespace fake_gpu

// A kernel's host twin, and what it touches.
extern "C" __attribute__((visibility("default"))) void hvd_gpu_host_probe_add(unsigned, unsigned,
                                                                              void** parameters) {
  auto* at = *static_cast<unsigned char**>(parameters[0]);
  const unsigned bytes = *static_cast<unsigned*>(parameters[1]);
  const unsigned char amount = *static_cast<unsigned char*>(parameters[2]);
  for (unsigned i = 0; i < bytes; ++i) at[i] = static_cast<unsigned char>(at[i] + amount);
}

extern "C" __attribute__((visibility("default"))) void hvd_gpu_touch_probe_add(
    unsigned, unsigned, void** parameters, void (*touch)(void*, const void*, size_t, int),
    void* cookie) {
  touch(cookie, *static_cast<void**>(parameters[0]), *static_cast<unsigned*>(parameters[1]), 1);
}
