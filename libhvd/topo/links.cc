// SPDX-License-Identifier: Apache-2.0
#include "libhvd/topo/links.h"

#include <algorithm>

#include "libhvd/base/status.h"

namespace hvd {

// The first link that no group has yet starts one, which takes whoever is linked to all in it. Few
// groups, and all there are where links come in islands; the fewest possible is a hard problem.
std::vector<std::vector<int>> linked_groups(int count,
                                            const std::function<bool(int, int)>& linked) {
  std::vector<std::vector<int>> groups;
  const auto size = static_cast<size_t>(count);
  std::vector<std::vector<bool>> told(size, std::vector<bool>(size, false));
  for (int a = 0; a < count; ++a) {
    for (int b = a + 1; b < count; ++b) {
      if (told[static_cast<size_t>(a)][static_cast<size_t>(b)] || !linked(a, b)) continue;
      std::vector<int> group = {a, b};
      for (int c = b + 1; c < count; ++c) {
        if (std::all_of(group.begin(), group.end(), [&](int one) { return linked(one, c); })) {
          group.push_back(c);
        }
      }
      for (const int one : group) {
        for (const int other : group) {
          told[static_cast<size_t>(one)][static_cast<size_t>(other)] = true;
        }
      }
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

std::string group_text(const std::vector<int>& group) {
  std::string text;
  for (size_t first = 0; first < group.size();) {
    size_t last = first;
    while (last + 1 < group.size() && group[last + 1] == group[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(group[first]);
    if (last > first) text += "-" + std::to_string(group[last]);
    first = last + 1;
  }
  return text;
}

}  // namespace hvd
