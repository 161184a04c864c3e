// SPDX-License-Identifier: Apache-2.0
//
// What libhvd uses of CUDA's driver API, declared by ourselves: no header of CUDA is needed to
// build. tests/unit/gpu_abi_test.cc compares with the real one where it is installed. The names of
// functions are those of the library, with the version that cuda.h puts behind them.
#pragma once

#include <cstddef>

namespace hvd::cuda {

using Result = int;
using Device = int;
using Address = unsigned long long;
using Context = struct ContextOfCuda*;
using Stream = struct StreamOfCuda*;
using Event = struct EventOfCuda*;
using Module = struct ModuleOfCuda*;
using Function = struct FunctionOfCuda*;

struct Uuid {
  char bytes[16];
};

constexpr Result kSuccess = 0;
constexpr Result kErrorOutOfMemory = 2;
constexpr Result kErrorNoDevice = 100;
constexpr Result kErrorNoBinaryForGpu = 209;
constexpr Result kErrorNotReady = 600;
constexpr Result kErrorSystemNotReady = 802;
constexpr Result kErrorSystemDriverMismatch = 803;
constexpr Result kErrorCompatNotSupported = 804;

constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventDisableTiming = 2;
constexpr int kAttributeMultiprocessors = 16;  // of a device
constexpr int kPointerContext = 1;
constexpr int kPointerMemoryType = 2;
constexpr int kPointerDeviceOrdinal = 9;
constexpr unsigned kMemoryOfDevice = 2;  // a value of kPointerMemoryType

// function(name, need, first version, result, parameters); versions as cuDriverGetVersion's.
#define HVD_CUDA_FUNCTIONS(function)                                                                  \
  function(cuInit, kRequired, 11000, Result, (unsigned)) function(                                    \
      cuDriverGetVersion, kRequired, 11000, Result,                                                   \
      (int*)) function(cuGetErrorName, kRequired, 11000, Result,                                      \
                       (Result, const char**)) function(cuGetErrorString, kRequired, 11000,           \
                                                        Result, (Result, const char**))               \
      function(cuDeviceGet, kRequired, 11000, Result, (Device*, int)) function(                       \
          cuDeviceGetCount, kRequired, 11000, Result,                                                 \
          (int*)) function(cuDeviceGetName, kRequired, 11000, Result,                                 \
                           (char*, int, Device)) function(cuDeviceGetUuid_v2, kOptional, 11040,       \
                                                          Result, (Uuid*, Device))                    \
          function(cuDeviceGetPCIBusId, kRequired, 11000, Result, (char*, int, Device)) function(     \
              cuDeviceGetAttribute, kRequired,                                                        \
              11000, Result,                                                                          \
              (int*, int, Device)) function(cuDevicePrimaryCtxRetain, kRequired, 11000, Result,       \
                                            (Context*, Device))                                       \
              function(cuDevicePrimaryCtxRelease_v2, kRequired, 11000, Result,                        \
                       (Device)) function(cuCtxSetCurrent, kRequired, 11000, Result, (Context))       \
                  function(cuCtxGetCurrent, kRequired, 11000, Result, (Context*)) function(           \
                      cuCtxGetStreamPriorityRange,                                                    \
                      kRequired, 11000, Result,                                                       \
                      (int*, int*)) function(cuStreamCreateWithPriority, kRequired, 11000, Result,    \
                                             (Stream*, unsigned, int))                                \
                      function(cuStreamDestroy_v2, kRequired, 11000, Result, (Stream)) function(      \
                          cuStreamQuery, kRequired, 11000,                                            \
                          Result,                                                                     \
                          (                                                                           \
                              Stream)) function(cuStreamSynchronize, kRequired, 11000, Result,        \
                                                (Stream))                                             \
                          function(cuStreamWaitEvent, kRequired, 11000, Result,                       \
                                   (Stream, Event,                                                    \
                                    unsigned)) function(cuEventCreate, kRequired, 11000, Result,      \
                                                        (Event*, unsigned))                           \
                              function(                                                               \
                                  cuEventDestroy_v2, kRequired,                                       \
                                  11000, Result,                                                      \
                                  (Event)) function(cuEventRecord, kRequired, 11000, Result,          \
                                                    (Event, Stream))                                  \
                                  function(cuEventQuery, kRequired, 11000, Result, (Event)) function( \
                                      cuEventSynchronize,                                             \
                                      kRequired, 11000,                                               \
                                      Result,                                                         \
                                      (Event)) function(cuMemAlloc_v2, kRequired, 11000, Result,      \
                                                        (Address*, size_t))                           \
                                      function(cuMemFree_v2, kRequired, 11000, Result, (Address))     \
                                          function(cuMemGetInfo_v2, kRequired, 11000, Result,         \
                                                   (size_t*, size_t*))                                \
                                              function(cuMemHostAlloc, kRequired, 11000, Result,      \
                                                       (void**, size_t, unsigned))                    \
                                                  function(                                           \
                                                      cuMemFreeHost, kRequired,                       \
                                                      11000, Result,                                  \
                                                      (void*)) function(cuMemcpyDtoDAsync_v2,         \
                                                                        kRequired, 11000, Result,     \
                                                                        (Address, Address, size_t,    \
                                                                         Stream))                     \
                                                      function(                                       \
                                                          cuMemcpyDtoHAsync_v2, kRequired, 11000,     \
                                                          Result,                                     \
                                                          (                                           \
                                                              void*, Address,                         \
                                                              size_t,                                 \
                                                              Stream)) function(cuMemcpyHtoDAsync_v2, \
                                                                                kRequired,            \
                                                                                11000, Result,        \
                                                                                (Address,             \
                                                                                 const void*, size_t, \
                                                                                 Stream))             \
                                                          function(                                   \
                                                              cuMemsetD8Async,                        \
                                                              kRequired, 11000, Result,               \
                                                              (Address, unsigned char, size_t,        \
                                                               Stream))                               \
                                                              function(                               \
                                                                  cuPointerGetAttribute,              \
                                                                  kRequired, 11000, Result,           \
                                                                  (void*, int, Address))              \
                                                                  function(cuModuleLoadData,          \
                                                                           kRequired, 11000,          \
                                                                           Result,                    \
                                                                           (Module*, const void*))    \
                                                                      function(cuModuleUnload,        \
                                                                               kRequired, 11000,      \
                                                                               Result,                \
                                                                               (Module))              \
                                                                          function(                   \
                                                                              cuModuleGetFunction,    \
                                                                              kRequired, 11000,       \
                                                                              Result,                 \
                                                                              (Function*, Module,     \
                                                                               const char*))          \
                                                                              function(               \
                                                                                  cuLaunchKernel,     \
                                                                                  kRequired,          \
                                                                                  11000, Result,      \
                                                                                  (Function,          \
                                                                                   unsigned,          \
                                                                                   unsigned,          \
                                                                                   unsigned,          \
                                                                                   unsigned,          \
                                                                                   unsigned,          \
                                                                                   unsigned,          \
                                                                                   unsigned,          \
                                                                                   Stream, void**,    \
                                                                                   void**))

// Each a pointer; an optional one that the library lacks is null.
struct Functions {
#define HVD_MEMBER(name, need, since, result, parameters) result(*name) parameters = nullptr;
  HVD_CUDA_FUNCTIONS(HVD_MEMBER)
#undef HVD_MEMBER
};

}  // namespace hvd::cuda
