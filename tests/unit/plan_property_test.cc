// SPDX-License-Identifier: Apache-2.0
//
// What holds for every layout, and for every plan made for one, asked of ten thousand random ones
// each.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "libhvd/coll/plan.h"
#include "libhvd/control/scheduler.h"
#include "libhvd/topo/layout.h"
#include "tests/unit/catch.h"
#include "tests/unit/random_cases.h"

using namespace hvd;
using namespace hvd::test;

namespace {

constexpr int kCases = 10000;

// Every node has a rank, in any order.
std::vector<int> random_nodes(Random* random) {
  const int size = static_cast<int>(random->from(1, 24));
  const int nodes = static_cast<int>(random->from(1, size));
  std::vector<int> node_of;
  for (int rank = 0; rank < size; ++rank) {
    node_of.push_back(rank < nodes ? rank : static_cast<int>(random->below(nodes)));
  }
  random->shuffle(&node_of);
  return node_of;
}

// The layout of `node_of` as it is told in layout.h, by counting.
std::string unlike_the_naive_one(const Layout& layout, const std::vector<int>& node_of) {
  const int size = static_cast<int>(node_of.size());
  if (layout.size != size || layout.node_of != node_of) return "another size or other nodes";
  std::map<int, int> size_of_node;
  for (int node : node_of) ++size_of_node[node];
  if (layout.nodes() != static_cast<int>(size_of_node.size())) return "another number of nodes";
  bool homogeneous = true;
  for (auto [node, ranks] : size_of_node) homogeneous &= ranks == size_of_node[0];
  if (layout.homogeneous() != homogeneous) return "homogeneous() is wrong";
  for (int rank = 0; rank < size; ++rank) {
    int local = 0;
    for (int other = 0; other < rank; ++other) local += node_of[other] == node_of[rank] ? 1 : 0;
    int cross_rank = 0;
    int cross_size = 0;
    for (auto [node, ranks] : size_of_node) {
      if (ranks <= local) continue;
      ++cross_size;
      if (node < node_of[rank]) ++cross_rank;
    }
    const int leader = static_cast<int>(std::find(node_of.begin(), node_of.end(), node_of[rank]) -
                                        node_of.begin());
    if (layout.local_rank[rank] != local || layout.cross_rank(rank) != cross_rank ||
        layout.cross_size(rank) != cross_size ||
        layout.local_size(rank) != size_of_node[node_of[rank]] ||
        layout.leader(node_of[rank]) != leader || layout.ranks[node_of[rank]][local] != rank) {
      return "rank " + std::to_string(rank) + " has another place";
    }
  }
  return "";
}

}  // namespace

TEST_CASE("every layout is what counting says, from node numbers and from names") {
  for_random_cases("layouts", kCases, [](Random* random) -> std::string {
    const std::vector<int> node_of = random_nodes(random);
    const Expected<Layout> layout = layout_from_nodes(node_of);
    if (!layout.ok()) return layout.status().text();
    if (std::string wrong = unlike_the_naive_one(*layout, node_of); !wrong.empty()) return wrong;
    std::vector<std::string> names;
    std::map<int, int> number;  // by first appearance
    std::vector<int> renumbered;
    for (int node : node_of) {
      names.push_back("host-" + std::to_string(node * 7919 % 101));
      number.emplace(node, static_cast<int>(number.size()));
      renumbered.push_back(number[node]);
    }
    return unlike_the_naive_one(layout_from_names(names), renumbered);
  });
}

TEST_CASE("every mapping gives the nodes that its blocks say, and for its number of ranks only") {
  for_random_cases("mappings", kCases, [](Random* random) -> std::string {
    std::string mapping = "(vector";
    std::vector<int> want;
    for (int64_t blocks = random->from(1, 5); blocks > 0; --blocks) {
      const int first = static_cast<int>(random->below(6));
      const int nodes = static_cast<int>(random->below(5));
      const int each = static_cast<int>(random->below(5));
      mapping += ",(" + std::to_string(first) + "," + std::to_string(nodes) + "," +
                 std::to_string(each) + ")";
      for (int node = first; node < first + nodes; ++node) want.insert(want.end(), each, node);
    }
    mapping += ")";
    const int size = static_cast<int>(want.size());
    const auto got = nodes_from_mapping(mapping, size);
    if (!got.ok() || *got != want) return mapping;
    const int other = static_cast<int>(random->below(80));
    if (other != size && nodes_from_mapping(mapping, other).ok()) return mapping + " of any size";
    // Text that is no mapping is refused or is one, and never worse.
    std::string changed = mapping;
    changed[random->below(changed.size())] = "(),09 -v"[random->below(8)];
    const auto nodes = nodes_from_mapping(changed, size);
    if (nodes.ok() && static_cast<int>(nodes->size()) != size) return changed;
    return "";
  });
}

