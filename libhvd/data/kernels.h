// SPDX-License-Identifier: Apache-2.0
//
// The loops over elements. All of them work on `n` elements of one type (n may be 0), take any
// alignment, and give bitwise the same result on every instruction set: reductions run over the
// sources in the order given, element by element, dot products over a fixed number of partial sums,
// and nothing is contracted to fused multiply-add.
//
// NaN: what is computed and is not a number is one NaN per type, quiet, whatever NaN went in. A
// copy (one source, an identity scale, a conversion to the same type) keeps its bits.
#pragma once

#include <cstddef>

#include "libhvd/data/types.h"

namespace hvd {

// A factor and a divisor: x -> x * multiply / divide (divide >= 1). Floating types multiply by the
// quotient, rounded once to the type (float16 and bfloat16: to float32, and the product once to the
// type). Integers are computed in double precision, truncated, and clamped to the type's range;
// where multiply is 1 they are divided as integers, which is exact.
struct Scale {
  double multiply = 1;
  int64_t divide = 1;
  bool identity() const { return multiply == 1 && divide == 1; }
};

struct Kernels {
  const char* name;  // "avx512", "avx2", "neon", "portable"

  // to[i] = ((from[0][i] op from[1][i]) op from[2][i]) ... ; count >= 1. `to` may be one of the
  // sources and does not overlap them otherwise.
  //   kSum, kAverage   the sum: the caller divides an average
  //   kMin, kMax       a NaN in any source gives NaN; -0.0 is less than +0.0
  //   kProduct
  //   kAdasum          is no reduction of elements: not to be asked for
  // Integers wrap around. float16 and bfloat16 are summed and multiplied in float32 over all
  // sources of the call, and rounded once (nearest, ties to even). bool: a byte that is not zero is
  // true, the result is 0 or 1; sum and max are "or", product and min are "and".
  void (*reduce)(DataType type, ReduceOp op, void* to, const void* const* from, int count,
                 size_t n);

  // to[i] = scale(from[i]); `to` may be `from`. bool knows the identity only: others copy.
  void (*scale)(DataType type, void* to, const void* from, size_t n, Scale scale);

  // to[i] = from[i] in another floating type: nearest, ties to even, rounded once; what is too
  // large becomes infinite. `to` may be `from` if its elements are not larger.
  void (*convert)(DataType to_type, void* to, DataType from_type, const void* from, size_t n);

  // out[0] += a * b, out[1] += a * a, out[2] += b * b, summed in float64. Floating types.
  void (*dot)(DataType type, const void* a, const void* b, size_t n, double* out);

  // to[i] = ca * a[i] + cb * b[i]; `to` may be a or b. Floating types: float64 is computed in
  // float64; the others in float32 (the factors too) and rounded once to the type.
  void (*combine)(DataType type, void* to, double ca, const void* a, double cb, const void* b,
                  size_t n);
};

// The fastest set this processor runs.
const Kernels& kernels();
// All sets this processor runs, the portable one first; for the tests that compare them.
const Kernels* const* all_kernels(int* count);

}  // namespace hvd
