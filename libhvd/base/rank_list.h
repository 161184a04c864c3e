// SPDX-License-Identifier: Apache-2.0
//
// Ranks as people read them.
#pragma once

#include <string>
#include <vector>

namespace hvd {

// "0-3, 5" for {0,1,2,3,5}.
std::string rank_list(const std::vector<int>& ranks);

}  // namespace hvd
