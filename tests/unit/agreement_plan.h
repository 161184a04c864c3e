// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of a random agreement do: phases that all go through, in which each rank submits
// the phase's operations in an order of its own. Between phases nobody waits. There are phases that
// end with a join, before which each rank uses names as often as it likes, and others in which sets
// come and go.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libhvd/control/description.h"
#include "tests/random.h"

namespace hvd::test {

constexpr int kNames = 4;       // of all ranks
constexpr int kNamesOfSet = 2;  // of each process set: the same names
constexpr int kMostSets = 4;    // at a time
constexpr int kMostUses = 4;    // of a name in a phase
constexpr size_t kMostRemembered = 4 * (kNames + kMostSets * (kNamesOfSet + 2));

// A process set from its addition to its removal, by number in the plan.
struct Set {
  std::vector<int32_t> ranks;
  bool removed = false;  // some time
};

struct Stream {
  int set = -1;  // by number in the plan; -1: all ranks
  std::string name;
};

struct Phase {
  bool join = false;
  // By rank: the most uses of any name in this phase. Who has less uses everything less: otherwise
  // two ranks could each wait for the join of the other.
  std::vector<int> steps;
  std::vector<int> adds;
  std::vector<int> removes;
  struct Uses {
    size_t stream = 0;
    std::vector<int> times;                      // by rank
    std::vector<std::vector<Description>> says;  // by use and rank
  };
  std::vector<Uses> uses;
};

struct Plan {
  Plan(size_t ranks, Random* random);
  void add_uses(Phase* phase, size_t stream, Random* random);

  size_t ranks;
  std::vector<Set> sets;
  std::vector<Stream> streams;
  std::vector<Phase> phases;
};

}  // namespace hvd::test
