// SPDX-License-Identifier: Apache-2.0
//
// Every rule, broken on purpose. A case that comes to its end has found that the fake device does
// not hold the rule.
#include <unistd.h>

#include <cstring>
#include <thread>

#include "tests/fakes/gpu/probe.h"

namespace fake_gpu {
namespace {

void host_access(const Rank& rank) { memset(make_buffer(rank, 64).pointer(), 0, 1); }

void freed_memory(const Rank& rank) {
  const Buffer buffer = make_buffer(rank, 64);
  MUST(rank.api.cuMemFree_v2(buffer.device));
  read(rank, buffer);
}

void freed_twice(const Rank& rank) {
  const Buffer buffer = make_buffer(rank, 64);
  MUST(rank.api.cuMemFree_v2(buffer.device));
  rank.api.cuMemFree_v2(buffer.device);
}

void overrun(const Rank& rank) {
  const Buffer buffer = make_buffer(rank, 64);
  rank.api.cuMemsetD8Async(buffer.device + 60, 0, 5, nullptr);
}

void kernel_overrun(const Rank& rank) {
  Handle module = nullptr, function = nullptr;
  MUST(rank.api.cuModuleLoadData(&module, "FAKEFATB"));
  MUST(rank.api.cuModuleGetFunction(&function, module, "probe_add"));
  void* at = make_buffer(rank, 64).pointer();
  unsigned bytes = 65;
  unsigned char amount = 1;
  void* parameters[] = {&at, &bytes, &amount};
  rank.api.cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, make_stream(rank), parameters, nullptr);
}

void destroyed_stream(const Rank& rank) {
  const Handle stream = make_stream(rank);
  MUST(rank.api.cuStreamDestroy_v2(stream));
  rank.api.cuStreamSynchronize(stream);
}

void destroyed_event(const Rank& rank) {
  const Handle event = make_event(rank);
  MUST(rank.api.cuEventDestroy_v2(event));
  rank.api.cuEventQuery(event);
}

// One stream writes, another one reads; somebody forgot cuStreamWaitEvent.
void missing_wait(const Rank& rank) {
  const Buffer a = make_buffer(rank, 64), b = make_buffer(rank, 64);
  const Handle one = make_stream(rank), two = make_stream(rank), event = make_event(rank);
  MUST(rank.api.cuMemsetD8Async(a.device, 1, 64, one));
  MUST(rank.api.cuEventRecord(event, one));
  rank.api.cuMemcpyDtoDAsync_v2(b.device, a.device + 32, 32, two);
}

// The event was recorded before the write that it should stand for.
void early_event(const Rank& rank) {
  const Buffer a = make_buffer(rank, 64), b = make_buffer(rank, 64);
  const Handle one = make_stream(rank), two = make_stream(rank), event = make_event(rank);
  MUST(rank.api.cuEventRecord(event, one));
  MUST(rank.api.cuMemsetD8Async(a.device, 1, 64, one));
  MUST(rank.api.cuStreamWaitEvent(two, event, 0));
  rank.api.cuMemcpyDtoDAsync_v2(b.device, a.device, 64, two);
}

// The buffer is written again while another stream still reads it.
void early_reuse(const Rank& rank) {
  const Buffer a = make_buffer(rank, 64), b = make_buffer(rank, 64);
  const Handle one = make_stream(rank), two = make_stream(rank);
  MUST(rank.api.cuMemcpyDtoDAsync_v2(b.device, a.device, 64, one));
  rank.api.cuMemsetD8Async(a.device, 1, 64, two);
}

void kernel_missing_wait(const Rank& rank) {
  Handle module = nullptr, function = nullptr;
  MUST(rank.api.cuModuleLoadData(&module, "FAKEFATB"));
  MUST(rank.api.cuModuleGetFunction(&function, module, "probe_add"));
  const Buffer a = make_buffer(rank, 64);
  MUST(rank.api.cuMemsetD8Async(a.device, 1, 64, make_stream(rank)));
  void* at = a.pointer();
  unsigned bytes = 64;
  unsigned char amount = 1;
  void* parameters[] = {&at, &bytes, &amount};
  rank.api.cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, make_stream(rank), parameters, nullptr);
}

// The host gets its data in one stream, and sends it on in another.
void pinned_missing_wait(const Rank& rank) {
  void* pinned = nullptr;
  MUST(rank.api.cuMemHostAlloc(&pinned, 64, 0));
  const Buffer a = make_buffer(rank, 64), b = make_buffer(rank, 64);
  MUST(rank.api.cuMemcpyDtoHAsync_v2(pinned, a.device, 64, make_stream(rank)));
  rank.api.cuMemcpyHtoDAsync_v2(b.device, pinned, 64, make_stream(rank));
}

void no_context(const Rank& rank) {
  std::thread([&] {
    Address address = 0;
    rank.api.cuMemAlloc_v2(&address, 64);
  }).join();
}

void left_over(const Rank& rank) {
  make_buffer(rank, 64);
  make_stream(rank);
}

// ---- NCCL ----

CommHandle blocking_comm(const Rank& rank) { return make_comm(rank, true, rank.id); }

int allreduce(const Rank& rank, CommHandle comm, const Buffer& buffer, Handle stream) {
  return rank.api.ncclAllReduce(buffer.pointer(), buffer.pointer(), buffer.bytes, kUint8, kSum,
                                comm, stream);
}

