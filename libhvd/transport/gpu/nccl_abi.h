// SPDX-License-Identifier: Apache-2.0
//
// What libhvd uses of NCCL, declared by ourselves: no header of NCCL is needed to build.
// tests/unit/gpu_abi_test.cc compares with the real one where it is installed.
#pragma once

#include <climits>
#include <cstddef>

#include "libhvd/transport/gpu/cuda_abi.h"

namespace hvd::nccl {

using Result = int;
using DataType = int;
using Reduction = int;
using Communicator = struct CommunicatorOfNccl*;
using Window = struct WindowOfNccl*;
using cuda::Stream;

constexpr Result kSuccess = 0;
constexpr Result kUnhandledCudaError = 1;
constexpr Result kSystemError = 2;
constexpr Result kInternalError = 3;
constexpr Result kInvalidArgument = 4;
constexpr Result kInvalidUsage = 5;
constexpr Result kRemoteError = 6;
constexpr Result kInProgress = 7;

constexpr DataType kInt8 = 0;
constexpr DataType kUint8 = 1;
constexpr DataType kInt32 = 2;
constexpr DataType kInt64 = 4;
constexpr DataType kFloat16 = 6;
constexpr DataType kFloat32 = 7;
constexpr DataType kFloat64 = 8;
constexpr DataType kBfloat16 = 9;

constexpr Reduction kSum = 0;
constexpr Reduction kProduct = 1;
constexpr Reduction kMax = 2;
constexpr Reduction kMin = 3;

constexpr int kSplitNoColor = -1;
constexpr int kShrinkAbort = 1;
constexpr int kWindowSymmetric = 1;

struct UniqueId {
  char internal[128];
};

// As far as 2.28 knows it. NCCL reads what both sides know: `size` and `version` say who we are.
constexpr int kUndefined = INT_MIN;
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 22809;
  int blocking = kUndefined;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
  int traffic_class = kUndefined;
  const char* comm_name = nullptr;
  int collnet_enable = kUndefined;
  int cta_policy = kUndefined;
  int shrink_share = kUndefined;
  int nvls_ctas = kUndefined;
  int channels_per_net_peer = kUndefined;
  int nvlink_centric_sched = kUndefined;
};

// function(name, need, first version, result, parameters); versions as ncclGetVersion's.
#define HVD_NCCL_FUNCTIONS(function)                                                               \
  function(ncclGetVersion, kRequired, 21400, Result, (int*)) function(                             \
      ncclGetUniqueId, kRequired, 21400, Result,                                                   \
      (UniqueId*)) function(ncclGetErrorString, kRequired, 21400, const char*, (Result))           \
      function(ncclGetLastError, kRequired, 21400, const char*, (Communicator)) function(          \
          ncclCommInitRankConfig, kRequired, 21400, Result,                                        \
          (Communicator*, int, UniqueId, int,                                                      \
           Config*)) function(ncclCommInitRankScalable, kOptional, 22304, Result,                  \
                              (Communicator*, int, int, int, UniqueId*, Config*))                  \
          function(ncclCommSplit, kOptional, 21801, Result,                                        \
                   (Communicator, int, int, Communicator*,                                         \
                    Config*)) function(ncclCommShrink, kOptional, 22703, Result,                   \
                                       (Communicator, int*, int, Communicator*, Config*, int))     \
              function(ncclCommFinalize, kRequired, 21400, Result, (Communicator)) function(       \
                  ncclCommDestroy,                                                                 \
                  kRequired, 21400, Result, (Communicator))                                        \
                  function(ncclCommAbort, kRequired, 21400, Result, (Communicator)) function(      \
                      ncclCommRevoke,                                                              \
                      kOptional, 22807, Result, (Communicator, int))                               \
                      function(ncclCommGetAsyncError, kRequired, 21400, Result,                    \
                               (Communicator, Result*))                                            \
                          function(ncclMemAlloc, kOptional, 21901, Result, (void**, size_t))       \
                              function(                                                            \
                                  ncclMemFree,                                                     \
                                  kOptional, 21901, Result,                                        \
                                  (void*)) function(ncclCommRegister, kOptional, 21901, Result,    \
                                                    (Communicator, void*, size_t,                  \
                                                     void**)) function(ncclCommDeregister,         \
                                                                       kOptional, 21901, Result,   \
                                                                       (Communicator, void*))      \
                                  function(ncclCommWindowRegister, kOptional, 22703, Result,       \
                                           (Communicator, void*, size_t, Window*, int))            \
                                      function(ncclCommWindowDeregister, kOptional, 22703, Result, \
                                               (Communicator, Window))                             \
                                          function(ncclGroupStart, kRequired, 21400, Result,       \
                                                   ()) function(ncclGroupEnd, kRequired, 21400,    \
                                                                Result,                            \
                                                                ())                                \
                                              function(ncclAllReduce, kRequired, 21400, Result,    \
                                                       (const void*, void*, size_t, DataType,      \
                                                        Reduction, Communicator, Stream))          \
                                                  function(ncclReduceScatter, kRequired, 21400,    \
                                                           Result,                                 \
                                                           (const void*, void*, size_t, DataType,  \
                                                            Reduction, Communicator, Stream))      \
                                                      function(                                    \
                                                          ncclReduce, kRequired,                   \
                                                          21400, Result,                           \
                                                          (const void*, void*, size_t, DataType,   \
                                                           Reduction, int, Communicator, Stream))  \
                                                          function(                                \
                                                              ncclAllGather, kRequired, 21400,     \
                                                              Result,                              \
                                                              (const void*, void*, size_t,         \
                                                               DataType, Communicator, Stream))    \
                                                              function(ncclBroadcast, kRequired,   \
                                                                       21400, Result,              \
                                                                       (const void*, void*,        \
                                                                        size_t, DataType, int,     \
                                                                        Communicator, Stream))     \
                                                                  function(ncclSend, kRequired,    \
                                                                           21400, Result,          \
                                                                           (const void*, size_t,   \
                                                                            DataType, int,         \
                                                                            Communicator, Stream)) \
                                                                      function(                    \
                                                                          ncclRecv, kRequired,     \
                                                                          21400, Result,           \
                                                                          (void*, size_t,          \
                                                                           DataType, int,          \
                                                                           Communicator, Stream))

// Each a pointer; an optional one that the library lacks is null.
struct Functions {
#define HVD_MEMBER(name, need, since, result, parameters) result(*name) parameters = nullptr;
  HVD_NCCL_FUNCTIONS(HVD_MEMBER)
#undef HVD_MEMBER
};

}  // namespace hvd::nccl
