// SPDX-License-Identifier: Apache-2.0
//
// The shape of the tree of leaders: k-ary, node 0 at the root, in node order. Pure.
// Depth is log_16 of the nodes: 3 hops at 4,096 nodes; a leader talks to at most 17 neighbours.
#pragma once

#include <algorithm>
#include <vector>

#include "libhvd/topo/layout.h"

namespace hvd {

constexpr int kTreeArity = 16;

inline int tree_parent(int node) { return node == 0 ? -1 : (node - 1) / kTreeArity; }

inline std::vector<int> tree_children(int node, int nodes) {
  std::vector<int> children;
  for (int i = 1; i <= kTreeArity; ++i) {
    const int64_t child = int64_t{node} * kTreeArity + i;
    if (child < nodes) children.push_back(static_cast<int>(child));
  }
  return children;
}

// All ranks on `node` and on the nodes below it, ascending.
inline std::vector<int> tree_ranks_below(int node, const Layout& layout) {
  std::vector<int> todo = {node};
  std::vector<int> ranks;
  while (!todo.empty()) {
    const int at = todo.back();
    todo.pop_back();
    ranks.insert(ranks.end(), layout.ranks[at].begin(), layout.ranks[at].end());
    for (int child : tree_children(at, layout.nodes())) todo.push_back(child);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace hvd
