// SPDX-License-Identifier: Apache-2.0
//
// Also an object of its own (kernel_twins.so), in which a fake device finds them by name.
#include "tests/fakes/gpu/kernel_twins.h"

#include "libhvd/transport/gpu/pack_body.h"

#define HVD_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

template <typename From, typename To>
void run(unsigned grid, unsigned block, void** parameters) {
  const hvd::PackArguments arguments = *static_cast<const hvd::PackArguments*>(parameters[0]);
  for (unsigned b = grid; b-- > 0;) {
    for (unsigned t = block; t-- > 0;) {
      hvd::pack_body<From, To>(arguments, b, grid, {t, block});
    }
  }
}

template <typename From, typename To>
void touch(void** parameters, KernelTouch touch, void* cookie) {
  const hvd::PackArguments& arguments = *static_cast<const hvd::PackArguments*>(parameters[0]);
  for (uint32_t i = 0; i < arguments.pieces; ++i) {
    const hvd::PackPiece& piece = arguments.piece[i];
    touch(cookie, piece.from, piece.count * sizeof(hvd::BitsOf<From>), 0);
    touch(cookie, piece.to, piece.count * sizeof(hvd::BitsOf<To>), 1);
  }
}

}  // namespace

#define HVD_TWIN(name, From, To)                                                               \
  HVD_EXPORT void hvd_gpu_host_##name(unsigned grid, unsigned block, void** parameters) {      \
    run<hvd::From, hvd::To>(grid, block, parameters);                                          \
  }                                                                                            \
  HVD_EXPORT void hvd_gpu_touch_##name(unsigned, unsigned, void** parameters, KernelTouch add, \
                                       void* cookie) {                                         \
    touch<hvd::From, hvd::To>(parameters, add, cookie);                                        \
  }
HVD_PACK_KERNELS(HVD_TWIN)

#define HVD_NAME(name, From, To) #name,
#define HVD_POINTER(name, From, To) hvd_gpu_host_##name,
HVD_EXPORT const char* const hvd_gpu_host_names[];
HVD_EXPORT const KernelTwin hvd_gpu_host_twins[];
const char* const hvd_gpu_host_names[] = {HVD_PACK_KERNELS(HVD_NAME) nullptr};
const KernelTwin hvd_gpu_host_twins[] = {HVD_PACK_KERNELS(HVD_POINTER) nullptr};
