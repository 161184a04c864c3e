// SPDX-License-Identifier: Apache-2.0
//
// The kernels for what the compiler's target has, whatever it is: on aarch64 NEON.
#include "libhvd/data/sets.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#include <cstring>

namespace hvd {
namespace {

// See half_lanes.h.
struct HalfLanes {
  using Vector = float32x4_t;
  static constexpr size_t kCount = 4;
  static Vector widen(const void* from) {
    uint16x4_t x;
    memcpy(&x, from, sizeof(x));
    return vcvt_f32_f16(vreinterpret_f16_u16(x));
  }
  static void narrow(void* to, Vector x) {
    const uint16x4_t y = vreinterpret_u16_f16(vcvt_f16_f32(x));
    memcpy(to, &y, sizeof(y));
  }
  static Vector load(const void* from) {
    Vector x;
    memcpy(&x, from, sizeof(x));
    return x;
  }
  static void store(void* to, Vector x) { memcpy(to, &x, sizeof(x)); }
  static Vector one_nan(Vector x) {
    return vbslq_f32(vceqq_f32(x, x), x, vdupq_n_f32(__builtin_nanf("")));
  }
};

}  // namespace
}  // namespace hvd

#define HVD_HALF_LANES

#endif

#include "libhvd/data/table.h"

namespace hvd {

#if defined(__aarch64__)
const Kernels kPortable = set_of("neon");
#else
const Kernels kPortable = set_of("portable");
#endif

}  // namespace hvd
