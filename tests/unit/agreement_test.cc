// SPDX-License-Identifier: Apache-2.0
//
// The agreement as a whole without a runtime: announcers, aggregators and the scheduler with
// queues for the board and the tree, words delivered in any order that queues allow. What cannot
// be brought about with threads on purpose (an eviction that crosses an announcement three hops
// away) happens here thousands of times. A case is a seed; a failure prints it.
#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "libhvd/control/aggregator.h"
#include "libhvd/control/announcer.h"
#include "libhvd/control/scheduler.h"
#include "libhvd/topo/layout.h"
#include "tests/unit/catch.h"
#include "tests/unit/random_cases.h"

using namespace hvd;
using namespace hvd::test;

namespace {

struct Tree {
  std::vector<int> node_of_rank;
  std::vector<int> parent;  // by node; -1 for the root
};

std::string floats(int64_t n) {
  Description d;
  d.kind = OpKind::kAllreduce;
  d.type = DataType::kFloat32;
  d.shape = {n};
  return d.encode();
}

// A job of ranks that submit each of `names` names `uses` times.
class Agreement {
 public:
  Agreement(const Tree& tree, int names, int uses, Scheduler::Limits limits, Random* random)
      : layout_(*layout_from_nodes(tree.node_of_rank)),
        tree_(tree),
        uses_(uses),
        random_(*random),
        scheduler_(limits),
        nodes_(static_cast<size_t>(layout_.nodes())),
        ranks_(static_cast<size_t>(layout_.size)) {
    for (size_t node = 0; node < nodes_.size(); ++node) {
      for (size_t child = 0; child < nodes_.size(); ++child) {
        if (tree_.parent[child] == static_cast<int>(node)) nodes_[node].children.push_back(child);
      }
      std::vector<std::vector<int>> below;
      for (int rank : layout_.ranks[node]) below.push_back({rank});
      for (size_t child : nodes_[node].children) below.push_back(ranks_below(child));
      nodes_[node].aggregator = std::make_unique<Aggregator>(below);
    }
    // Most uses of a name say the same as the last one; some ranks, or all, may say another thing.
    says_.resize(static_cast<size_t>(names));
    for (auto& of_name : says_) {
      int64_t usual = 1;
      for (int use = 0; use < uses; ++use) {
        if (random_.one_in(4)) usual = random_.from(1, 4);
        std::vector<int64_t> by_rank(ranks_.size(), usual);
        if (random_.one_in(3)) {
          for (int64_t& extent : by_rank) {
            if (random_.one_in(3)) extent = random_.from(1, 4);
          }
        }
        of_name.push_back(by_rank);
      }
    }
    for (Rank& rank : ranks_) rank.names.resize(static_cast<size_t>(names));
  }

  // Nothing if all went as the model says.
  std::string run() {
    while (error_.empty() && step()) {
    }
    for (size_t rank = 0; rank < ranks_.size() && error_.empty(); ++rank) {
      for (size_t name = 0; name < says_.size(); ++name) {
        const Name& n = ranks_[rank].names[name];
        if (!n.in_flight && n.uses == uses_) continue;
        error_ = "rank " + std::to_string(rank) + " waits for ever for use " +
                 std::to_string(n.uses) + " of name " + std::to_string(name);
      }
    }
    return error_;
  }

 private:
  struct Name {
    int uses = 0;  // finished
    bool in_flight = false;
  };
  struct Rank {
    Announcer announcer;
    std::deque<std::string> lane;     // to the leader, encoded
    std::deque<std::string> entries;  // from the board, encoded
    std::vector<Name> names;
  };
  struct Node {
    std::unique_ptr<Aggregator> aggregator;
    std::vector<size_t> children;
    std::deque<std::string> up;    // to the parent
    std::deque<std::string> down;  // from the parent
  };

  std::vector<int> ranks_below(size_t node) const {
    std::vector<int> ranks = layout_.ranks[node];
    for (size_t child = 0; child < tree_.parent.size(); ++child) {
      if (tree_.parent[child] != static_cast<int>(node)) continue;
      const std::vector<int> more = ranks_below(child);
      ranks.insert(ranks.end(), more.begin(), more.end());
    }
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }

