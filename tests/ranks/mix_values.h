// SPDX-License-Identifier: Apache-2.0
//
// The elements of random operations, and what must come of them: every number that a rank puts in
// is a small whole one, so that float64 calculates all sums, products and averages exactly, and
// only the last step, into the tensor's type, may round. Knows nothing of the library's kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hvd::test {

// What ranks agree about of one tensor; of allgather and alltoall the first extent is each rank's
// own affair.
struct Piece {
  int type = 7;  // an hvd_type
  std::vector<int64_t> shape;

  int64_t elements() const;
  int64_t row_elements() const;  // of one row
};

size_t bytes_of_type(int type);
bool is_floating_type(int type);
bool is_unsigned_type(int type);
const char* name_of_type(int type);
const char* name_of_op(int op);

// A reduction as hvd.h has it. `members` is their number.
struct Arithmetic {
  int op = 1;  // an hvd_op
  double prescale = 1;
  double postscale = 1;
  int members = 1;
};

// Element `i` of what `rank` puts into tensor `piece` of the use `salt`: 1 or more.
double element(const Arithmetic& how, int type, int rank, uint64_t salt, int64_t i);

// Elements [begin, end) of what `rank` puts in, as bytes.
std::vector<char> elements(const Arithmetic& how, int type, int rank, uint64_t salt, int64_t begin,
                           int64_t end);

// Elements [begin, end) of the reduction over `ranks`; `zeros` more members have joined.
std::vector<char> reduced(const Arithmetic& how, int type, const std::vector<int>& ranks, int zeros,
                          uint64_t salt, int64_t begin, int64_t end);

// True if they are the same numbers: the sign of a zero does not matter.
bool same_numbers(int type, const char* a, const char* b, int64_t elements);

}  // namespace hvd::test