namespace {

// At least one rank, in any order.
std::vector<int> random_members(Random* random, int size) {
  std::vector<int> members(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) members[rank] = rank;
  random->shuffle(&members);
  members.resize(static_cast<size_t>(random->from(1, size)));
  return members;
}

// What team.h says about a team, by looking at each member.
std::string unlike_its_members(const Team& team, const Layout& layout, int rank,
                               std::vector<int> members) {
  std::sort(members.begin(), members.end());
  if (team.ranks != members || team.size != static_cast<int>(members.size())) return "other ranks";
  std::map<int, std::vector<int>> by_node;
  for (int member : members) by_node[layout.node_of[member]].push_back(member);
  if (team.nodes != static_cast<int>(by_node.size())) return "another number of nodes";
  int node = 0;
  size_t least = members.size();
  std::vector<int> local_ranks;
  int my_node = -1;
  for (const auto& [of_job, ranks] : by_node) {
    if (team.ranks_by_node[node] != ranks) return "a node with other ranks";
    for (size_t place = 0; place < ranks.size(); ++place) {
      const int index = team.index_of(ranks[place]);
      if (team.ranks[index] != ranks[place] || team.members_by_node[node][place] != index ||
          team.node_of[index] != node || team.place_of[index] != static_cast<int>(place)) {
        return "a member has another place";
      }
      if (ranks[place] == rank &&
          (team.index != index || team.local_index != static_cast<int>(place))) {
        return "my place is wrong";
      }
      if (of_job == layout.node_of[rank]) local_ranks.push_back(layout.local_rank[ranks[place]]);
    }
    if (of_job == layout.node_of[rank]) my_node = node;
    least = std::min(least, ranks.size());
    ++node;
  }
  if (team.node != my_node || team.local_ranks != local_ranks) return "my node is wrong";
  if (team.max_shards != static_cast<int>(least)) return "another number of shards";
  const bool member = std::count(members.begin(), members.end(), rank) > 0;
  if (!member && (team.index != -1 || team.local_index != -1 || team.index_of(rank) != -1)) {
    return "a place for one who is no member";
  }
  return "";
}

}  // namespace

TEST_CASE("every team is what looking at each member says, for members and for others") {
  for_random_cases("teams", kCases, [](Random* random) -> std::string {
    const Layout layout = *layout_from_nodes(random_nodes(random));
    const std::vector<int> members = random_members(random, layout.size);
    const int rank = static_cast<int>(random->below(static_cast<size_t>(layout.size)));
    return unlike_its_members(Team::of(layout, rank, members), layout, rank, members);
  });
}