  // One thing that can happen, at random; false if nothing can.
  bool step() {
    std::vector<std::pair<char, size_t>> can;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!ranks_[rank].lane.empty()) can.emplace_back('l', rank);
      if (!ranks_[rank].entries.empty()) can.emplace_back('e', rank);
      if (next_to_submit(rank)) can.emplace_back('s', rank);
    }
    for (size_t node = 0; node < nodes_.size(); ++node) {
      if (!nodes_[node].up.empty()) can.emplace_back('u', node);
      if (!nodes_[node].down.empty()) can.emplace_back('d', node);
    }
    if (finished_ < scheduler_.formed()) can.emplace_back('f', 0);
    if (can.empty()) return false;
    const auto [what, who] = can[random_.below(can.size())];
    switch (what) {
      case 'l': {
        const size_t node = static_cast<size_t>(layout_.node_of[who]);
        hear(node, static_cast<size_t>(layout_.local_rank[who]), &ranks_[who].lane);
        break;
      }
      case 'e':
        read_entry(who);
        break;
      case 's':
        submit(who);
        break;
      case 'u': {
        const size_t parent = static_cast<size_t>(tree_.parent[who]);
        const auto& children = nodes_[parent].children;
        const size_t place = static_cast<size_t>(std::find(children.begin(), children.end(), who) -
                                                 children.begin());
        hear(parent, layout_.ranks[parent].size() + place, &nodes_[who].up);
        break;
      }
      case 'd': {
        const std::string bytes = nodes_[who].down.front();
        nodes_[who].down.pop_front();
        distribute(who, bytes);
        pass_on(who);
        break;
      }
      case 'f':
        ++finished_;
        pass_on(0);
        break;
    }
    return true;
  }

  std::optional<size_t> next_to_submit(size_t rank) {
    const auto& names = ranks_[rank].names;
    const size_t begin = random_.below(names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      const size_t name = (begin + i) % names.size();
      if (!names[name].in_flight && names[name].uses < uses_) return name;
    }
    return std::nullopt;
  }

  void submit(size_t rank) {
    const size_t name = *next_to_submit(rank);
    Name& n = ranks_[rank].names[name];
    n.in_flight = true;
    const std::string text = std::to_string(name);
    const std::string description = floats(says_[name][static_cast<size_t>(n.uses)][rank]);
    Announcer& announcer = ranks_[rank].announcer;
    if (std::optional<Report> forgotten = announcer.forgotten()) say(rank, std::move(*forgotten));
    say(rank, announcer.announce(text, description));
  }

  void say(size_t rank, Report report) {
    if (layout_.local_rank[rank] != 0) {
      ranks_[rank].lane.push_back(report.encode());
      return;
    }
    const size_t node = static_cast<size_t>(layout_.node_of[rank]);
    nodes_[node].aggregator->take(0, std::move(report));
    pass_on(node);
  }

  void hear(size_t node, size_t child, std::deque<std::string>* queue) {
    std::optional<Report> report = Report::decode(queue->front());
    queue->pop_front();
    if (!report || !nodes_[node].aggregator->take(static_cast<int>(child), std::move(*report))) {
      error_ = "a report that is none";
    }
    // No more than what can be in flight at each step of the tree.
    if (nodes_[node].aggregator->remembered() > 4 * says_.size()) {
      error_ = "node " + std::to_string(node) + " remembers " +
               std::to_string(nodes_[node].aggregator->remembered()) + " evicted tickets";
    }
    pass_on(node);
  }

  void pass_on(size_t node) {
    for (;;) {
      std::vector<Report> reports = nodes_[node].aggregator->drain();
      if (node != 0) {
        for (const Report& report : reports) nodes_[node].up.push_back(report.encode());
        return;
      }
      for (Report& report : reports) scheduler_.take(std::move(report), 0);
      scheduler_.form(finished_, 0);
      const std::vector<Entry> entries = scheduler_.drain();
      if (reports.empty() && entries.empty()) return;
      Writer writer;
      for (const Entry& entry : entries) entry.encode(&writer);
      if (!entries.empty()) distribute(0, writer.bytes());
    }
  }

  // As Control does: the leader applies an entry before anybody below can read it.
  void distribute(size_t node, const std::string& bytes) {
    Reader reader(bytes);
    while (reader.ok() && !reader.at_end()) {
      nodes_[node].aggregator->apply(Entry::decode(&reader));
    }
    for (size_t child : nodes_[node].children) nodes_[child].down.push_back(bytes);
    for (int rank : layout_.ranks[node]) {
      ranks_[static_cast<size_t>(rank)].entries.push_back(bytes);
    }
  }

  void read_entry(size_t rank) {
    Rank& r = ranks_[rank];
    const std::string bytes = r.entries.front();
    r.entries.pop_front();
    Reader reader(bytes);
    while (reader.ok() && !reader.at_end() && error_.empty()) {
      const Entry entry = Entry::decode(&reader);
      r.announcer.apply(entry);
      if (entry.kind == Entry::Kind::kFail) {
        finish(rank, std::stoul(entry.name), entry.text);
      }
      if (entry.kind != Entry::Kind::kBatch) continue;
      for (Ticket ticket : entry.tickets) {
        const std::string* name = r.announcer.name_of(ticket);
        if (name == nullptr) {
          error_ = "a batch with an unknown ticket";
          return;
        }
        finish(rank, std::stoul(*name), "");
      }
    }
  }

  void finish(size_t rank, size_t name, const std::string& text) {
    Name& n = ranks_[rank].names[name];
    const std::string where = "rank " + std::to_string(rank) + ", use " + std::to_string(n.uses) +
                              " of name " + std::to_string(name);
    if (!n.in_flight) {
      error_ = where + " was finished before it was submitted";
      return;
    }
    const std::string want = expected(name, static_cast<size_t>(n.uses));
    if (text != want) error_ = where + " ended with \"" + text + "\", not \"" + want + "\"";
    n.in_flight = false;
    ++n.uses;
  }

  std::string expected(size_t name, size_t use) const {
    std::vector<Opinion> opinions;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const std::string said = floats(says_[name][use][rank]);
      auto same = std::find_if(opinions.begin(), opinions.end(),
                               [&](const Opinion& o) { return o.description == said; });
      if (same == opinions.end()) same = opinions.insert(opinions.end(), {said, {}});
      same->ranks.push_back(static_cast<int>(rank));
    }
    return opinions.size() == 1 ? "" : disagreement(std::to_string(name), opinions);
  }

  const Layout layout_;
  const Tree tree_;
  const int uses_;
  Random& random_;
  Scheduler scheduler_;
  std::vector<Node> nodes_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<std::vector<int64_t>>> says_;  // by name, use, rank: the extent
  uint64_t finished_ = 0;
  std::string error_;
};

const std::vector<Tree>& trees() {
  static const std::vector<Tree> all = {
      {{0, 0}, {-1}},
      {{0, 0, 0}, {-1}},
      {{0, 1}, {-1, 0}},
      {{0, 0, 1, 1}, {-1, 0}},
      {{0, 1, 2, 0, 1, 2}, {-1, 0, 1}},  // a chain of three nodes
      {{0, 0, 1, 1, 2, 2, 3}, {-1, 0, 0, 1}},
  };
  return all;
}

}  // namespace

TEST_CASE("whatever crosses on the way, every use of a name ends as its descriptions say") {
  for_random_cases("agreement", 300, [](Random* random) -> std::string {
    Scheduler::Limits limits;
    limits.cache_capacity = random->below(5);  // of four names: always some evictions but for 4
    limits.fusion_bytes = random->one_in(2) ? 0 : 1000;
    const Tree& tree = trees()[random->below(trees().size())];
    return Agreement(tree, 4, 12, limits, random).run();
  });
}
