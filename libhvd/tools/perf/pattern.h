// SPDX-License-Identifier: Apache-2.0
//
// The numbers that are sent, and what must come back. Random integers, so small that the sum over
// all ranks is exact in every type; so results are compared bit by bit.
//
// The numbers repeat after kPeriod elements and start at another place (`shift`) in every
// iteration: a result that is left over from the one before is wrong. kPeriod is prime: a block,
// whose size is a power of two, at the place of another is wrong, too.
#pragma once

#include <cstdint>
#include <vector>

#include "libhvd/tools/perf/element.h"

namespace hvd::perf {

class Pattern {
 public:
  static constexpr int64_t kPeriod = 65521;

  // What ranks [first, first + ranks) send, summed; one rank: what it sends.
  Pattern(const ElementType& type, int first, int ranks);

  void fill(void* data, int64_t count, int64_t shift) const;
  int64_t count_wrong(const void* data, int64_t count, int64_t shift) const;

 private:
  template <typename Piece>
  void for_pieces(int64_t count, int64_t shift, Piece piece) const;

  int64_t element_bytes_;
  std::vector<unsigned char> period_;
};

}  // namespace hvd::perf
