// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that are the same with every compiler and library, unlike those of <random>: all
// ranks shuffle alike, and a seed names one run. splitmix64 (Steele, Lea, Flood 2014).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace example {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  // From -bound to bound.
  float uniform(float bound) { return (static_cast<float>(next() >> 40) / (1 << 23) - 1) * bound; }

  void shuffle(std::vector<int>& items) {
    for (size_t left = items.size(); left > 1; --left) {
      std::swap(items[left - 1], items[next() % left]);
    }
  }

 private:
  uint64_t state_;
};

}  // namespace example