TEST_CASE("plans agree on all ranks, with their shards' owners and with the root's count") {
  for_random_cases("plans", kCases, [](Random* random) -> std::string {
    const Layout layout = *layout_from_nodes(random_nodes(random));
    const DataType types[] = {DataType::kInt32, DataType::kInt64, DataType::kFloat32,
                              DataType::kFloat64};
    const DataType type = types[random->below(4)];
    const size_t block_bytes = 4096 * static_cast<size_t>(random->from(1, 300));
    const std::vector<int> members = random_members(random, layout.size);
    BatchOrder order;
    order.kind = random->one_in(3) ? OpKind::kBroadcast : OpKind::kAllreduce;
    order.type = type;
    order.elements = random->below(size_t{1} << random->from(1, 22));
    order.first_block = random->below(100000);
    order.root = members[random->below(members.size())];
    const size_t elements = order.elements;
    const uint64_t first_block = order.first_block;
    const auto plan_of = [&](int rank) {
      return plan_batch(Geometry::of(layout, rank, block_bytes, 4), Team::of(layout, rank, members),
                        order);
    };
    const BatchPlan plan = plan_of(members[0]);
    for (int rank : members) {
      const BatchPlan other = plan_of(rank);
      // Direct is a matter of one node; there all ranks must agree on it too.
      if (other.blocks != plan.blocks || other.block_elements != plan.block_elements ||
          other.shards != plan.shards || other.direct != plan.direct) {
        return "rank " + std::to_string(rank) + " plans otherwise";
      }
    }
    const Team team = Team::of(layout, 0, members);
    for (const auto& ranks : team.ranks_by_node) {
      if (plan.shards < 1 || plan.shards > static_cast<int>(ranks.size())) return "no such owner";
    }
    if (plan.direct && team.nodes > 1) return "direct over several nodes";
    if (order.kind == OpKind::kBroadcast &&
        team.ranks_by_node[plan.root_node][plan.root_place] != order.root) {
      return "another root";
    }
    size_t covered = 0;
    for (uint64_t block = first_block; block < first_block + plan.blocks; ++block) {
      const size_t n = plan.elements_of(block);
      size_t at = 0;
      for (int shard = 0; shard < plan.shards; ++shard) {
        const Range range = shard_range(n, plan.shards, shard);
        if (range.begin != at || range.end < at) return "shards with a gap";
        at = range.end;
      }
      if (at != n) return "shards do not cover the block";
      covered += n;
    }
    if (covered != elements) return "blocks do not cover the batch";
    // The root counts blocks in bytes, without a plan.
    Scheduler::Limits limits;
    limits.fusion_bytes = 0;
    limits.block_bytes = block_bytes;
    Scheduler scheduler(limits, 1);
    Description d;
    d.kind = order.kind;
    for (const char* name : {"first", "behind"}) {
      d.tensors = {{type, {*name == 'f' ? static_cast<int64_t>(elements) : 1}}};
      Report report;
      report.kind = Report::Kind::kSubmit;
      report.key.name = name;
      report.opinions.push_back({d.encode(), {}});
      scheduler.take(report, 0);
    }
    scheduler.form(0, 0);
    std::vector<uint64_t> begins;
    for (const Entry& entry : scheduler.drain()) {
      if (entry.kind == Entry::Kind::kBatch) begins.push_back(entry.first_block);
    }
    if (begins.size() != 2 || begins[1] - begins[0] != plan.blocks) {
      return "the root counts other blocks than the plan";
    }
    return "";
  });
}

