// SPDX-License-Identifier: Apache-2.0
//
// The plans behind reducescatter, allgather and Adasum, played through for random layouts.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "libhvd/coll/adasum.h"
#include "libhvd/coll/gather.h"
#include "libhvd/coll/plan.h"
#include "tests/unit/catch.h"
#include "tests/unit/random_cases.h"

using namespace hvd;
using namespace hvd::test;

namespace {

constexpr int kCases = 10000;

using Steps = std::vector<std::vector<CrossStep>>;  // by node
using Shards = std::vector<std::vector<int64_t>>;   // by node and element

// Plays the steps with messages in order; the elements that moved, or nothing if somebody waits
// for ever.
std::optional<size_t> play(const Steps& steps, Shards* shards) {
  std::map<std::tuple<int, int, CrossStep::Kind>, std::vector<std::vector<int64_t>>> mail;
  std::vector<size_t> at(steps.size(), 0);
  std::vector<bool> sent(steps.size(), false);
  size_t total = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t node = 0; node < steps.size(); ++node) {
      if (at[node] == steps[node].size()) continue;
      const CrossStep& step = steps[node][at[node]];
      auto& mine = (*shards)[node];
      const int me = static_cast<int>(node);
      if (!sent[node] && step.send.size() > 0) {
        total += step.send.size();
        mail[{me, step.peer, step.kind}].emplace_back(mine.begin() + step.send.begin,
                                                      mine.begin() + step.send.end);
      }
      sent[node] = true;
      if (step.receive.size() > 0) {
        auto& box = mail[{step.peer, me, step.kind}];
        if (box.empty()) continue;
        if (box[0].size() != step.receive.size()) return std::nullopt;
        for (size_t i = 0; i < box[0].size(); ++i) {
          int64_t& x = mine[step.receive.begin + i];
          x = step.reduce ? x + box[0][i] : box[0][i];
        }
        box.erase(box.begin());
      }
      sent[node] = false;
      ++at[node];
      moved = true;
    }
  }
  for (size_t node = 0; node < steps.size(); ++node) {
    if (at[node] != steps[node].size()) return std::nullopt;
  }
  for (const auto& [key, box] : mail) {
    if (!box.empty()) return std::nullopt;
  }
  return total;
}

Team random_team(Random* random) {
  const int size = static_cast<int>(random->from(1, 16));
  const int nodes = static_cast<int>(random->from(1, size));
  std::vector<int> node_of;
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank) {
    node_of.push_back(rank < nodes ? rank : static_cast<int>(random->below(nodes)));
    ranks.push_back(rank);
  }
  random->shuffle(&node_of);
  return Team::of(*layout_from_nodes(node_of), 0, ranks);
}

}  // namespace

TEST_CASE("every node gets the sums that it needs, and no more moves than for all of them") {
  for_random_cases("needs", kCases, [](Random* random) -> std::string {
    const size_t nodes = static_cast<size_t>(random->from(1, 9));
    const size_t elements = random->below(random->one_in(4) ? 2000 : 300);
    const size_t element_bytes = random->one_in(2) ? 4 : 4096;  // doubling, halving
    std::vector<Range> needs(nodes);
    for (Range& need : needs) {
      if (elements == 0 || random->one_in(4)) continue;
      need.begin = random->below(elements);
      need.end = need.begin + random->below(elements - need.begin + 1);
    }
    Steps all, some;
    Shards shards;
    std::vector<int64_t> sums(elements, 0);
    for (size_t node = 0; node < nodes; ++node) {
      const int n = static_cast<int>(node);
      all.push_back(plan_cross_sum(static_cast<int>(nodes), n, elements, element_bytes));
      some.push_back(plan_cross_sum(static_cast<int>(nodes), n, elements, element_bytes, &needs));
      shards.emplace_back();
      for (size_t i = 0; i < elements; ++i) {
        shards[node].push_back(static_cast<int64_t>(random->below(1000000)));
        sums[i] += shards[node][i];
      }
    }
    Shards others = shards;
    const auto most = play(all, &others);
    const auto least = play(some, &shards);
    if (!most || !least) return "somebody waits for ever, or for another message";
    if (*least > *most) return "more moves than for all sums";
    for (size_t node = 0; node < nodes; ++node) {
      for (size_t i = needs[node].begin; i < needs[node].end; ++i) {
        if (shards[node][i] != sums[i]) return "a sum that is needed is wrong";
      }
      if (others[node] != sums) return "a sum is wrong where all are needed";
    }
    return "";
  });
}

