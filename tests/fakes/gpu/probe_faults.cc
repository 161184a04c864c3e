// SPDX-License-Identifier: Apache-2.0
//
// What can go wrong around a program that breaks no rule: planted errors and hangs, and that one
// gets out of them by abort.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tests/fakes/gpu/probe.h"

namespace fake_gpu {
namespace {

// The job of all cases: allreduces on two communicators, until an error is seen or one takes too
// long.
struct Job {
  const Rank& rank;
  CommHandle comms[2] = {};
  Handle streams[2] = {};
  Handle events[2] = {};
  Buffer buffers[2];

  explicit Job(const Rank& the_rank) : rank(the_rank) {
    for (int i = 0; i < 2; ++i) {
      streams[i] = make_stream(rank);
      events[i] = make_event(rank);
      buffers[i] = make_buffer(rank, 300000);
    }
  }

  void open() {
    for (int i = 0; i < 2; ++i) {
      comms[i] = make_comm(rank, false, i == 0 ? rank.id : rank.share(1));
      expect(settle(rank, comms[i]), kNcclSuccess, "init");
    }
  }

  int launch(int which) {
    const int code = rank.api.ncclAllReduce(buffers[which].pointer(), buffers[which].pointer(),
                                            1000, kInt32, kSum, comms[which], streams[which]);
    if (code != kNcclInProgress) return code;
    const int error = settle(rank, comms[which]);
    if (error == kNcclSuccess) MUST(rank.api.cuEventRecord(events[which], streams[which]));
    return error;
  }

  // An error, or -1 if the event did not come in the time.
  int watch(int which, int milliseconds) {
    for (int i = 0; i < milliseconds; ++i) {
      const int code = rank.api.cuEventQuery(events[which]);
      if (code == kCudaSuccess) return kNcclSuccess;
      if (code != kCudaNotReady) return code;
      const int error = settle(rank, comms[which]);
      if (error != kNcclSuccess) return error;
      usleep(1000);
    }
    return -1;
  }

  int run(int times, int milliseconds) {
    for (int i = 0; i < times; ++i) {
      for (int which = 0; which < 2; ++which) {
        if (const int code = launch(which)) return code;
      }
      for (int which = 0; which < 2; ++which) {
        if (const int code = watch(which, milliseconds)) return code;
      }
    }
    return kNcclSuccess;
  }

  void abort_in_group() {
    MUST(rank.api.ncclGroupStart());
    MUST(rank.api.ncclCommAbort(comms[0]));
    MUST(rank.api.ncclCommAbort(comms[1]));
    MUST(rank.api.ncclGroupEnd());
  }
};

// What the job ends with, printed, and out.
void errors(const Rank& rank) {
  Job job(rank);
  job.open();
  const int code = job.run(10, 600);
  printf("rank %d: %d, %s\n", rank.rank, code, rank.api.ncclGetLastError(nullptr));
  job.abort_in_group();
}

void one_by_one(const Rank& rank) {
  Job job(rank);
  job.open();
  job.launch(0);
  job.launch(1);
  MUST(rank.api.ncclCommAbort(job.comms[0]));
}

void wait_for_ever(const Rank& rank) {
  Job job(rank);
  job.open();
  job.launch(0);
  rank.api.cuEventSynchronize(job.events[0]);
}

// Init that does not end is aborted after a while.
void init(const Rank& rank) {
  const CommHandle comm = make_comm(rank, false, rank.id);
  int error = kNcclInProgress;
  for (int i = 0; i < 200 && error == kNcclInProgress; ++i) {
    MUST(rank.api.ncclCommGetAsyncError(comm, &error));
    usleep(1000);
  }
  printf("rank %d: init %d, %s\n", rank.rank, error, rank.api.ncclGetLastError(comm));
  MUST(rank.api.ncclCommAbort(comm));
}

void init_blocking(const Rank& rank) {
  CommHandle comm = nullptr;
  const int code = rank.api.ncclCommInitRank(&comm, rank.ranks, rank.id, rank.rank);
  printf("rank %d: init %d, %s\n", rank.rank, code, rank.api.ncclGetLastError(nullptr));
  if (comm != nullptr) MUST(rank.api.ncclCommAbort(comm));
}

// All ranks on one GPU of their node.
void same_gpu(const Rank& rank) {
  Handle context = nullptr;
  MUST(rank.api.cuDevicePrimaryCtxRetain(&context, 3));
  MUST(rank.api.cuCtxSetCurrent(context));
  init_blocking(rank);
}

// A kernel that fails breaks its device: what is asked afterwards says so.
void broken_device(const Rank& rank) {
  Handle module = nullptr, function = nullptr;
  const int loaded = rank.api.cuModuleLoadData(&module, "FAKEFATB");
  if (loaded != kCudaSuccess) {
    printf("module %d\n", loaded);
    return;
  }
  MUST(rank.api.cuModuleGetFunction(&function, module, "probe_add"));
  const Handle stream = make_stream(rank);
  void* at = make_buffer(rank, 64).pointer();
  unsigned bytes = 64;
  unsigned char amount = 1;
  void* parameters[] = {&at, &bytes, &amount};
  MUST(rank.api.cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, stream, parameters, nullptr));
  printf("kernel %d\n", rank.api.cuStreamSynchronize(stream));
  Address address = 0;
  printf("afterwards %d\n", rank.api.cuMemAlloc_v2(&address, 64));
  MUST(rank.api.cuStreamDestroy_v2(stream));
  fflush(stdout);
  _exit(0);  // the context cannot be given back
}

void versions(const Rank& rank) {
  int driver = 0, nccl = 0;
  MUST(rank.api.cuDriverGetVersion(&driver));
  MUST(rank.api.ncclGetVersion(&nccl));
  printf("driver %d, nccl %d\n", driver, nccl);
}

// Ranks that are killed while others wait for them; those end by themselves later.
void killed_at_init(const Rank& rank) {
  if (rank.rank != 0) raise(SIGKILL);
  const CommHandle comm = make_comm(rank, false, rank.id);
  usleep(20000);
  (void)comm;
  raise(SIGKILL);
}

}  // namespace

const std::vector<Case> kFaultCases = {{"errors", errors},
                                       {"one-by-one", one_by_one},
                                       {"wait-for-ever", wait_for_ever},
                                       {"init", init},
                                       {"init-blocking", init_blocking},
                                       {"same-gpu", same_gpu},
                                       {"broken-device", broken_device},
                                       {"versions", versions},
                                       {"killed-at-init", killed_at_init}};

}  // namespace fake_gpu
