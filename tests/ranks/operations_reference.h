// SPDX-License-Identifier: Apache-2.0
//
// What must come of every operation of hvd.h: each rank's input is a pure function of the case and
// the rank, so every rank computes all inputs, and by the plainest arithmetic what it must get,
// with no help of the library under test. Used by operations.cc.
//
// Sums of values that are exact in any order and precision have one right answer, down to the last
// bit; for others there is a bound (Expected::bounds), stated where it is made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/ranks/operations_types.h"

namespace hvd::test {

enum class Kind { kAllreduce, kAllgather, kBroadcast, kAlltoall, kReducescatter, kBarrier };
constexpr int kKinds = 6;
const char* kind_text(Kind kind);

// What a tensor is filled with.
enum class Values {
  kExact,    // small whole numbers: sums are exact; products, too, of those that are made for them
  kAny,      // integers of all sizes, which wrap around
  kRandom,   // floats of some magnitudes around 1
  kSpecial,  // NaN, infinities and zeros of both signs among floats
};

// How rows are spread where each rank may have its own number.
enum class Spread { kEven, kUneven, kEmpty };

struct Item {
  int type = HVD_FLOAT32;
  int64_t rows = 1;   // of one rank; of one piece, for alltoall
  int64_t width = 1;  // elements of a row; 1: one dimension
  bool scalar = false;
};

// One use of an operation. `root` and what else is about members counts in the process set.
struct Case {
  Kind kind = Kind::kAllreduce;
  std::vector<Item> items;
  bool grouped = false;
  int op = HVD_SUM;
  double prescale = 1;
  double postscale = 1;
  int root = 0;  // -1: the last
  int set = 0;   // which of the sets that the program makes; 0: all ranks
  Spread spread = Spread::kEven;
  bool null_splits = false;
  bool in_place = false;
  int shift = 0;  // bytes that tensors are away from an aligned place
  Values values = Values::kExact;
  uint64_t seed = 0;
  int zeros_before = 0;  // members with a smaller index count as zeros: they have joined

  std::string text() const;
};

struct Expected {
  int64_t rows = 0;            // of the result
  std::vector<char> bytes;     // the right answer; NaN as any NaN
  std::vector<double> values;  // or, if there are bounds, what is right but for so much
  std::vector<double> bounds;
};

// Precision between nodes: the roundoff, 0 if it is that of the type; and how often it is rounded.
struct Wire {
  double roundoff = 0;
  int hops = 0;
};

// Rows that member `index` of `members` puts in.
int64_t rows_in(const Case& c, const Item& item, int index, int members);
// Rows of an alltoall from one member to another.
int64_t rows_sent(const Case& c, const Item& item, int from, int to);
// Rows of an allreduce's result that member `index` keeps of a reducescatter.
struct Rows {
  int64_t begin = 0;
  int64_t end = 0;
};
Rows rows_kept(int64_t rows, int index, int members);

// The tensor that member `index` puts in.
std::vector<char> input_of(const Case& c, size_t item, int index, int members);
// What member `index` must get.
Expected expected_of(const Case& c, size_t item, int index, int members, const Wire& wire);
// "" or what is wrong with the elements.
std::string wrong_with(int type, const char* got, const Expected& want);

}  // namespace hvd::test
