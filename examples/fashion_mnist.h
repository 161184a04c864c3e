// SPDX-License-Identifier: Apache-2.0
//
// Fashion-MNIST: 60,000 pictures of clothes to learn from and 10,000 to be tested on, 28 x 28 grey
// pixels, ten classes. Read from the gzip'd IDX files of Debian's package dataset-fashion-mnist.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace example {

constexpr int kPixels = 28 * 28;
constexpr int kClasses = 10;
constexpr char kDefaultData[] = "/usr/share/datasets/fashion-mnist";

struct Pictures {
  int count = 0;
  std::vector<uint8_t> pixels;  // count x kPixels
  std::vector<uint8_t> labels;  // count

  // Picture [index] as the network's input, 0 to 1.
  void copy(int index, float* input) const {
    const uint8_t* from = pixels.data() + static_cast<size_t>(index) * kPixels;
    for (int i = 0; i < kPixels; ++i) input[i] = static_cast<float>(from[i]) * (1.0f / 255);
  }
};

// [set] is "train" or "t10k". Returns what went wrong and the way out; empty: nothing.
std::string load(const std::string& directory, const std::string& set, Pictures& pictures);

}  // namespace example
