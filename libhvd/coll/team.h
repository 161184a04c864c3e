// SPDX-License-Identifier: Apache-2.0
//
// The members of a process set as one rank sees them: who shares a node with whom among them, and
// where this rank stands. Nodes and ranks are numbered anew, so that whatever a batch does it does
// by numbers of its team. Pure. The global set is the team of all ranks.
//
// A rank is known by three numbers here: its rank in the job, its index among the members, and its
// place among the members of its node.
#pragma once

#include <vector>

#include "libhvd/topo/layout.h"

namespace hvd {

struct Team {
  int size = 0;
  int index = -1;          // mine among the members; -1: I am none
  std::vector<int> ranks;  // by index: rank in the job, ascending

  int nodes = 0;                                  // that have members
  int node = -1;                                  // mine among them; -1: it has none
  std::vector<std::vector<int>> ranks_by_node;    // ranks in the job, ascending
  std::vector<std::vector<int>> members_by_node;  // the same, as indices
  std::vector<int> node_of;                       // by index
  std::vector<int> place_of;                      // by index: place among the members of its node

  std::vector<int> local_ranks;  // of the members on my node, in the job's numbers, ascending
  int local_index = -1;          // my place among them; -1: I am no member
  int max_shards = 0;            // the smallest number of members on any of the nodes

  int local_size() const { return static_cast<int>(local_ranks.size()); }
  // The index of a rank of the job; -1: it is no member.
  int index_of(int rank) const;

  // `ranks`: of the job, in any order, each once.
  static Team of(const Layout& layout, int rank, std::vector<int> ranks);
};

}  // namespace hvd
