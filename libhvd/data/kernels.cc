// SPDX-License-Identifier: Apache-2.0
//
// Which instruction sets this processor has, asked at run time. The kernels themselves are in
// loops.h.
#include "libhvd/data/kernels.h"

#include "libhvd/data/sets.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace hvd {
namespace {

#if defined(__x86_64__)
// clang 14's __builtin_cpu_supports does not know it.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

struct Available {
  const Kernels* sets[3] = {&kPortable};
  int count = 1;
  Available() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && has_f16c()) sets[count++] = &kAvx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl")) {
      sets[count++] = &kAvx512;
    }
#endif
  }
};

const Available& available() {
  static const Available found;
  return found;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& best = *available().sets[available().count - 1];
  return best;
}

const Kernels* const* all_kernels(int* count) {
  *count = available().count;
  return available().sets;
}

}  // namespace hvd
