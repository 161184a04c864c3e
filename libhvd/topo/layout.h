// SPDX-License-Identifier: Apache-2.0
//
// Who shares a node with whom: local and cross ranks for any distribution of ranks over nodes.
// Pure; used by the runtime (from the exchanged records) and by the plugin (from Slurm's mapping),
// so that HOROVOD_LOCAL_RANK in the environment and hvd_local_rank() cannot differ.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libhvd/base/status.h"

namespace hvd {

struct Layout {
  int size = 0;
  std::vector<int> node_of;             // by rank: index of its node
  std::vector<int> local_rank;          // by rank: place among the ranks of its node
  std::vector<std::vector<int>> ranks;  // by node: its ranks, ascending

  int nodes() const { return static_cast<int>(ranks.size()); }
  int local_size(int rank) const { return static_cast<int>(ranks[node_of[rank]].size()); }
  // Among the nodes that have this rank's local rank, in node order.
  int cross_rank(int rank) const;
  int cross_size(int rank) const;
  // The first rank of a node leads it.
  int leader(int node) const { return ranks[node][0]; }
  bool homogeneous() const;  // all nodes have the same number of ranks
};

// From the node index of each rank. Node indices are 0 .. n-1 and each is used; else kInvalid.
Expected<Layout> layout_from_nodes(const std::vector<int>& node_of_rank);

// From a node name per rank; nodes are numbered by their lowest rank.
Layout layout_from_names(const std::vector<std::string>& name_of_rank);

// More than any job has: what says so is wrong, and would fill the memory.
constexpr int kMostRanks = 1 << 24;

// Node index per rank from a PMIx mapping as Slurm gives it in SLURM_PMIX_MAPPING_SERV:
// "(vector,(first node,nodes,ranks per node),...)". kInvalid if it does not parse or does not
// cover exactly `size` ranks, or if they are more than kMostRanks.
Expected<std::vector<int>> nodes_from_mapping(std::string_view mapping, int size);

}  // namespace hvd
