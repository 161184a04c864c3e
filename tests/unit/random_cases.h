// SPDX-License-Identifier: Apache-2.0
//
// Random cases for properties that must hold for all. Each run draws a seed, prints it on standard
// output, and case i of it is a pure function of (seed, i): HVD_SEED repeats a run.
//
// A property is a function that returns what is wrong, "" if nothing is; so it can be asked ten
// thousand times without an assertion each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace hvd::test {

// splitmix64: small, the same everywhere, and good enough to choose cases by.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  size_t below(size_t n) { return static_cast<size_t>(next() % n); }
  // From `least` to `most`, both possible.
  int64_t from(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(next() % static_cast<uint64_t>(most - least + 1));
  }
  bool one_in(int n) { return below(static_cast<size_t>(n)) == 0; }
  std::string bytes(size_t n);

 private:
  uint64_t state_;
};

// The seed of this run: HVD_SEED, or a new one.
uint64_t run_seed();

// How many: `usual`, or what the environment variable says.
int count_from(const char* variable, int usual);

// Asks `count` times; fails the test with seed, case and text at the first case that is not as it
// should be. Prints one line with the seed in any case.
void for_random_cases(const char* what, int count,
                      const std::function<std::string(Random* random)>& property);

}  // namespace hvd::test
