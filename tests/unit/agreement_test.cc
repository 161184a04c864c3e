// SPDX-License-Identifier: Apache-2.0
//
// The agreement as a whole, words delivered in any order: what cannot be brought about with threads
// on purpose (an eviction that crosses an announcement three hops away, a join that crosses the
// removal of a process set) happens here thousands of times. A case is a seed; a failure prints it.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/unit/agreement_job.h"
#include "tests/unit/agreement_plan.h"
#include "tests/unit/catch.h"
#include "tests/unit/control_words.h"
#include "tests/unit/random_cases.h"

using namespace hvd;
using namespace hvd::test;

namespace {

constexpr const char* kAnyDisagreement = "ranks disagree about ";

class Agreement {
 public:
  Agreement(const Tree& tree, Scheduler::Limits limits, Random* random)
      : plan_(tree.node_of_rank.size(), random),
        random_(*random),
        job_(tree, limits, random, [this](size_t rank, const Entry& entry) { read(rank, entry); }),
        ranks_(plan_.ranks) {
    for (Rank& rank : ranks_) begin_phase(&rank);
  }

  // Nothing if all went as the plan says.
  std::string run() {
    while (error_.empty() && step()) error_ += job_.error(kMostRemembered);
    for (size_t rank = 0; rank < ranks_.size() && error_.empty(); ++rank) {
      const Rank& r = ranks_[rank];
      if (r.phase < plan_.phases.size()) error_ = at(rank) + " waits for ever";
      for (const auto& [key, flight] : r.in_flight) {
        error_ = at(rank) + " waits for ever for " + key.name + " of " + std::to_string(key.set);
      }
    }
    return error_.empty() ? job_.leftover() : error_;
  }

 private:
  // What a rank has submitted and what it is: one of the three numbers is not -1.
  struct Flight {
    int add = -1;
    int remove = -1;
    int uses = -1;  // which of the phase
    size_t phase = 0;
    int use = 0;
  };
  struct Rank {
    size_t phase = 0;
    std::vector<Flight> to_do;  // of the phase, but for uses: the next of each
    bool joined = false;
    size_t joins = 0;
    std::unordered_map<OpKey, Flight, OpKeyHash> in_flight;
    std::map<int, int32_t> ids;  // of the sets that there are, by number in the plan
    std::set<int> gone;          // sets
    int32_t next_id = 1;
  };

  std::string at(size_t rank) const {
    return "rank " + std::to_string(rank) + " in phase " + std::to_string(ranks_[rank].phase);
  }

  void begin_phase(Rank* rank) {
    rank->to_do.clear();
    if (rank->phase == plan_.phases.size()) return;
    const Phase& phase = plan_.phases[rank->phase];
    Flight flight;
    flight.phase = rank->phase;
    for (int set : phase.adds) {
      flight.add = set;
      rank->to_do.push_back(flight);
    }
    flight.add = -1;
    for (int set : phase.removes) {
      flight.remove = set;
      rank->to_do.push_back(flight);
    }
    flight.remove = -1;
    for (size_t uses = 0; uses < phase.uses.size(); ++uses) {
      flight.uses = static_cast<int>(uses);
      rank->to_do.push_back(flight);
    }
  }

  const Phase::Uses& uses_of(const Flight& flight) const {
    return plan_.phases[flight.phase].uses[static_cast<size_t>(flight.uses)];
  }
  const Stream& stream_of(const Flight& flight) const {
    return plan_.streams[uses_of(flight).stream];
  }

  // Drops what the rank has no more to do of its phase, and goes on to the next.
  void tidy(size_t rank) {
    Rank& r = ranks_[rank];
    const auto over = [&](const Flight& flight) {
      if (flight.uses < 0) return false;
      const int set = stream_of(flight).set;
      if (flight.use >= uses_of(flight).times[rank] || r.gone.count(set) > 0) return true;
      if (set < 0) return false;
      const auto& members = plan_.sets[static_cast<size_t>(set)].ranks;
      return !std::binary_search(members.begin(), members.end(), static_cast<int32_t>(rank));
    };
    while (!r.joined && r.phase < plan_.phases.size()) {
      r.to_do.erase(std::remove_if(r.to_do.begin(), r.to_do.end(), over), r.to_do.end());
      if (!r.to_do.empty()) return;
      if (plan_.phases[r.phase].join) {
        r.joined = true;
        job_.say(rank, joins(static_cast<int>(rank)));
        return;
      }
      ++r.phase;
      begin_phase(&r);
    }
  }

