// SPDX-License-Identifier: Apache-2.0
//
// The cases of operations.cc: operation x type x reduction x shape x factors x place in memory, for
// jobs of any size. The same on all ranks.
#pragma once

#include <vector>

#include "tests/ranks/operations_reference.h"

namespace hvd::test {

// The members of the sets that the cases use; the first is all ranks.
std::vector<std::vector<int>> sets_for(int size);

// `sets`: how many of them there are.
std::vector<Case> all_cases(int sets);

// Sums, averages and more of random floats, whose last bits show the order of summation.
std::vector<Case> random_cases(int sets);

// Random floats that can travel with less precision, and what must not.
std::vector<Case> wire_cases();

}  // namespace hvd::test
