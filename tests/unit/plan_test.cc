// SPDX-License-Identifier: Apache-2.0
//
// How batches travel: shards, and the steps between nodes played through with symbols for numbers,
// so that the order of additions can be seen.
#include "libhvd/coll/plan.h"

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/unit/catch.h"

using namespace hvd;

namespace {

using Shard = std::vector<std::string>;  // by element: an expression

// Plays the steps of all nodes with in-order messages; false if they do not come to an end.
bool play(const std::vector<std::vector<CrossStep>>& steps, std::vector<Shard>* shards) {
  const size_t nodes = steps.size();
  std::map<std::tuple<int, int, int>, std::vector<Shard>> mail;  // from, to, kind
  std::vector<size_t> at(nodes, 0);
  std::vector<bool> sent(nodes, false);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t node = 0; node < nodes; ++node) {
      if (at[node] == steps[node].size()) continue;
      const CrossStep& step = steps[node][at[node]];
      Shard& mine = (*shards)[node];
      const int me = static_cast<int>(node);
      if (!sent[node] && step.send.size() > 0) {
        mail[{me, step.peer, static_cast<int>(step.kind)}].emplace_back(
            mine.begin() + static_cast<long>(step.send.begin),
            mine.begin() + static_cast<long>(step.send.end));
        moved = true;
      }
      sent[node] = true;
      if (step.receive.size() > 0) {
        auto& box = mail[{step.peer, me, static_cast<int>(step.kind)}];
        if (box.empty()) continue;
        const Shard got = box.front();
        if (got.size() != step.receive.size()) return false;
        box.erase(box.begin());
        for (size_t i = 0; i < got.size(); ++i) {
          std::string& x = mine[step.receive.begin + i];
          // Addition commutes, so the lower node stands first.
          x = !step.reduce     ? got[i]
              : me < step.peer ? "(" + x + "+" + got[i] + ")"
                               : "(" + got[i] + "+" + x + ")";
        }
      }
      sent[node] = false;
      ++at[node];
      moved = true;
    }
  }
  for (size_t node = 0; node < nodes; ++node) {
    if (at[node] != steps[node].size()) return false;
  }
  for (const auto& [key, box] : mail) {
    if (!box.empty()) return false;
  }
  return true;
}

// The tree that plan.h promises, for any number of nodes.
std::string promised(int nodes) {
  int power = 1;
  while (power * 2 <= nodes) power *= 2;
  std::vector<std::string> level;
  for (int i = 0; i < power; ++i) {
    const std::string x = std::to_string(i);
    level.push_back(i < nodes - power ? "(" + x + "+" + std::to_string(i + power) + ")" : x);
  }
  while (level.size() > 1) {
    std::vector<std::string> next;
    for (size_t i = 0; i < level.size(); i += 2) {
      next.push_back("(" + level[i] + "+" + level[i + 1] + ")");
    }
    level = next;
  }
  return level[0];
}

}  // namespace

TEST_CASE("between nodes every element is the same tree of sums, whatever the size", "[slow]") {
  for (int nodes = 1; nodes <= 17; ++nodes) {
    for (size_t elements : {1, 2, 63, 64, 65, 200, 1000}) {
      for (size_t element_bytes : {size_t{4}, size_t{1} << 20}) {  // doubling, halving
        std::vector<std::vector<CrossStep>> steps;
        std::vector<Shard> shards;
        for (int node = 0; node < nodes; ++node) {
          steps.push_back(plan_cross_sum(nodes, node, elements, element_bytes));
          shards.push_back(Shard(elements, std::to_string(node)));
        }
        INFO(nodes << " nodes, " << elements << " elements of " << element_bytes);
        REQUIRE(play(steps, &shards));
        for (const Shard& shard : shards) {
          for (const std::string& x : shard) REQUIRE(x == promised(nodes));
        }
      }
    }
  }
}

TEST_CASE("a broadcast between nodes reaches every node from any root") {
  for (int nodes = 1; nodes <= 17; ++nodes) {
    for (int root = 0; root < nodes; ++root) {
      std::vector<std::vector<CrossStep>> steps;
      std::vector<Shard> shards;
      for (int node = 0; node < nodes; ++node) {
        steps.push_back(plan_cross_broadcast(nodes, node, root, 3));
        shards.push_back(Shard(3, std::to_string(node)));
      }
      INFO(nodes << " nodes, root " << root);
      REQUIRE(play(steps, &shards));
      for (const Shard& shard : shards) REQUIRE(shard == Shard(3, std::to_string(root)));
    }
  }
}

TEST_CASE("shards cover a block without gap or overlap") {
  for (size_t elements : {0, 1, 63, 64, 65, 127, 4096, 10001}) {
    for (int shards = 1; shards <= 9; ++shards) {
      size_t at = 0;
      for (int shard = 0; shard < shards; ++shard) {
        const Range range = shard_range(elements, shards, shard);
        REQUIRE(range.begin == at);
        REQUIRE(range.end >= range.begin);
        at = range.end;
      }
      REQUIRE(at == elements);
    }
  }
}

TEST_CASE("the first members of a reducescatter keep the rows that are left over") {
  struct Case {
    size_t rows;
    int size;
    std::vector<size_t> begins;  // of all members, and the end
  };
  for (const Case& c :
       std::vector<Case>{{0, 3, {0, 0, 0, 0}},
                         {1, 3, {0, 1, 1, 1}},
                         {2, 3, {0, 1, 2, 2}},
                         {3, 3, {0, 1, 2, 3}},
                         {7, 3, {0, 3, 5, 7}},
                         {8, 3, {0, 3, 6, 8}},
                         {5, 1, {0, 5}},
                         {size_t{1} << 40, 2, {0, size_t{1} << 39, size_t{1} << 40}}}) {
    for (int i = 0; i < c.size; ++i) {
      INFO(c.rows << " rows, member " << i << " of " << c.size);
      CHECK(rows_of(c.rows, c.size, i).begin == c.begins[i]);
      CHECK(rows_of(c.rows, c.size, i).end == c.begins[i + 1]);
    }
  }
}

TEST_CASE("all ranks plan a batch alike but for their own place") {
  const Layout layout = *layout_from_nodes({0, 0, 0, 1, 1, 2});
  for (size_t elements : {1, 1000, 100000, 3000000}) {
    BatchOrder order;
    order.type = DataType::kFloat64;
    order.elements = elements;
    order.first_block = 7;
    const auto plan_of = [&](int rank) {
      return plan_batch(Geometry::of(layout, rank, 1 << 20, 4),
                        Team::of(layout, rank, {0, 1, 2, 3, 4, 5}), order);
    };
    const BatchPlan first = plan_of(0);
    CHECK(first.shards == 1);  // a node has one rank
    CHECK(first.blocks == (elements * 8 + (1 << 20) - 1) / (1 << 20));
    size_t covered = 0;
    for (uint64_t b = 7; b < 7 + first.blocks; ++b) covered += first.elements_of(b);
    CHECK(covered == elements);
    for (int rank = 1; rank < layout.size; ++rank) {
      const BatchPlan plan = plan_of(rank);
      CHECK(plan.blocks == first.blocks);
      CHECK(plan.block_elements == first.block_elements);
      CHECK(plan.shards == first.shards);
      CHECK(plan.direct == first.direct);
    }
  }
}
