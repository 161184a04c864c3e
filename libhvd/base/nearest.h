// SPDX-License-Identifier: Apache-2.0
//
// "Did you mean ...?" Pure.
#pragma once

#include <string_view>
#include <vector>

namespace hvd {

// Letters to insert, delete, replace or swap with their neighbour to make `b` out of `a`.
// Cost: a.size() x b.size().
int edit_distance(std::string_view a, std::string_view b);

// The candidate that `word` is most likely a slip of, the first of equals; empty if none is near:
// more than a third of the letters would have to change.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace hvd
