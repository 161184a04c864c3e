// SPDX-License-Identifier: Apache-2.0
//
// The loops over elements. All of them work on `n` elements of one type, take any alignment, and
// give bitwise the same result on every instruction set: sums run over the sources in the order
// given, element by element, and nothing is contracted to fused multiply-add.
#pragma once

#include <cstddef>

#include "libhvd/data/types.h"

namespace hvd {

// A factor and a divisor: x -> x * multiply / divide. Floating types multiply by the quotient,
// rounded once to the type. Integers are computed in double precision and truncated; where
// multiply is 1 they are divided as integers, which is exact.
struct Scale {
  double multiply = 1;
  int64_t divide = 1;
  bool identity() const { return multiply == 1 && divide == 1; }
};

struct Kernels {
  const char* name;  // "avx512", "avx2", "portable"
  // to[i] = (from[0][i] + from[1][i]) + ... + from[count-1][i]; count >= 1. `to` may be one of the
  // first four sources, and does not overlap them otherwise.
  void (*sum)(DataType type, void* to, const void* const* from, int count, size_t n);
  // to[i] = scale(from[i]); `to` may be `from`.
  void (*scale)(DataType type, void* to, const void* from, size_t n, Scale scale);
};

// The fastest set this processor runs.
const Kernels& kernels();
// All sets this processor runs, the portable one first; for the tests that compare them.
const Kernels* const* all_kernels(int* count);

}  // namespace hvd
