// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of layouts. Pure: no environment, no host names looked up, no error printed.
// What comes in from Slurm's mapping is checked here, so that a Layout is always consistent:
// every rank is on one node, every node has a rank.
#include "libhvd/topo/layout.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace hvd {
namespace {

int count_nodes_with(const Layout& layout, size_t local_rank, int nodes) {
  int count = 0;
  for (int node = 0; node < nodes; ++node) {
    if (layout.ranks[node].size() > local_rank) ++count;
  }
  return count;
}

// Eats the text of a mapping from the left. Every step says whether it was there.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(text) {}

  bool eat(std::string_view token) {
    skip_blanks();
    if (rest_.substr(0, token.size()) != token) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  bool number(int* value) {
    skip_blanks();
    size_t digits = 0;
    int64_t sum = 0;
    while (digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9') {
      sum = sum * 10 + (rest_[digits] - '0');
      if (sum > INT32_MAX) return false;
      ++digits;
    }
    rest_.remove_prefix(digits);
    *value = static_cast<int>(sum);
    return digits > 0;
  }

  bool at_end() {
    skip_blanks();
    return rest_.empty();
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }

  std::string_view rest_;
};

struct Block {
  int first_node = 0;
  int nodes = 0;
  int ranks_per_node = 0;
};

bool eat_block(Cursor* cursor, Block* block) {
  return cursor->eat("(") && cursor->number(&block->first_node) && cursor->eat(",") &&
         cursor->number(&block->nodes) && cursor->eat(",") &&
         cursor->number(&block->ranks_per_node) && cursor->eat(")");
}

}  // namespace

int Layout::cross_rank(int rank) const {
  return count_nodes_with(*this, local_rank[rank], node_of[rank]);
}

int Layout::cross_size(int rank) const {
  return count_nodes_with(*this, local_rank[rank], nodes());
}

bool Layout::homogeneous() const {
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](const auto& here) { return here.size() == ranks.front().size(); });
}

Expected<Layout> layout_from_nodes(const std::vector<int>& node_of_rank) {
  Layout layout;
  layout.size = static_cast<int>(node_of_rank.size());
  if (layout.size == 0) return error(Code::kInvalid, "a job has no ranks");
  layout.node_of = node_of_rank;
  layout.local_rank.reserve(node_of_rank.size());
  for (int rank = 0; rank < layout.size; ++rank) {
    const int node = node_of_rank[rank];
    // More nodes than ranks cannot all have one, so the size also bounds what is allocated.
    if (node < 0 || node >= layout.size) {
      return error(Code::kInvalid,
                   "rank %d is on node %d, and %d ranks can fill nodes 0 to %d only", rank, node,
                   layout.size, layout.size - 1);
    }
    if (node >= layout.nodes()) layout.ranks.resize(node + 1);
    layout.local_rank.push_back(static_cast<int>(layout.ranks[node].size()));
    layout.ranks[node].push_back(rank);
  }
  for (int node = 0; node < layout.nodes(); ++node) {
    if (layout.ranks[node].empty()) return error(Code::kInvalid, "node %d has no rank", node);
  }
  return layout;
}

Layout layout_from_names(const std::vector<std::string>& name_of_rank) {
  std::unordered_map<std::string, int> node_of_name;
  Layout layout;
  layout.size = static_cast<int>(name_of_rank.size());
  for (int rank = 0; rank < layout.size; ++rank) {
    const auto [found, is_new] = node_of_name.try_emplace(name_of_rank[rank], layout.nodes());
    if (is_new) layout.ranks.emplace_back();
    std::vector<int>& here = layout.ranks[found->second];
    layout.node_of.push_back(found->second);
    layout.local_rank.push_back(static_cast<int>(here.size()));
    here.push_back(rank);
  }
  return layout;
}

Expected<std::vector<int>> nodes_from_mapping(std::string_view mapping, int size) {
  const auto wrong = [&](const char* what) {
    return error(Code::kInvalid, "the mapping \"%.*s\" %s", static_cast<int>(mapping.size()),
                 mapping.data(), what);
  };
  // Before anything is allocated for them.
  if (size > kMostRanks) {
    return wrong(format("is of %d ranks; a job can have %d", size, kMostRanks).c_str());
  }
  Cursor cursor(mapping);
  if (!cursor.eat("(") || !cursor.eat("vector")) return wrong("is not \"(vector,...)\"");
  std::vector<int> nodes;  // grows with what the mapping says: `size` may be anything
  while (cursor.eat(",")) {
    Block block;
    if (!eat_block(&cursor, &block)) {
      return wrong("has a block that is not \"(first node,nodes,ranks per node)\"");
    }
    // 64 bits: three numbers of 31 bits each.
    const int64_t block_ranks = int64_t{block.nodes} * block.ranks_per_node;
    if (block_ranks > size - static_cast<int64_t>(nodes.size())) {
      return wrong(format("places more than %d ranks", size).c_str());
    }
    for (int64_t i = 0; i < block_ranks; ++i) {
      const int64_t node = block.first_node + i / block.ranks_per_node;
      if (node > INT32_MAX) return wrong("has a node number that is too large");
      nodes.push_back(static_cast<int>(node));
    }
  }
  if (!cursor.eat(")") || !cursor.at_end()) return wrong("does not end with one \")\"");
  if (static_cast<int64_t>(nodes.size()) != size) {
    return wrong(format("places %zu ranks, not %d", nodes.size(), size).c_str());
  }
  return nodes;
}

}  // namespace hvd