  OpKey key_of(size_t rank, const Flight& flight) const {
    if (flight.add >= 0) return key("add " + std::to_string(flight.add));
    if (flight.remove >= 0) return key("remove " + std::to_string(flight.remove));
    const Stream& stream = stream_of(flight);
    return key(stream.name, stream.set < 0 ? 0 : ranks_[rank].ids.at(stream.set));
  }

  // What a rank could submit now.
  bool may_submit(size_t rank, const Flight& flight) const {
    const Rank& r = ranks_[rank];
    if (flight.remove >= 0 && r.ids.count(flight.remove) == 0) return false;
    if (flight.uses >= 0) {
      const int set = stream_of(flight).set;
      if (set >= 0 && r.ids.count(set) == 0) return false;
    }
    return r.in_flight.count(key_of(rank, flight)) == 0;
  }

  // One thing that can happen, at random; false if nothing can.
  bool step() {
    std::vector<std::pair<size_t, size_t>> can;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      tidy(rank);
      if (ranks_[rank].joined) continue;
      for (size_t i = 0; i < ranks_[rank].to_do.size(); ++i) {
        if (may_submit(rank, ranks_[rank].to_do[i])) can.emplace_back(rank, i);
      }
    }
    const size_t deliverable = job_.deliverable();
    if (can.empty() && deliverable == 0) return false;
    const size_t chosen = random_.below(std::min<size_t>(can.size(), 6) + deliverable);
    if (chosen < deliverable) {
      job_.deliver();
    } else {
      const auto [rank, i] = can[random_.below(can.size())];
      submit(rank, i);
    }
    return true;
  }

  void submit(size_t rank, size_t i) {
    Rank& r = ranks_[rank];
    const Flight flight = r.to_do[i];
    const OpKey key = key_of(rank, flight);
    std::string description;
    if (flight.add >= 0) description = adding(plan_.sets[static_cast<size_t>(flight.add)].ranks);
    if (flight.remove >= 0) description = removing(r.ids.at(flight.remove));
    if (flight.uses >= 0) {
      description = uses_of(flight).says[static_cast<size_t>(flight.use)][rank].encode();
      ++r.to_do[i].use;
    } else {
      r.to_do.erase(r.to_do.begin() + static_cast<std::ptrdiff_t>(i));
    }
    r.in_flight[key] = flight;
    job_.announce(rank, key, description);
  }

  void read(size_t rank, const Entry& entry) {
    Rank& r = ranks_[rank];
    if (!error_.empty()) return;
    if (entry.kind == Entry::Kind::kFail) {
      if (r.in_flight.count(entry.key) > 0) finish(rank, entry.key, entry.text);
    } else if (entry.kind == Entry::Kind::kJoined) {
      if (!r.joined) error_ = at(rank) + " has not joined, and all have";
      r.joined = false;
      const auto [last, first] = last_joined_.emplace(r.joins++, entry.rank);
      if (!first && last->second != entry.rank) error_ = at(rank) + " heard of another last rank";
      ++r.phase;
      begin_phase(&r);
    } else if (entry.kind == Entry::Kind::kBatch && is_member(rank, entry.set)) {
      for (const Ready& ready : entry.tickets) run(rank, ready.ticket);
    }
  }

  bool is_member(size_t rank, int32_t id) const {
    if (id == 0) return true;
    for (const auto& [set, known] : ranks_[rank].ids) {
      if (known != id) continue;
      const auto& members = plan_.sets[static_cast<size_t>(set)].ranks;
      return std::binary_search(members.begin(), members.end(), static_cast<int32_t>(rank));
    }
    return true;  // and so it is noticed that it does not know it
  }

  void run(size_t rank, Ticket ticket) {
    Rank& r = ranks_[rank];
    const Announcer::Known* known = job_.announcer(rank).find(ticket);
    if (known == nullptr) {
      error_ = at(rank) + " runs an unknown ticket";
      return;
    }
    const OpKey key = known->key;
    const auto it = r.in_flight.find(key);
    if (it == r.in_flight.end()) {
      const OpKind kind = Description::decode(known->description)->kind;
      const bool zeros = kind == OpKind::kAllreduce || kind == OpKind::kBarrier;
      if (!r.joined || !zeros || key.set != 0) {
        error_ = at(rank) + " runs " + key.name + ", which it has not submitted";
      }
      return;
    }
    const Flight flight = it->second;
    finish(rank, key, "");
    if (flight.add >= 0) {
      r.ids[flight.add] = r.next_id++;
      const auto [same, first] = ids_.emplace(flight.add, r.ids[flight.add]);
      if (!first && same->second != r.ids[flight.add]) error_ = at(rank) + " has another id";
    }
    if (flight.remove >= 0) remove(rank, flight.remove);
  }