TEST_CASE("a node that keeps its rows of many is told about those only") {
  // Halving with the pairing of plan.h: what comes back is the hull that a group of nodes wants.
  constexpr size_t kRows = 1 << 16;
  for (int nodes : {2, 4, 8}) {
    std::vector<Range> needs;
    for (int node = 0; node < nodes; ++node) needs.push_back(rows_of(kRows, nodes, node));
    for (int node = 0; node < nodes; ++node) {
      size_t gathered = 0;
      for (const CrossStep& step : plan_cross_sum(nodes, node, kRows, 4, &needs)) {
        if (step.kind == CrossStep::Kind::kGather) gathered += step.receive.size();
      }
      INFO("node " << node << " of " << nodes);
      CHECK(gathered < kRows * static_cast<size_t>(nodes - 1) / static_cast<size_t>(nodes));
    }
  }
}

TEST_CASE("chunks of an allgather have places of their own and take as few rounds as they can") {
  for_random_cases("gathers", kCases, [](Random* random) -> std::string {
    const Team team = random_team(random);
    const size_t block_bytes = size_t{64} << random->below(12);
    std::vector<size_t> bytes;
    for (int i = 0; i < team.size; ++i) {
      bytes.push_back(random->one_in(4) ? 0 : random->below(size_t{1} << random->from(1, 20)));
    }
    const GatherPlan plan = plan_gather(team, bytes, block_bytes);
    if (!plan.possible) return static_cast<size_t>(team.size) * 2 <= block_bytes ? "given up" : "";
    const size_t total = std::accumulate(bytes.begin(), bytes.end(), size_t{0});
    if (plan.rounds > total / (block_bytes / 2) + 1) return "too many rounds";
    std::vector<Range> places;
    for (int i = 0; i < team.size; ++i) {
      places.push_back({plan.places[i], plan.places[i] + plan.chunks[i]});
      size_t at = 0;
      for (uint64_t round = 0; round < plan.rounds; ++round) {
        const Range part = plan.part_of(i, round);
        if (part.size() > plan.chunks[i]) return "a part that its place does not hold";
        if (part.size() > 0 && part.begin != at) return "a gap";
        at += part.size();
      }
      if (at != bytes[i]) return "a member's bytes are not all told";
      // Its region is that of its node and of its place's shard.
      const size_t region =
          static_cast<size_t>(team.place_of[i] % plan.shards * team.nodes + team.node_of[i]);
      if (places[i].begin < plan.regions[region] || places[i].end > plan.regions[region + 1]) {
        return "a place beside its region";
      }
    }
    std::sort(places.begin(), places.end(),
              [](Range a, Range b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
    for (size_t i = 1; i < places.size(); ++i) {
      if (places[i].begin < places[i - 1].end) return "places that overlap";
    }
    return places.back().end <= block_bytes ? "" : "a place behind the block";
  });
}

TEST_CASE("regions spread from every node to every other, each once") {
  for (int nodes = 1; nodes <= 33; ++nodes) {
    INFO(nodes << " nodes");
    std::vector<std::vector<SpreadStep>> steps;
    std::vector<std::vector<int>> times(nodes, std::vector<int>(nodes, 0));  // [node][region]
    for (int node = 0; node < nodes; ++node) {
      steps.push_back(plan_spread(nodes, node));
      times[node][node] = 1;
    }
    for (size_t s = 0; s < steps[0].size(); ++s) {
      const auto before = times;
      for (int node = 0; node < nodes; ++node) {
        const SpreadStep& mine = steps[node][s];
        const SpreadStep& theirs = steps[mine.from][s];
        REQUIRE(theirs.to == node);
        REQUIRE(theirs.give == mine.take);
        REQUIRE(theirs.count == mine.count);
        for (int i = 0; i < mine.count; ++i) {
          const int region = (mine.take + i) % nodes;
          REQUIRE(before[mine.from][region] == 1);
          ++times[node][region];
        }
      }
    }
    REQUIRE(times == std::vector<std::vector<int>>(nodes, std::vector<int>(nodes, 1)));
  }
}

TEST_CASE("members of an Adasum meet in pairs, and their pieces are all of every tensor") {
  for (int size = 1; size <= 33; ++size) {
    std::map<std::tuple<int, int, int>, int> met;  // lower, upper, depth
    int power = 1;
    while (power * 2 <= size) power *= 2;
    for (int index = 0; index < size; ++index) {
      for (const AdasumStep& step : plan_adasum(size, index)) {
        if (step.kind == AdasumStep::Kind::kCombine && step.depth > 0) {
          REQUIRE(step.lower == (index < step.peer));
          ++met[{std::min(index, step.peer), std::max(index, step.peer), step.depth}];
        }
      }
    }
    for (const auto& [pair, times] : met) REQUIRE(times == 2);
    for (size_t elements : {0, 1, 2, 7, 64, 1001}) {
      for (int depth = 0; (1 << depth) <= power; ++depth) {
        std::vector<int> covered(elements, 0);
        for (int index = 0; index < (1 << depth); ++index) {
          const Range piece = adasum_piece(elements, index, depth);
          for (size_t i = piece.begin; i < piece.end; ++i) ++covered[i];
        }
        REQUIRE(covered == std::vector<int>(elements, 1));
      }
    }
  }
}
