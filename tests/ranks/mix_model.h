// SPDX-License-Identifier: Apache-2.0
//
// What must come of random operations of all kinds, by what each rank says about them: well, and
// then which numbers; or the code and the text of an error. Knows nothing of the library but hvd.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/ranks/mix_values.h"

namespace hvd::test {

enum class Kind { kAllreduce, kAllgather, kBroadcast, kAlltoall, kReducescatter, kBarrier };
constexpr int kKinds = 6;
const char* name_of(Kind kind);

// What one rank says about an operation.
struct Ask {
  Kind kind = Kind::kBarrier;
  bool grouped = false;
  std::vector<Piece> pieces;
  int op = 1;
  int root = 0;
  double prescale = 1;
  double postscale = 1;
  std::vector<int64_t> splits;  // rows to each member; none: the same number to each

  bool ragged() const { return kind == Kind::kAllgather || kind == Kind::kAlltoall; }
  bool has_rows() const { return ragged() || kind == Kind::kReducescatter; }
  bool reduces() const { return kind == Kind::kAllreduce || kind == Kind::kReducescatter; }
  bool may_be_grouped() const { return reduces() || kind == Kind::kAllgather; }
  // "grouped allreduce"
  std::string kind_text() const;
};

// True if hvd.h allows it (and an unsigned type is not scaled by what is less than nothing).
bool is_valid(const Ask& ask);

// True if ranks that say so agree.
bool agree(const Ask& a, const Ask& b);

// How an operation ends on a rank, and what is then in its outputs or in its result.
struct Outcome {
  int code = 0;
  std::string text;
  std::vector<Piece> pieces;
  std::vector<std::vector<char>> bytes;  // by piece
  std::vector<int64_t> received;         // of an alltoall
};

// One operation, as all ranks use it.
struct Use {
  int set = 0;
  std::vector<int> members;   // of the set
  std::string name;           // "": none is given
  std::string spoken;         // what texts call it
  std::vector<Ask> asks;      // by rank of the job
  std::vector<bool> submits;  // by rank of the job: those that do not have joined instead,
  bool doomed = false;        // or the set is removed before it is complete
  uint64_t salt = 0;          // tells the numbers of uses apart

  const Ask& ask(int rank) const { return asks[static_cast<size_t>(rank)]; }
  bool submitted_by(int rank) const { return submits[static_cast<size_t>(rank)]; }
  std::vector<char> input(int rank, size_t piece) const;
  Outcome outcome(int rank) const;

 private:
  std::string error() const;
  Arithmetic arithmetic(int rank) const;
  uint64_t salt_of(size_t piece) const { return salt + piece * 6; }
  void results_of(int rank, size_t piece, Outcome* outcome) const;
};

// `add_process_set "add_process_set.noname.3"` and so on: the name of call `number` without one.
std::string unnamed(const std::string& kind, int joins, int number);

}  // namespace hvd::test