  void remove(size_t rank, int set) {
    Rank& r = ranks_[rank];
    const int32_t id = r.ids.at(set);
    std::vector<OpKey> outstanding;
    for (const auto& [key, flight] : r.in_flight) {
      if (key.set == id) outstanding.push_back(key);
    }
    for (const OpKey& key : outstanding) finish(rank, key, "removed");
    r.ids.erase(set);
    r.gone.insert(set);
  }

  void finish(size_t rank, const OpKey& key, const std::string& text) {
    const Flight flight = ranks_[rank].in_flight.at(key);
    ranks_[rank].in_flight.erase(key);
    const std::string where = at(rank) + ": " + key.name + " of " + std::to_string(key.set);
    if (flight.uses < 0) {
      if (!text.empty()) error_ = where + " ended with \"" + text + "\"";
      return;
    }
    const auto [end, first] =
        ends_.emplace(std::make_tuple(flight.phase, flight.uses, flight.use), text);
    if (!first && end->second != text) error_ = where + " ended otherwise on another rank";
    const int set = stream_of(flight).set;
    if (text == "removed" && plan_.sets[static_cast<size_t>(set)].removed) return;
    const std::string want = expected(key, flight);
    // Ranks below another leader that have joined count as of their subtree's mind.
    const bool good =
        want == kAnyDisagreement ? text.find(want) != std::string::npos : text == want;
    if (!good) error_ = where + " ended with \"" + text + "\", not \"" + want + "\"";
  }

  // The text that the use ends with on all ranks that have submitted it.
  std::string expected(const OpKey& key, const Flight& flight) const {
    const Phase::Uses& uses = uses_of(flight);
    const int set = stream_of(flight).set;
    std::vector<Opinion> opinions;
    int joined = -1;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (set >= 0) {
        const auto& members = plan_.sets[static_cast<size_t>(set)].ranks;
        if (!std::binary_search(members.begin(), members.end(), static_cast<int32_t>(rank))) {
          continue;
        }
      }
      if (flight.use >= uses.times[rank]) {
        if (joined < 0) joined = static_cast<int>(rank);
        continue;
      }
      const std::string said = uses.says[static_cast<size_t>(flight.use)][rank].encode();
      auto same = std::find_if(opinions.begin(), opinions.end(),
                               [&](const Opinion& o) { return o.description == said; });
      if (same == opinions.end()) same = opinions.insert(opinions.end(), {said, {}});
      same->ranks.push_back(static_cast<int>(rank));
    }
    if (opinions.size() > 1) {
      return joined < 0 ? disagreement(key.name, opinions) : kAnyDisagreement;
    }
    const Description description = *Description::decode(opinions[0].description);
    const bool zeros =
        description.kind == OpKind::kAllreduce || description.kind == OpKind::kBarrier;
    if (joined < 0 || (set < 0 && zeros)) return "";
    return description.kind_text() + " \"" + key.name + "\"" +
           (set < 0 ? "" : " of process set " + std::to_string(key.set)) + ": rank " +
           std::to_string(joined) +
           " has joined; without it only allreduce and barrier of all ranks go on";
  }

  const Plan plan_;
  Random& random_;
  AgreementJob job_;
  std::vector<Rank> ranks_;
  std::map<size_t, int32_t> last_joined_;                     // by number of the join
  std::map<int, int32_t> ids_;                                // by number of the set in the plan
  std::map<std::tuple<size_t, int, int>, std::string> ends_;  // by phase, uses, use
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

TEST_CASE("whatever crosses on the way, every operation ends as the ranks' words say") {
  for_random_cases("agreement", count_from("HVD_AGREEMENTS", 500),
                   [](Random* random) -> std::string {
                     Scheduler::Limits limits;
                     // Of four names and more: always some evictions but for the last.
                     limits.cache_capacity = random->one_in(6) ? 1024 : random->below(6);
                     limits.fusion_bytes = random->one_in(2) ? 0 : 1000;
                     limits.batches_in_flight = static_cast<int>(random->from(1, 3));
                     limits.fuse_groups = random->one_in(2);
                     const Tree& tree = trees()[random->below(trees().size())];
                     return Agreement(tree, limits, random).run();
                   });
}