namespace {

// A number for "a + b": the same for b + a, another one for another tree.
uint64_t plus(uint64_t a, uint64_t b) {
  return Random(Random(std::min(a, b)).next() ^ std::max(a, b)).next();
}

uint64_t leaf(size_t node) { return Random(node + 1).next(); }

// The tree that plan.h promises.
uint64_t promised_sum(size_t nodes) {
  size_t power = 1;
  while (power * 2 <= nodes) power *= 2;
  std::vector<uint64_t> level;
  for (size_t i = 0; i < power; ++i) {
    level.push_back(i + power < nodes ? plus(leaf(i), leaf(i + power)) : leaf(i));
  }
  for (; level.size() > 1; level.resize(level.size() / 2)) {
    for (size_t i = 0; i < level.size() / 2; ++i) level[i] = plus(level[2 * i], level[2 * i + 1]);
  }
  return level[0];
}

using Steps = std::vector<std::vector<CrossStep>>;  // by node
using Shards = std::vector<std::vector<uint64_t>>;  // by node and element

// Every message has a receiver that expects so many elements, in the order of both.
std::string partners_differ(const Steps& steps) {
  std::map<std::tuple<int, int, int>, std::vector<size_t>> sent;
  std::map<std::tuple<int, int, int>, std::vector<size_t>> received;
  for (size_t node = 0; node < steps.size(); ++node) {
    const int me = static_cast<int>(node);
    for (const CrossStep& step : steps[node]) {
      const int kind = static_cast<int>(step.kind);
      if (step.peer == me) return "a step with itself";
      if (step.send.size() > 0) sent[{me, step.peer, kind}].push_back(step.send.size());
      if (step.receive.size() > 0) received[{step.peer, me, kind}].push_back(step.receive.size());
    }
  }
  return sent == received ? "" : "a message that nobody expects, or the other way round";
}

// Plays the steps; false if somebody waits for ever.
bool play(const Steps& steps, Shards* shards) {
  std::map<std::tuple<int, int, int>, std::vector<std::vector<uint64_t>>> mail;
  std::vector<size_t> at(steps.size(), 0);
  std::vector<bool> sent(steps.size(), false);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t node = 0; node < steps.size(); ++node) {
      if (at[node] == steps[node].size()) continue;
      const CrossStep& step = steps[node][at[node]];
      auto& mine = (*shards)[node];
      const int me = static_cast<int>(node);
      const int kind = static_cast<int>(step.kind);
      if (!sent[node] && step.send.size() > 0) {
        mail[{me, step.peer, kind}].emplace_back(mine.begin() + step.send.begin,
                                                 mine.begin() + step.send.end);
      }
      sent[node] = true;
      if (step.receive.size() > 0) {
        auto& box = mail[{step.peer, me, kind}];
        if (box.empty()) continue;
        for (size_t i = 0; i < step.receive.size(); ++i) {
          uint64_t& x = mine[step.receive.begin + i];
          x = step.reduce ? plus(x, box[0][i]) : box[0][i];
        }
        box.erase(box.begin());
      }
      sent[node] = false;
      ++at[node];
      moved = true;
    }
  }
  for (size_t node = 0; node < steps.size(); ++node) {
    if (at[node] != steps[node].size()) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("between nodes partners match, and every element of every sum is the same tree") {
  for_random_cases("cross sums", kCases, [](Random* random) -> std::string {
    const size_t nodes = static_cast<size_t>(random->from(1, random->one_in(8) ? 33 : 9));
    const size_t elements = random->below(random->one_in(8) ? 300 : 70);
    const size_t element_bytes = size_t{1} << random->from(2, 12);  // doubling, halving
    const std::string what = std::to_string(nodes) + " nodes, " + std::to_string(elements) +
                             " elements of " + std::to_string(element_bytes) + " bytes: ";
    Steps steps;
    Shards shards;
    for (size_t node = 0; node < nodes; ++node) {
      steps.push_back(
          plan_cross_sum(static_cast<int>(nodes), static_cast<int>(node), elements, element_bytes));
      shards.emplace_back(elements, leaf(node));
    }
    if (std::string wrong = partners_differ(steps); !wrong.empty()) return what + wrong;
    if (!play(steps, &shards)) return what + "somebody waits for ever";
    for (const auto& shard : shards) {
      for (uint64_t x : shard) {
        if (x != promised_sum(nodes)) return what + "another tree";
        if (elements > 8) break;  // the first here, the others by comparison below
      }
      if (shard != shards[0]) return what + "nodes have different sums";
      if (shard != std::vector<uint64_t>(elements, elements == 0 ? 0 : shard[0])) {
        return what + "elements have different trees";
      }
    }
    return "";
  });
}

TEST_CASE("between nodes every broadcast reaches everybody once, from any root") {
  for_random_cases("cross broadcasts", kCases, [](Random* random) -> std::string {
    const size_t nodes = static_cast<size_t>(random->from(1, 40));
    const size_t root = random->below(nodes);
    Steps steps;
    Shards shards;
    for (size_t node = 0; node < nodes; ++node) {
      steps.push_back(plan_cross_broadcast(static_cast<int>(nodes), static_cast<int>(node),
                                           static_cast<int>(root), 3));
      shards.emplace_back(3, leaf(node));
      const auto receives = std::count_if(steps[node].begin(), steps[node].end(),
                                          [](const CrossStep& s) { return s.receive.size() > 0; });
      if (receives != (node == root ? 0 : 1)) return "a node that does not receive once";
    }
    if (std::string wrong = partners_differ(steps); !wrong.empty()) return wrong;
    if (!play(steps, &shards)) return "somebody waits for ever";
    for (const auto& shard : shards) {
      if (shard != std::vector<uint64_t>(3, leaf(root))) return "a node has something else";
    }
    return "";
  });
}

TEST_CASE("messages that a pair of ranks can have under way together have tags of their own") {
  for_random_cases("tags", kCases, [](Random* random) -> std::string {
    const uint64_t first = random->next() >> random->below(60);
    std::set<int> tags;
    for (uint64_t block = first; block < first + 16; ++block) {  // the most slots there are
      for (int kind = 0; kind <= 4; ++kind) {
        const int tag = cross_tag(block, static_cast<CrossStep::Kind>(kind));
        if (tag < 0 || tag > 32767) return "a tag that MPI may not take";
        if (!tags.insert(tag).second) return "two messages with one tag";
      }
    }
    return "";
  });
}
