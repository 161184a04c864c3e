// SPDX-License-Identifier: Apache-2.0
//
// See team.h.
#include "libhvd/coll/team.h"

#include <algorithm>

namespace hvd {

int Team::index_of(int rank) const {
  const auto it = std::lower_bound(ranks.begin(), ranks.end(), rank);
  return it == ranks.end() || *it != rank ? -1 : static_cast<int>(it - ranks.begin());
}

Team Team::of(const Layout& layout, int rank, std::vector<int> ranks) {
  Team team;
  std::sort(ranks.begin(), ranks.end());
  team.size = static_cast<int>(ranks.size());
  team.ranks = std::move(ranks);
  team.index = team.index_of(rank);
  std::vector<int> number(static_cast<size_t>(layout.nodes()), -1);  // by node of the job
  for (int member : team.ranks) number[layout.node_of[member]] = 0;
  for (int& n : number) {
    if (n == 0) n = team.nodes++;
  }
  team.ranks_by_node.resize(static_cast<size_t>(team.nodes));
  team.members_by_node.resize(static_cast<size_t>(team.nodes));
  for (int i = 0; i < team.size; ++i) {
    const int node = number[layout.node_of[team.ranks[i]]];
    team.node_of.push_back(node);
    team.place_of.push_back(static_cast<int>(team.ranks_by_node[node].size()));
    team.ranks_by_node[node].push_back(team.ranks[i]);
    team.members_by_node[node].push_back(i);
  }
  team.node = number[layout.node_of[rank]];
  if (team.node >= 0) {
    for (int member : team.ranks_by_node[team.node]) {
      team.local_ranks.push_back(layout.local_rank[member]);
    }
  }
  if (team.index >= 0) team.local_index = team.place_of[team.index];
  team.max_shards = team.size;
  for (const auto& members : team.ranks_by_node) {
    team.max_shards = std::min(team.max_shards, static_cast<int>(members.size()));
  }
  return team;
}

}  // namespace hvd
