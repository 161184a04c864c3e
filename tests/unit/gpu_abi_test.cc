// SPDX-License-Identifier: Apache-2.0
//
// Our declarations of CUDA and NCCL against the real headers, where they are installed. All of it
// happens when this is compiled.
#include <cstddef>
#include <type_traits>

#include "libhvd/transport/gpu/cuda_abi.h"
#include "libhvd/transport/gpu/nccl_abi.h"
#include "tests/unit/catch.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>
#endif

namespace {

// Passed alike: pointers to what is alike, numbers of one size, structures of one size.
template <typename Ours, typename Theirs>
constexpr bool alike() {
  if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using A = std::remove_cv_t<std::remove_pointer_t<Ours>>;
    using B = std::remove_cv_t<std::remove_pointer_t<Theirs>>;
    if constexpr (std::is_void_v<A> || std::is_void_v<B>) {
      return std::is_void_v<A> && std::is_void_v<B>;
    } else if constexpr (std::is_class_v<A> || std::is_class_v<B>) {
      return std::is_class_v<A> && std::is_class_v<B>;  // maybe opaque
    } else {
      return alike<A, B>();
    }
  } else {
    constexpr bool kNumbers = (std::is_integral_v<Ours> || std::is_enum_v<Ours>)&&(
        std::is_integral_v<Theirs> || std::is_enum_v<Theirs>);
    constexpr bool kStructures = std::is_class_v<Ours> && std::is_class_v<Theirs>;
    return (kNumbers || kStructures) && sizeof(Ours) == sizeof(Theirs);
  }
}

template <typename Ours, typename Theirs>
struct Alike : std::false_type {};
template <typename R, typename S, typename... A, typename... B>
struct Alike<R (*)(A...), S (*)(B...)> {
  static constexpr bool check() {
    if constexpr (sizeof...(A) == sizeof...(B)) {
      return alike<R, S>() && (alike<A, B>() && ...);
    } else {
      return false;
    }
  }
  static constexpr bool value = check();
};

struct Opaque;
static_assert(Alike<int (*)(Opaque*, int), unsigned (*)(hvd::nccl::Config*, int)>::value);
static_assert(!Alike<int (*)(int), int (*)(int, int)>::value);
static_assert(!Alike<int (*)(int), int (*)(long)>::value);
static_assert(!Alike<int (*)(int*), int (*)(long*)>::value);
static_assert(!Alike<int (*)(int), int (*)(Opaque*)>::value);
static_assert(!Alike<int (*)(void*), int (*)(void**)>::value);

