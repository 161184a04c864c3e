// SPDX-License-Identifier: Apache-2.0
//
// Which GPUs of a node are linked to each other, in few words: groups in which each is linked to
// each. What a link is, and who knows of it, is not its business (spank/topology.h). Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace hvd {

// Groups of the numbers below `count`, ascending, such that two numbers are linked exactly if some
// group has both. A number may be in several groups, or in none. `linked` is asked with a < b.
// Cost: count^3.
std::vector<std::vector<int>> linked_groups(int count, const std::function<bool(int, int)>& linked);

// "0-3,5" for {0,1,2,3,5}.
std::string group_text(const std::vector<int>& group);

}  // namespace hvd
