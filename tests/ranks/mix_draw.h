// SPDX-License-Identifier: Apache-2.0
//
// Rounds of random operations, drawn from a seed: a pure function, so that every rank knows what
// all ranks do without a word. What must come of each is mix_model.h's.
//
// No round can wait for ever: all that a rank submits it submits before it waits for anything.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/random.h"
#include "tests/ranks/mix_model.h"

namespace hvd::test {

// A process set that all ranks add or remove; they may disagree about it.
struct SetChange {
  bool add = true;
  std::vector<std::vector<int>> ranks;  // by rank: of the new set
  std::vector<int> ids;                 // by rank: of the old set
  std::string error;
  int id = 0;  // of the new set

  std::vector<std::string> words() const;  // by rank: what it says, as a disagreement tells it
};

// A call that must be refused at submit, with this text.
struct Attempt {
  int rank = 0;
  int set = 0;
  std::string name;
  Ask ask;
  std::string text;
};

// When a rank joins: with less submitted than others, or after all of it.
enum class Joining { kEarly, kBeforeWaiting, kAfterWaiting };

struct Round {
  std::vector<SetChange> changes;  // before all else, one after the other
  std::vector<Use> uses;           // in any order
  std::vector<Attempt> attempts;   // at any time
  int removed = 0;                 // the set that goes while uses of it are outstanding; 0: none
  bool joins = false;              // all ranks join
  std::vector<Joining> joining;    // by rank
  uint64_t seed = 0;               // for the orders
};

class Mix {
 public:
  // Draws operations of these kinds.
  Mix(int ranks, std::vector<Kind> kinds);

  void begin_epoch();  // after hvd_init
  void begin(uint64_t seed);
  Round next();
  // Ids of the process sets after the last round.
  std::vector<int> sets() const;
  std::vector<int> ranks_of(int set) const { return sets_.at(set).ranks; }

 private:
  struct Set {
    std::vector<int> ranks;
    std::vector<Ask> usual;  // by name
  };
  using Ranks = std::vector<int>;
  static constexpr size_t kNames = 10;      // of the global set
  static constexpr size_t kNamesOfSet = 3;  // of others

  Ask any(const Set& set);
  Piece a_piece(const Ask& ask);
  void a_reduction(Ask* ask);
  void own_rows(Ask* ask, size_t members);
  void change(Ask* ask, const Ranks& members);
  bool change_once(Ask* ask, const Ranks& members);
  void dissent(Use* use);
  Use a_use(int set, const Ask& usual);
  Ranks some_ranks(const Ranks& of, size_t least);
  void draw_sets(Round* round);
  void draw_uses(Round* round);
  void draw_unnamed(Round* round, int set);
  void draw_joins(Round* round);
  void draw_removal(Round* round);
  void draw_attempts(Round* round);
  SetChange an_addition();
  SetChange a_removal(int id);
  void judge(SetChange* change);
  Attempt an_attempt();
  std::string next_unnamed(int set, const std::string& kind);

  const int ranks_;
  const std::vector<Kind> kinds_;
  Ranks all_;
  Random random_{0};
  // Of an epoch:
  std::map<int, Set> sets_;
  int next_set_ = 1;
  int joins_ = 0;
  std::map<std::pair<int, std::string>, int> unnamed_;
  uint64_t salt_ = 0;
};

}  // namespace hvd::test
