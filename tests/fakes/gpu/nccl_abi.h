// SPDX-License-Identifier: Apache-2.0
//
// What the fake NCCL has of the ABI of libnccl.so.2, declared by ourselves. As cuda_abi.h: no copy
// of nccl.h, and held against it by abi_check.cc where it is installed. Symbols newer than 2.23 are
// missing on purpose: they are optional.
#ifndef TESTS_FAKES_GPU_NCCL_ABI_H
#define TESTS_FAKES_GPU_NCCL_ABI_H

#include <climits>
#include <cstddef>

#ifndef FAKE_GPU_NAME
#define FAKE_GPU_NAME(name) name
#endif

namespace fake_gpu {

struct FakeComm;
using CommHandle = FakeComm*;  // ncclComm_t
using StreamHandle = void*;    // cudaStream_t

struct UniqueId {
  char internal[128];
};

enum NcclResult : int {
  kNcclSuccess = 0,
  kNcclUnhandledCudaError = 1,
  kNcclSystemError = 2,
  kNcclInternalError = 3,
  kNcclInvalidArgument = 4,
  kNcclInvalidUsage = 5,
  kNcclRemoteError = 6,
  kNcclInProgress = 7,
};

enum NcclType : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
};

enum NcclOp : int { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4, kNumOps = 5 };

constexpr int kUndefined = INT_MIN;  // of a field of Config
constexpr int kNoColor = -1;
constexpr unsigned kConfigMagic = 0xcafebeef;

// The start of ncclConfig_t; it says its size, and who reads more than that reads nothing.
struct Config {
  size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};

// X(name, parameters): every entry point that returns ncclResult_t.
#define FAKE_GPU_NCCL(X)                                                                           \
  X(ncclGetVersion, (int* version))                                                                \
  X(ncclGetUniqueId, (UniqueId * id))                                                              \
  X(ncclCommInitRank, (CommHandle * comm, int ranks, UniqueId id, int rank))                       \
  X(ncclCommInitRankConfig, (CommHandle * comm, int ranks, UniqueId id, int rank, Config* config)) \
  X(ncclCommInitRankScalable,                                                                      \
    (CommHandle * comm, int ranks, int rank, int ids, UniqueId* id, Config* config))               \
  X(ncclCommSplit, (CommHandle parent, int color, int key, CommHandle* comm, Config* config))      \
  X(ncclCommFinalize, (CommHandle comm))                                                           \
  X(ncclCommDestroy, (CommHandle comm))                                                            \
  X(ncclCommAbort, (CommHandle comm))                                                              \
  X(ncclCommGetAsyncError, (CommHandle comm, int* error))                                          \
  X(ncclCommCount, (const CommHandle comm, int* count))                                            \
  X(ncclCommCuDevice, (const CommHandle comm, int* device))                                        \
  X(ncclCommUserRank, (const CommHandle comm, int* rank))                                          \
  X(ncclMemAlloc, (void** memory, size_t bytes))                                                   \
  X(ncclMemFree, (void* memory))                                                                   \
  X(ncclCommRegister, (const CommHandle comm, void* memory, size_t bytes, void** handle))          \
  X(ncclCommDeregister, (const CommHandle comm, void* handle))                                     \
  X(ncclAllReduce, (const void* in, void* out, size_t count, int type, int op, CommHandle comm,    \
                    StreamHandle stream))                                                          \
  X(ncclReduce, (const void* in, void* out, size_t count, int type, int op, int root,              \
                 CommHandle comm, StreamHandle stream))                                            \
  X(ncclBroadcast, (const void* in, void* out, size_t count, int type, int root, CommHandle comm,  \
                    StreamHandle stream))                                                          \
  X(ncclAllGather,                                                                                 \
    (const void* in, void* out, size_t count, int type, CommHandle comm, StreamHandle stream))     \
  X(ncclReduceScatter, (const void* in, void* out, size_t count, int type, int op,                 \
                        CommHandle comm, StreamHandle stream))                                     \
  X(ncclSend,                                                                                      \
    (const void* in, size_t count, int type, int peer, CommHandle comm, StreamHandle stream))      \
  X(ncclRecv, (void* out, size_t count, int type, int peer, CommHandle comm, StreamHandle stream)) \
  X(ncclGroupStart, ())                                                                            \
  X(ncclGroupEnd, ())

extern "C" {
#define FAKE_GPU_DECLARE(name, parameters) \
  __attribute__((visibility("default"))) int FAKE_GPU_NAME(name) parameters;
FAKE_GPU_NCCL(FAKE_GPU_DECLARE)
#undef FAKE_GPU_DECLARE
__attribute__((visibility("default"))) const char* FAKE_GPU_NAME(ncclGetErrorString)(int result);
__attribute__((visibility("default"))) const char* FAKE_GPU_NAME(ncclGetLastError)(CommHandle comm);
}

}  // namespace fake_gpu

#endif  // TESTS_FAKES_GPU_NCCL_ABI_H
