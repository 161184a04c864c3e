// SPDX-License-Identifier: Apache-2.0
//
// What the fake driver has of the ABI of libcuda.so.1: types, numbers and prototypes, declared by
// ourselves so that no CUDA header is needed. It is no copy of cuda.h: handles are bare pointers,
// results are int. abi_check.cc holds it against the real header where there is one. Whoever
// defines FAKE_GPU_NAME gets the prototypes under other names.
#ifndef TESTS_FAKES_GPU_CUDA_ABI_H
#define TESTS_FAKES_GPU_CUDA_ABI_H

#include <cstddef>
#include <cstdint>

#ifndef FAKE_GPU_NAME
#define FAKE_GPU_NAME(name) name
#endif

namespace fake_gpu {

using Handle = void*;           // CUcontext, CUstream, CUevent, CUmodule, CUfunction
using Address = std::uint64_t;  // CUdeviceptr

struct Uuid {
  unsigned char bytes[16];
};

enum CudaResult : int {
  kCudaSuccess = 0,
  kCudaInvalidValue = 1,
  kCudaOutOfMemory = 2,
  kCudaNotInitialized = 3,
  kCudaNoDevice = 100,
  kCudaInvalidDevice = 101,
  kCudaInvalidImage = 200,
  kCudaInvalidContext = 201,
  kCudaNoBinaryForGpu = 209,
  kCudaUnsupportedPtxVersion = 222,
  kCudaInvalidHandle = 400,
  kCudaNotFound = 500,
  kCudaNotReady = 600,
  kCudaIllegalAddress = 700,
  kCudaAlreadyRegistered = 712,
  kCudaNotRegistered = 713,
  kCudaLaunchFailed = 719,
  kCudaNotSupported = 801,
  kCudaSystemNotReady = 802,
  kCudaDriverMismatch = 803,
  kCudaCompatNotSupported = 804,
  kCudaUnknown = 999,
};

constexpr unsigned kStreamNonBlocking = 1, kEventDisableTiming = 2;
constexpr int kMemoryHost = 1, kMemoryDevice = 2;

enum PointerAttribute : int {
  kPointerContext = 1,
  kPointerMemoryType = 2,
  kPointerDevicePointer = 3,
  kPointerHostPointer = 4,
  kPointerBufferId = 7,
  kPointerIsManaged = 8,
  kPointerDeviceOrdinal = 9,
  kPointerRangeStart = 11,
  kPointerRangeSize = 12,
};

enum DeviceAttribute : int {
  kDeviceMultiprocessors = 16,
  kDeviceIntegrated = 18,
  kDevicePciBus = 33,
  kDevicePciDevice = 34,
  kDeviceUnifiedAddressing = 41,
  kDevicePciDomain = 50,
  kDeviceCapabilityMajor = 75,
  kDeviceCapabilityMinor = 76,
};

// X(name, parameters): every entry point, and all return CUresult.
#define FAKE_GPU_CUDA(X)                                                                          \
  X(cuInit, (unsigned flags))                                                                     \
  X(cuDriverGetVersion, (int* version))                                                           \
  X(cuGetErrorName, (int code, const char** text))                                                \
  X(cuGetErrorString, (int code, const char** text))                                              \
  X(cuGetProcAddress_v2,                                                                          \
    (const char* symbol, void** function, int version, std::uint64_t flags, int* status))         \
  X(cuDeviceGetCount, (int* count))                                                               \
  X(cuDeviceGet, (int* device, int ordinal))                                                      \
  X(cuDeviceGetName, (char* name, int bytes, int device))                                         \
  X(cuDeviceGetUuid_v2, (Uuid * uuid, int device))                                                \
  X(cuDeviceGetPCIBusId, (char* id, int bytes, int device))                                       \
  X(cuDeviceGetByPCIBusId, (int* device, const char* id))                                         \
  X(cuDeviceTotalMem_v2, (size_t * bytes, int device))                                            \
  X(cuDeviceGetAttribute, (int* value, int attribute, int device))                                \
  X(cuDeviceCanAccessPeer, (int* can, int device, int peer))                                      \
  X(cuDevicePrimaryCtxRetain, (Handle * context, int device))                                     \
  X(cuDevicePrimaryCtxRelease_v2, (int device))                                                   \
  X(cuDevicePrimaryCtxGetState, (int device, unsigned* flags, int* active))                       \
  X(cuCtxSetCurrent, (Handle context))                                                            \
  X(cuCtxGetCurrent, (Handle * context))                                                          \
  X(cuCtxGetDevice, (int* device))                                                                \
  X(cuCtxPushCurrent_v2, (Handle context))                                                        \
  X(cuCtxPopCurrent_v2, (Handle * context))                                                       \
  X(cuCtxSynchronize, ())                                                                         \
  X(cuCtxGetStreamPriorityRange, (int* least, int* greatest))                                     \
  X(cuMemAlloc_v2, (Address * address, size_t bytes))                                             \
  X(cuMemFree_v2, (Address address))                                                              \
  X(cuMemGetInfo_v2, (size_t * left, size_t * total))                                             \
  X(cuMemGetAddressRange_v2, (Address * base, size_t * bytes, Address address))                   \
  X(cuMemHostAlloc, (void** memory, size_t bytes, unsigned flags))                                \
  X(cuMemFreeHost, (void* memory))                                                                \
  X(cuMemHostRegister_v2, (void* memory, size_t bytes, unsigned flags))                           \
  X(cuMemHostUnregister, (void* memory))                                                          \
  X(cuMemHostGetDevicePointer_v2, (Address * address, void* memory, unsigned flags))              \
  X(cuMemcpyAsync, (Address to, Address from, size_t bytes, Handle stream))                       \
  X(cuMemcpyHtoDAsync_v2, (Address to, const void* from, size_t bytes, Handle stream))            \
  X(cuMemcpyDtoHAsync_v2, (void* to, Address from, size_t bytes, Handle stream))                  \
  X(cuMemcpyDtoDAsync_v2, (Address to, Address from, size_t bytes, Handle stream))                \
  X(cuMemcpyHtoD_v2, (Address to, const void* from, size_t bytes))                                \
  X(cuMemcpyDtoH_v2, (void* to, Address from, size_t bytes))                                      \
  X(cuMemcpyDtoD_v2, (Address to, Address from, size_t bytes))                                    \
  X(cuMemsetD8Async, (Address to, unsigned char value, size_t bytes, Handle stream))              \
  X(cuPointerGetAttribute, (void* data, int attribute, Address address))                          \
  X(cuPointerGetAttributes, (unsigned count, int* attributes, void** data, Address address))      \
  X(cuStreamCreate, (Handle * stream, unsigned flags))                                            \
  X(cuStreamCreateWithPriority, (Handle * stream, unsigned flags, int priority))                  \
  X(cuStreamDestroy_v2, (Handle stream))                                                          \
  X(cuStreamSynchronize, (Handle stream))                                                         \
  X(cuStreamQuery, (Handle stream))                                                               \
  X(cuStreamGetPriority, (Handle stream, int* priority))                                          \
  X(cuStreamGetCtx, (Handle stream, Handle * context))                                            \
  X(cuStreamWaitEvent, (Handle stream, Handle event, unsigned flags))                             \
  X(cuLaunchHostFunc, (Handle stream, void (*function)(void*), void* argument))                   \
  X(cuEventCreate, (Handle * event, unsigned flags))                                              \
  X(cuEventDestroy_v2, (Handle event))                                                            \
  X(cuEventRecord, (Handle event, Handle stream))                                                 \
  X(cuEventQuery, (Handle event))                                                                 \
  X(cuEventSynchronize, (Handle event))                                                           \
  X(cuEventElapsedTime, (float* milliseconds, Handle from, Handle to))                            \
  X(cuModuleLoadData, (Handle * module, const void* image))                                       \
  X(cuModuleUnload, (Handle module))                                                              \
  X(cuModuleGetFunction, (Handle * function, Handle module, const char* name))                    \
  X(cuLaunchKernel, (Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,          \
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, \
                     Handle stream, void** parameters, void** extra))

extern "C" {
#define FAKE_GPU_DECLARE(name, parameters) \
  __attribute__((visibility("default"))) int FAKE_GPU_NAME(name) parameters;
FAKE_GPU_CUDA(FAKE_GPU_DECLARE)
#undef FAKE_GPU_DECLARE
}

}  // namespace fake_gpu

#endif  // TESTS_FAKES_GPU_CUDA_ABI_H