// The result of an allreduce is read in a stream that did not wait for it.
void collective_missing_wait(const Rank& rank) {
  const Buffer a = make_buffer(rank, 64), b = make_buffer(rank, 64);
  const CommHandle comm = blocking_comm(rank);
  MUST(allreduce(rank, comm, a, make_stream(rank)));
  rank.api.cuMemcpyDtoDAsync_v2(b.device, a.device, 64, make_stream(rank));
}

void touch_stream(const Rank& rank) {
  const CommHandle comm = make_comm(rank, false, rank.id);
  expect(settle(rank, comm), kNcclSuccess, "init");
  const Handle stream = make_stream(rank);
  const Handle event = make_event(rank);
  expect(allreduce(rank, comm, make_buffer(rank, 64), stream), kNcclInProgress, "allreduce");
  rank.api.cuEventRecord(event, stream);
}

void touch_comm(const Rank& rank) {
  const CommHandle comm = make_comm(rank, false, rank.id);
  allreduce(rank, comm, make_buffer(rank, 64), make_stream(rank));
}

void forgotten_comm(const Rank& rank) { blocking_comm(rank); }

void aborted_comm(const Rank& rank) {
  const CommHandle comm = blocking_comm(rank);
  MUST(rank.api.ncclCommAbort(comm));
  allreduce(rank, comm, make_buffer(rank, 64), make_stream(rank));
}

void pageable(const Rank& rank) {
  static char bytes[64];
  rank.api.ncclAllReduce(bytes, bytes, 64, kUint8, kSum, blocking_comm(rank), make_stream(rank));
}

// Rank 1 launches the two the other way round.
void launch_order(const Rank& rank) {
  const CommHandle one = blocking_comm(rank);
  const CommHandle two = make_comm(rank, true, rank.share(1));
  const Buffer a = make_buffer(rank, 64), b = make_buffer(rank, 64);
  const Handle first = make_stream(rank), second = make_stream(rank);
  const bool swapped = rank.rank == 1;
  MUST(allreduce(rank, swapped ? two : one, a, first));
  MUST(allreduce(rank, swapped ? one : two, b, second));
  rank.api.cuCtxSynchronize();
}

// What the last rank asks for is another thing.
template <class Call>
void mismatch(const Rank& rank, Call call) {
  const CommHandle comm = blocking_comm(rank);
  const Handle stream = make_stream(rank);
  const Buffer buffer = make_buffer(rank, 256);
  MUST(call(buffer.pointer(), comm, stream, rank.rank == rank.ranks - 1 ? 1 : 0));
  rank.api.cuStreamSynchronize(stream);
}

void mismatch_count(const Rank& rank) {
  mismatch(rank, [&](void* at, CommHandle comm, Handle stream, int odd) {
    return rank.api.ncclAllReduce(at, at, odd ? 5 : 4, kInt8, kSum, comm, stream);
  });
}

void mismatch_type(const Rank& rank) {
  mismatch(rank, [&](void* at, CommHandle comm, Handle stream, int odd) {
    return rank.api.ncclAllReduce(at, at, 4, odd ? kUint8 : kInt8, kSum, comm, stream);
  });
}

void mismatch_op(const Rank& rank) {
  mismatch(rank, [&](void* at, CommHandle comm, Handle stream, int odd) {
    return rank.api.ncclAllReduce(at, at, 4, kInt8, odd ? kMax : kSum, comm, stream);
  });
}

void mismatch_root(const Rank& rank) {
  mismatch(rank, [&](void* at, CommHandle comm, Handle stream, int odd) {
    return rank.api.ncclBroadcast(at, at, 4, kInt8, odd, comm, stream);
  });
}

void mismatch_kind(const Rank& rank) {
  mismatch(rank, [&](void* at, CommHandle comm, Handle stream, int odd) {
    return odd ? rank.api.ncclBroadcast(at, at, 4, kInt8, 0, comm, stream)
               : rank.api.ncclAllReduce(at, at, 4, kInt8, kSum, comm, stream);
  });
}

void mismatch_message(const Rank& rank) {
  mismatch(rank, [&](void* at, CommHandle comm, Handle stream, int odd) {
    return odd ? rank.api.ncclRecv(at, 5, kInt8, 0, comm, stream)
               : rank.api.ncclSend(at, 4, kInt8, 1, comm, stream);
  });
}

}  // namespace

const std::vector<Case> kRuleCases = {{"host-access", host_access},
                                      {"freed-memory", freed_memory},
                                      {"freed-twice", freed_twice},
                                      {"overrun", overrun},
                                      {"kernel-overrun", kernel_overrun},
                                      {"destroyed-stream", destroyed_stream},
                                      {"destroyed-event", destroyed_event},
                                      {"missing-wait", missing_wait},
                                      {"early-event", early_event},
                                      {"early-reuse", early_reuse},
                                      {"kernel-missing-wait", kernel_missing_wait},
                                      {"pinned-missing-wait", pinned_missing_wait},
                                      {"no-context", no_context},
                                      {"left-over", left_over},
                                      {"collective-missing-wait", collective_missing_wait},
                                      {"touch-stream", touch_stream},
                                      {"touch-comm", touch_comm},
                                      {"forgotten-comm", forgotten_comm},
                                      {"aborted-comm", aborted_comm},
                                      {"pageable", pageable},
                                      {"launch-order", launch_order},
                                      {"mismatch-count", mismatch_count},
                                      {"mismatch-type", mismatch_type},
                                      {"mismatch-op", mismatch_op},
                                      {"mismatch-root", mismatch_root},
                                      {"mismatch-kind", mismatch_kind},
                                      {"mismatch-message", mismatch_message}};

}  // namespace fake_gpu
