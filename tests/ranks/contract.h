// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the program contract share. contract.cc: when operations run, and in which
// order; contract_errors.cc: what they refuse; contract_join.cc: what joined ranks mean for others;
// contract_rules.cc: ends, arithmetic, groups.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libhvd/hvd.h"
#include "tests/ranks/program.h"

namespace hvd::test {

// `code`, and the text of hvd_last_error(), are these; says so otherwise.
bool ended(const std::string& what, int code, int want, const std::string& text);

// float32 elements of a shape, all of one value.
struct Floats {
  explicit Floats(std::vector<int64_t> extents, float value = 1);
  hvd_tensor tensor(int type = HVD_FLOAT32);
  bool all(float value) const;

  std::vector<int64_t> shape;
  std::vector<float> data;
};

// A sum of all ranks under this name works.
bool works(const std::string& name);

// "0, 1" or "0-2": all ranks but the last.
std::string all_but_the_last();

bool refusals();    // CONTRACT 3.2
bool mismatches();  // CONTRACT 3.3
bool join();        // CONTRACT 3.6
bool init();        // CONTRACT 3.7
bool leave();       // CONTRACT 3.7
bool arithmetic();  // CONTRACT 3.8
bool group();       // CONTRACT 3.9

}  // namespace hvd::test