#ifdef CUDA_VERSION
#define HVD_CHECK_CUDA(name, need, since, result, parameters)                          \
  static_assert(Alike<decltype(hvd::cuda::Functions::name), decltype(&::name)>::value, \
                #name " is declared otherwise in cuda.h");
#if CUDA_VERSION >= 11040
HVD_CUDA_FUNCTIONS(HVD_CHECK_CUDA)
#endif
static_assert(sizeof(hvd::cuda::Uuid) == sizeof(CUuuid));

constexpr long long kCudaNumbers[][2] = {
    {hvd::cuda::kSuccess, CUDA_SUCCESS},
    {hvd::cuda::kErrorOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY},
    {hvd::cuda::kErrorNoDevice, CUDA_ERROR_NO_DEVICE},
    {hvd::cuda::kErrorNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU},
    {hvd::cuda::kErrorNotReady, CUDA_ERROR_NOT_READY},
    {hvd::cuda::kErrorSystemNotReady, CUDA_ERROR_SYSTEM_NOT_READY},
    {hvd::cuda::kErrorSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH},
    {hvd::cuda::kErrorCompatNotSupported, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE},
    {hvd::cuda::kStreamNonBlocking, CU_STREAM_NON_BLOCKING},
    {hvd::cuda::kEventDisableTiming, CU_EVENT_DISABLE_TIMING},
    {hvd::cuda::kAttributeMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {hvd::cuda::kPointerContext, CU_POINTER_ATTRIBUTE_CONTEXT},
    {hvd::cuda::kPointerMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE},
    {hvd::cuda::kPointerDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL},
    {hvd::cuda::kMemoryOfDevice, CU_MEMORYTYPE_DEVICE},
};
#endif

#ifdef NCCL_VERSION_CODE
#define HVD_CHECK_NCCL(name, need, since, result, parameters)                          \
  static_assert(Alike<decltype(hvd::nccl::Functions::name), decltype(&::name)>::value, \
                #name " is declared otherwise in nccl.h");
#if NCCL_VERSION_CODE >= 22807
HVD_NCCL_FUNCTIONS(HVD_CHECK_NCCL)

using Config = hvd::nccl::Config;
constexpr ncclConfig_t kInitial = NCCL_CONFIG_INITIALIZER;
constexpr Config kOurs;
static_assert(kOurs.magic == kInitial.magic && kOurs.blocking == kInitial.blocking);
#define HVD_CHECK_FIELD(ours, theirs) \
  static_assert(offsetof(Config, ours) == offsetof(ncclConfig_t, theirs), #theirs);
HVD_CHECK_FIELD(size, size)
HVD_CHECK_FIELD(magic, magic)
HVD_CHECK_FIELD(version, version)
HVD_CHECK_FIELD(blocking, blocking)
HVD_CHECK_FIELD(cga_cluster_size, cgaClusterSize)
HVD_CHECK_FIELD(min_ctas, minCTAs)
HVD_CHECK_FIELD(max_ctas, maxCTAs)
HVD_CHECK_FIELD(net_name, netName)
HVD_CHECK_FIELD(split_share, splitShare)
HVD_CHECK_FIELD(traffic_class, trafficClass)
HVD_CHECK_FIELD(comm_name, commName)
HVD_CHECK_FIELD(collnet_enable, collnetEnable)
HVD_CHECK_FIELD(cta_policy, CTAPolicy)
HVD_CHECK_FIELD(shrink_share, shrinkShare)
HVD_CHECK_FIELD(nvls_ctas, nvlsCTAs)
HVD_CHECK_FIELD(channels_per_net_peer, nChannelsPerNetPeer)
HVD_CHECK_FIELD(nvlink_centric_sched, nvlinkCentricSched)
static_assert(sizeof(Config) <= sizeof(ncclConfig_t));
static_assert(hvd::nccl::kShrinkAbort == NCCL_SHRINK_ABORT);
static_assert(hvd::nccl::kWindowSymmetric == NCCL_WIN_COLL_SYMMETRIC);
static_assert(hvd::nccl::kSplitNoColor == NCCL_SPLIT_NOCOLOR);
#endif
static_assert(sizeof(hvd::nccl::UniqueId) == sizeof(ncclUniqueId));
static_assert(hvd::nccl::kUndefined == NCCL_CONFIG_UNDEF_INT);

constexpr long long kNcclNumbers[][2] = {
    {hvd::nccl::kSuccess, ncclSuccess},
    {hvd::nccl::kUnhandledCudaError, ncclUnhandledCudaError},
    {hvd::nccl::kSystemError, ncclSystemError},
    {hvd::nccl::kInternalError, ncclInternalError},
    {hvd::nccl::kInvalidArgument, ncclInvalidArgument},
    {hvd::nccl::kInvalidUsage, ncclInvalidUsage},
    {hvd::nccl::kRemoteError, ncclRemoteError},
    {hvd::nccl::kInProgress, ncclInProgress},
    {hvd::nccl::kInt8, ncclInt8},
    {hvd::nccl::kUint8, ncclUint8},
    {hvd::nccl::kInt32, ncclInt32},
    {hvd::nccl::kInt64, ncclInt64},
    {hvd::nccl::kFloat16, ncclFloat16},
    {hvd::nccl::kFloat32, ncclFloat32},
    {hvd::nccl::kFloat64, ncclFloat64},
    {hvd::nccl::kBfloat16, ncclBfloat16},
    {hvd::nccl::kSum, ncclSum},
    {hvd::nccl::kProduct, ncclProd},
    {hvd::nccl::kMax, ncclMax},
    {hvd::nccl::kMin, ncclMin},
};
#endif

}  // namespace

TEST_CASE("gpu: the numbers of CUDA and NCCL are those of their headers, where these are") {
#ifdef CUDA_VERSION
  for (const auto& number : kCudaNumbers) CHECK(number[0] == number[1]);
#endif
#ifdef NCCL_VERSION_CODE
  for (const auto& number : kNcclNumbers) CHECK(number[0] == number[1]);
#endif
  CHECK(sizeof(hvd::nccl::UniqueId) == 128);
}
