// SPDX-License-Identifier: Apache-2.0
//
// What must come of rounds in which ranks submit named tensors and some of them disagree: a pure
// function of a seed, so that every rank knows what all ranks do and what must come of it, without
// the library under test. Used with ranks as threads (tests/unit) and as processes (rounds.cc).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/random.h"

namespace hvd::test {

// What one rank says about one name. Numbers as in hvd.h.
struct Says {
  bool broadcast = false;
  int type = 7;
  std::vector<int64_t> shape;
  int op = 1;    // of an allreduce
  int root = 0;  // of a broadcast
  double prescale = 1;
  double postscale = 1;
  bool gpu = false;

  size_t elements() const;
  size_t bytes() const;
  bool operator==(const Says& other) const;
};

// What ranks say that agree.
std::vector<Says> all_say(const Says& says, int ranks);

// The ways to differ, in the order in which a disagreement is told.
enum class Aspect { kOperation, kType, kShape, kReduction, kRoot, kPrescale, kPostscale, kDevice };
constexpr int kAspects = 8;
const char* words_for(Aspect aspect);  // "the shape"

// `says` with another `aspect`; true if it has that aspect (an allreduce has no root).
bool change(Says* says, Aspect aspect, int ranks, Random* random);

// What a rank says about something, in words.
struct Said {
  int rank;
  std::string text;
};
// The sentence for ranks that differ in `what`; "" if they do not. `said` is in the order of ranks,
// `spoken` the operation as the lowest of them calls it.
std::string dispute(const std::string& spoken, const std::string& what,
                    const std::vector<Said>& said);
// {0,1,2,4,5} is "0-2, 4, 5".
std::string as_people_write(const std::vector<int>& ranks);

// The error that all ranks get, "" if all say the same.
std::string expected_error(const std::string& name, const std::vector<Says>& by_rank);

// The elements that `rank` puts in, and those that all get. `salt` tells uses of a name apart.
std::vector<char> input_of(const Says& says, int rank, uint64_t salt);
std::vector<char> expected_output(const Says& says, int ranks, uint64_t salt);

// One use of a name by one rank: what it puts in, and what must come of it.
struct Trial {
  enum class End { kWell, kMismatch, kOtherwise };

  Trial(std::string name, const std::vector<Says>& by_rank, int rank, uint64_t salt);
  // What is wrong with how it ended, and with what is in `data` now; "" if nothing is.
  std::string verdict(End end, const std::string& text) const;

  std::string name;
  Says says;
  std::string error;         // that it must end with, "" if with none
  std::vector<char> before;  // the input
  std::vector<char> want;    // the output, where there is no error
  std::vector<char> data;    // for the operation, in place
};

class Rounds {
 public:
  // `gpu`: some say that their tensor is on a GPU.
  Rounds(uint64_t seed, int ranks, int names, bool gpu);

  void next();  // the first round begins with the first call
  int round() const { return round_; }

  std::string name(int name) const { return "tensor." + std::to_string(name); }
  const std::vector<Says>& says(int name) const { return says_[static_cast<size_t>(name)]; }
  uint64_t salt(int name) const { return static_cast<uint64_t>(round_ * 131 + name * 17); }
  // The order in which a rank submits its names in this round.
  std::vector<int> order(int rank) const;

 private:
  Says any();
  void dissent(std::vector<Says>* by_rank);

  const uint64_t seed_;
  const int ranks_;
  const bool gpu_;
  Random random_;
  int round_ = -1;
  std::vector<Says> usual_;              // by name
  std::vector<std::vector<Says>> says_;  // by name and rank, in this round
};

}  // namespace hvd::test
