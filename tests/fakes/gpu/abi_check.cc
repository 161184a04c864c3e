// SPDX-License-Identifier: Apache-2.0
//
// Compiled only: our declarations against the real cuda.h and nccl.h, where the compiler finds
// them. Every prototype has as many parameters as the real one, each of the same size and kind, and
// every number is the real one.
#define FAKE_GPU_NAME(name) fake_##name
#include <type_traits>

#include "tests/fakes/gpu/cuda_abi.h"
#include "tests/fakes/gpu/nccl_abi.h"

#if __has_include(<cuda.h>) && __has_include(<cuda_runtime.h>) && __has_include(<nccl.h>)
#include <cuda.h>
#include <nccl.h>

namespace fake_gpu {
namespace {

template <class A, class B>
constexpr bool same_kind =
    sizeof(A) == sizeof(B) && alignof(A) == alignof(B) &&
    std::is_pointer_v<A> == std::is_pointer_v<B>&& std::is_class_v<A> == std::is_class_v<B>;

template <class A, class B>
constexpr bool same_abi = false;
template <class R, class... A, class S, class... B>
constexpr bool same_abi<R(A...), S(B...)> = [] {
  if constexpr (sizeof...(A) == sizeof...(B)) {
    return same_kind<R, S> && (same_kind<A, B> && ...);
  } else {
    return false;
  }
}();

#define FAKE_GPU_CHECK(name, parameters)                           \
  static_assert(same_abi<decltype(::name), decltype(fake_##name)>, \
                #name " is declared otherwise in the real header");
#if CUDA_VERSION >= 13000
FAKE_GPU_CUDA(FAKE_GPU_CHECK)
#endif
#if NCCL_VERSION_CODE >= 22304
FAKE_GPU_NCCL(FAKE_GPU_CHECK)
#endif
FAKE_GPU_CHECK(ncclGetErrorString, )
FAKE_GPU_CHECK(ncclGetLastError, )

static_assert(!same_abi<int(int), int(int, int)> && !same_abi<int(void*), int(long)> &&
                  !same_abi<int(int), int(long)>,
              "the check itself sees what differs");

constexpr int kNumbers[][2] = {
    {kCudaSuccess, CUDA_SUCCESS},
    {kCudaInvalidValue, CUDA_ERROR_INVALID_VALUE},
    {kCudaOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY},
    {kCudaNotInitialized, CUDA_ERROR_NOT_INITIALIZED},
    {kCudaNoDevice, CUDA_ERROR_NO_DEVICE},
    {kCudaInvalidDevice, CUDA_ERROR_INVALID_DEVICE},
    {kCudaInvalidImage, CUDA_ERROR_INVALID_IMAGE},
    {kCudaInvalidContext, CUDA_ERROR_INVALID_CONTEXT},
    {kCudaNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU},
    {kCudaUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION},
    {kCudaInvalidHandle, CUDA_ERROR_INVALID_HANDLE},
    {kCudaNotFound, CUDA_ERROR_NOT_FOUND},
    {kCudaNotReady, CUDA_ERROR_NOT_READY},
    {kCudaIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS},
    {kCudaAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED},
    {kCudaNotRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED},
    {kCudaLaunchFailed, CUDA_ERROR_LAUNCH_FAILED},
    {kCudaNotSupported, CUDA_ERROR_NOT_SUPPORTED},
    {kCudaSystemNotReady, CUDA_ERROR_SYSTEM_NOT_READY},
    {kCudaDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH},
    {kCudaCompatNotSupported, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE},
    {kCudaUnknown, CUDA_ERROR_UNKNOWN},
    {kStreamNonBlocking, CU_STREAM_NON_BLOCKING},
    {kEventDisableTiming, CU_EVENT_DISABLE_TIMING},
    {kMemoryHost, CU_MEMORYTYPE_HOST},
    {kMemoryDevice, CU_MEMORYTYPE_DEVICE},
    {kPointerContext, CU_POINTER_ATTRIBUTE_CONTEXT},
    {kPointerMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE},
    {kPointerDevicePointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER},
    {kPointerHostPointer, CU_POINTER_ATTRIBUTE_HOST_POINTER},
    {kPointerBufferId, CU_POINTER_ATTRIBUTE_BUFFER_ID},
    {kPointerIsManaged, CU_POINTER_ATTRIBUTE_IS_MANAGED},
    {kPointerDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL},
    {kPointerRangeStart, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR},
    {kPointerRangeSize, CU_POINTER_ATTRIBUTE_RANGE_SIZE},
    {kDeviceMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {kDeviceIntegrated, CU_DEVICE_ATTRIBUTE_INTEGRATED},
    {kDevicePciBus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID},
    {kDevicePciDevice, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID},
    {kDeviceUnifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
    {kDevicePciDomain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID},
    {kDeviceCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
    {kDeviceCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
    {kNcclSuccess, ncclSuccess},
    {kNcclUnhandledCudaError, ncclUnhandledCudaError},
    {kNcclSystemError, ncclSystemError},
    {kNcclInternalError, ncclInternalError},
    {kNcclInvalidArgument, ncclInvalidArgument},
    {kNcclInvalidUsage, ncclInvalidUsage},
    {kNcclRemoteError, ncclRemoteError},
    {kNcclInProgress, ncclInProgress},
    {kInt8, ncclInt8},
    {kUint8, ncclUint8},
    {kInt32, ncclInt32},
    {kUint32, ncclUint32},
    {kInt64, ncclInt64},
    {kUint64, ncclUint64},
    {kFloat16, ncclFloat16},
    {kFloat32, ncclFloat32},
    {kFloat64, ncclFloat64},
    {kBfloat16, ncclBfloat16},
    {kSum, ncclSum},
    {kProd, ncclProd},
    {kMax, ncclMax},
    {kMin, ncclMin},
    {kAvg, ncclAvg},
    {kNumOps, ncclNumOps},
    {kUndefined, NCCL_CONFIG_UNDEF_INT},
    {kNoColor, NCCL_SPLIT_NOCOLOR}};
constexpr bool are_equal() {
  for (const auto& pair : kNumbers) {
    if (pair[0] != pair[1]) return false;
  }
  return true;
}
static_assert(are_equal(), "a number of ours is not that of the real header");

static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId) &&
              offsetof(Config, size) == offsetof(ncclConfig_t, size) &&
              offsetof(Config, magic) == offsetof(ncclConfig_t, magic) &&
              offsetof(Config, version) == offsetof(ncclConfig_t, version) &&
              offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));
constexpr ncclConfig_t kInitialized = NCCL_CONFIG_INITIALIZER;
static_assert(kInitialized.magic == kConfigMagic);

}  // namespace
}  // namespace fake_gpu
#endif
