// SPDX-License-Identifier: Apache-2.0
//
// The numbers that are sent, and what must come back. Random integers, so small, or of so few
// ranks, that every result is exact in its type whatever the order in which it is computed, and is
// compared bit by bit. One result is not exact: averages of floating types are a product with a
// rounded 1/n, and may be two units in the last place off.
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

  // What is moved without being changed; ranks send it from different places on.
  static Pattern moved(const ElementType& type);
  // What [rank] of [ranks] sends to be reduced, and what must come of it.
  //   average  integers whose sum is in the type's range
  //   product  small powers of two in floating types, odd numbers in others
  //   adasum   each element is of one rank and zero on all others: vectors at right angles, of
  //            which Adasum gives the sum
  static Pattern sent(const ElementType& type, hvd_op op, int rank, int ranks);
  static Pattern reduced(const ElementType& type, hvd_op op, int ranks);

  void fill(void* data, int64_t count, int64_t shift) const;
  int64_t count_wrong(const void* data, int64_t count, int64_t shift) const;

 private:
  Pattern(const ElementType& type, int tolerance);
  void set(int64_t position, int64_t value, int64_t divisor = 1);

  template <typename Piece>
  void for_pieces(int64_t count, int64_t shift, Piece piece) const;

  const ElementType* type_;
  int tolerance_;  // units in the last place
  std::vector<unsigned char> period_;
};

}  // namespace hvd::perf
