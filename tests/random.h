// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that tests choose cases by: the same on every machine and in every process that
// starts from the same seed, which is how ranks agree on a test without a word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace hvd::test {

// splitmix64.
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
  std::string bytes(size_t n) {
    std::string text(n, '\0');
    for (char& c : text) c = static_cast<char>(next());
    return text;
  }
  template <typename T>
  void shuffle(std::vector<T>* items) {
    for (size_t i = items->size(); i > 1; --i) std::swap((*items)[i - 1], (*items)[below(i)]);
  }

 private:
  uint64_t state_;
};

}  // namespace hvd::test
