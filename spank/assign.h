// SPDX-License-Identifier: Apache-2.0
//
// The assignment problem. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hvd {

// cost[row][column], as many columns in every row, at least as many columns as rows. Returns the
// column of each row: no column twice, the sum of costs minimal, and of all such answers the one
// that comes first if they are compared row by row. Costs are from 0 to 2^40.
//
// Hungarian algorithm with potentials (shortest augmenting paths), O(columns^3); then each row in
// turn takes the first column that an optimal answer has for it. Those are the matchings of the
// edges without slack, so that a search for an alternating path tells.
std::vector<int> assign(const std::vector<std::vector<int64_t>>& cost);

}  // namespace hvd
