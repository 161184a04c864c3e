// SPDX-License-Identifier: Apache-2.0
//
// See aggregator.h. Why no ticket can be pending when it is redefined: a new description is
// scheduled only after every rank has sent it, and a rank submits the name again only after it has
// read the schedule up to there.
//
// Evictions can cross with announcements on their way up. Nobody announces twice for that (it could
// not be told from the name's next use): an evicted ticket that a child has said, or says yet,
// counts as the description that it stood for. It is remembered until every child has reported
// that it has read the eviction, which a child does before its next announcement; a leader that has
// applied the eviction has passed on all that it knew by ticket before, so each step of the tree
// does this by itself.
#include "libhvd/control/aggregator.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace hvd {

Aggregator::Aggregator(std::vector<std::vector<int>> ranks_below)
    : ranks_below_(std::move(ranks_below)),
      evictions_read_(ranks_below_.size(), 0),
      gone_(ranks_below_.size(), false),
      bye_(ranks_below_.size(), false),
      left_(ranks_below_.size(), false) {
  add_set(0, ranks_below_);
}

void Aggregator::left(int child) {
  left_[static_cast<size_t>(child)] = true;
  Report goodbye;
  goodbye.kind = Report::Kind::kGoodbye;
  goodbye.rank = ranks_below_[static_cast<size_t>(child)][0];
  take(child, std::move(goodbye));
  Report all_gone;
  all_gone.kind = Report::Kind::kAllGone;
  take(child, std::move(all_gone));
}

bool Aggregator::take(int child, Report report) {
  if (child < 0 || child >= static_cast<int>(ranks_below_.size())) return false;
  switch (report.kind) {
    case Report::Kind::kReady:
      for (const Ready& ready : report.tickets) take_ticket(child, ready);
      return true;
    case Report::Kind::kSubmit:
      take_description(child, report.key, report.opinions, report.last, report.joined);
      return true;
    case Report::Kind::kJoin:
      return take_join(child, std::move(report));
    case Report::Kind::kStalled:
      take_stalled(std::move(report));
      return true;
    case Report::Kind::kAnswer:
      say(std::move(report));
      return true;
    case Report::Kind::kForgotten:
      forget_evicted(child, report.evictions);
      return true;
    case Report::Kind::kGoodbye:
      if (!goodbye_said_) say(report);
      goodbye_said_ = true;
      return true;
    case Report::Kind::kAllGone:
      if (!gone_[child]) {
        gone_[child] = true;
        if (++gone_count_ == static_cast<int>(gone_.size())) say(std::move(report));
      }
      return true;
    case Report::Kind::kBye:
      if (!bye_[child]) {
        bye_[child] = true;
        if (++bye_count_ == static_cast<int>(bye_.size())) say(std::move(report));
      }
      return true;
    case Report::Kind::kLeave:
      if (!leave_said_) say(std::move(report));
      leave_said_ = true;
      return true;
    case Report::Kind::kNews:
    case Report::Kind::kPresence:
      return false;  // never waits for others: Control sees to it at once
  }
  return false;
}

void Aggregator::apply(const Entry& entry) {
  switch (entry.kind) {
    case Entry::Kind::kDefine:
      return define(entry);
    case Entry::Kind::kEvict:
      return evict(entry.ticket);
    case Entry::Kind::kBatch:
      return run(entry);
    case Entry::Kind::kFail:
      return fail(entry.key);
    case Entry::Kind::kJoined:
      joined_.clear();
      for (auto& [id, set] : sets_) std::fill(set->joined.begin(), set->joined.end(), 0);
      return;
    case Entry::Kind::kEpochEnd:
      return begin_epoch();
    case Entry::Kind::kLeft:
    case Entry::Kind::kFinalize:
    case Entry::Kind::kGranted:
    case Entry::Kind::kNews:
    case Entry::Kind::kPresence:
    case Entry::Kind::kAsk:
    case Entry::Kind::kStop:
      return;
  }
}

void Aggregator::define(const Entry& entry) {
  Name* name = find_or_add(entry.key);
  if (name == nullptr) return;
  if (name->ticket != 0) {
    tickets_.erase(name->ticket);
    set_changes_.erase(name->ticket);
  }
  name->ticket = entry.ticket;
  name->description = entry.description;
  tickets_[entry.ticket] = name;
  const Description description = Description::decode(entry.description).value_or(Description());
  if (description.kind == OpKind::kAddSet || description.kind == OpKind::kRemoveSet) {
    set_changes_[entry.ticket] = description;
  }
}

void Aggregator::run(const Entry& entry) {
  for (const Ready& ready : entry.tickets) {
    const auto known = tickets_.find(ready.ticket);
    if (known != tickets_.end()) {
      known->second->stalled = false;
      known->second->final = false;
    }
    const auto change = set_changes_.find(ready.ticket);
    if (change == set_changes_.end()) continue;
    if (change->second.kind == OpKind::kRemoveSet) {
      remove_set(change->second.root);
      continue;
    }
    std::vector<std::vector<int>> members;
    const std::vector<int32_t>& ranks = change->second.ranks;
    for (const std::vector<int>& below : ranks_below_) {
      members.emplace_back();
      std::set_intersection(below.begin(), below.end(), ranks.begin(), ranks.end(),
                            std::back_inserter(members.back()));
    }
    add_set(next_set_++, members);
  }
}

void Aggregator::fail(const OpKey& key) {
  const auto it = names_.find(key);
  if (it == names_.end()) return;
  it->second->stalled = false;
  it->second->final = false;
  if (it->second->ticket == 0 && it->second->heard == 0) names_.erase(it);
}

void Aggregator::begin_epoch() {
  names_.clear();
  tickets_.clear();
  evicted_.clear();
  evicted_order_.clear();
  set_changes_.clear();
  sets_.clear();
  joined_.clear();
  next_set_ = 1;
  add_set(0, ranks_below_);
  incomplete_ = 0;
  std::fill(gone_.begin(), gone_.end(), false);
  gone_count_ = 0;
  goodbye_said_ = false;
  for (size_t child = 0; child < left_.size(); ++child) {
    if (left_[child]) left(static_cast<int>(child));
  }
}

void Aggregator::add_set(int32_t id, const std::vector<std::vector<int>>& members) {
  std::unique_ptr<Set>& set = sets_[id];
  set = std::make_unique<Set>();
  set->members = members;
  for (const std::vector<int>& ranks : members) {
    if (!ranks.empty()) ++set->needed;
    set->joined.push_back(static_cast<size_t>(std::count_if(
        ranks.begin(), ranks.end(), [&](int rank) { return joined_.count(rank) > 0; })));
  }
}

void Aggregator::remove_set(int32_t id) {
  for (auto it = names_.begin(); it != names_.end();) {
    Name* name = it->second.get();
    if (it->first.set != id) {
      ++it;
      continue;
    }
    if (name->heard > 0) --incomplete_;
    if (name->ticket != 0) tickets_.erase(name->ticket);
    it = names_.erase(it);
  }
  sets_.erase(id);
}

std::vector<Report> Aggregator::drain() { return std::exchange(said_, {}); }

Aggregator::Name* Aggregator::find_or_add(const OpKey& key) {
  const auto known = names_.find(key);
  if (known != names_.end()) return known->second.get();
  const auto set = sets_.find(key.set);
  if (set == sets_.end()) return nullptr;
  auto name = std::make_unique<Name>();
  name->key = key;
  name->set = set->second.get();
  name->said.resize(ranks_below_.size(), Said::kNothing);
  return (names_[key] = std::move(name)).get();
}

void Aggregator::take_ticket(int child, const Ready& ready) {
  const auto known = tickets_.find(ready.ticket);
  if (known != tickets_.end()) {
    return hear(known->second, child, Said::kTicket, ready.last, ready.joined);
  }
  const auto evicted = evicted_.find(ready.ticket);
  if (evicted == evicted_.end()) return;
  take_description(child, evicted->second.key, {{evicted->second.description, {}}}, ready.last,
                   ready.joined);
}

void Aggregator::take_description(int child, const OpKey& key, const std::vector<Opinion>& opinions,
                                  int32_t last, int32_t joined) {
  Name* known = find_or_add(key);
  if (known == nullptr || known->said[child] != Said::kNothing) return;
  for (const Opinion& opinion : opinions) {
    add_opinion(known, opinion.description,
                opinion.ranks.empty() ? known->set->members[child] : opinion.ranks);
  }
  hear(known, child, Said::kDescription, last, joined);
}

// What waits for the joined rank alone is complete now. It is said before the join: who hears of
// the join does not wait for it any more.
bool Aggregator::take_join(int child, Report report) {
  const std::vector<int>& below = ranks_below_[static_cast<size_t>(child)];
  if (!std::binary_search(below.begin(), below.end(), report.rank)) return false;
  if (!joined_.insert(report.rank).second) return false;
  for (auto& [id, set] : sets_) {
    const std::vector<int>& members = set->members[static_cast<size_t>(child)];
    if (std::binary_search(members.begin(), members.end(), report.rank)) {
      ++set->joined[static_cast<size_t>(child)];
    }
  }
  complete_by_join();
  say(std::move(report));
  return true;
}

void Aggregator::complete_by_join() {
  if (incomplete_ == 0) return;
  for (auto& [key, name] : names_) {
    if (name->heard > 0 && all_heard(*name)) complete(name.get());
  }
}

// A name is asked about once, whoever notices first that it does not come. It may be forgotten
// here: what was said by a ticket that is evicted.
void Aggregator::take_stalled(Report report) {
  Name* name = find_or_add(report.key);
  if (name == nullptr) return;
  bool& said = report.final ? name->final : name->stalled;
  if (!std::exchange(said, true)) say(std::move(report));
}

void Aggregator::hear(Name* name, int child, Said what, int32_t last, int32_t joined) {
  if (name->said[child] != Said::kNothing || name->set->members[child].empty()) return;
  name->said[child] = what;
  name->last = last;
  note_joined(name, joined);
  if (name->heard++ == 0) ++incomplete_;
  if (all_heard(*name)) complete(name);
}

bool Aggregator::all_heard(const Name& name) const {
  if (name.heard == name.set->needed) return true;
  if (joined_.empty()) return false;
  for (size_t child = 0; child < name.said.size(); ++child) {
    if (name.said[child] == Said::kNothing && !name.set->members[child].empty() &&
        !name.set->all_joined(child)) {
      return false;
    }
  }
  return true;
}

void Aggregator::complete(Name* name) {
  --incomplete_;
  for (size_t child = 0; name->heard < name->set->needed && child < name->said.size(); ++child) {
    const std::vector<int>& members = name->set->members[child];
    if (name->said[child] == Said::kNothing && !members.empty()) note_joined(name, members[0]);
  }
  say_forgotten();
  if (name->opinions.empty() && name->joined < 0) {
    if (said_.empty() || said_.back().kind != Report::Kind::kReady) {
      Report report;
      report.kind = Report::Kind::kReady;
      said_.push_back(std::move(report));
    }
    said_.back().tickets.push_back({name->ticket, name->last, name->joined});
  } else {
    for (size_t child = 0; child < name->said.size(); ++child) {
      if (name->said[child] == Said::kTicket) {
        add_opinion(name, name->description, name->set->members[child]);
      }
    }
    Report report;
    report.kind = Report::Kind::kSubmit;
    report.key = name->key;
    report.last = name->last;
    report.joined = name->joined;
    report.opinions = std::move(name->opinions);
    for (Opinion& opinion : report.opinions) std::sort(opinion.ranks.begin(), opinion.ranks.end());
    if (report.opinions.size() == 1 && report.joined < 0) report.opinions[0].ranks.clear();
    say(std::move(report));
  }
  name->opinions.clear();
  name->heard = 0;
  name->joined = -1;
  std::fill(name->said.begin(), name->said.end(), Said::kNothing);
}

// Of several the lowest is told.
void Aggregator::note_joined(Name* name, int32_t rank) {
  if (rank >= 0 && (name->joined < 0 || rank < name->joined)) name->joined = rank;
}

void Aggregator::add_opinion(Name* name, const std::string& description,
                             const std::vector<int>& ranks) {
  for (Opinion& opinion : name->opinions) {
    if (opinion.description == description) {
      opinion.ranks.insert(opinion.ranks.end(), ranks.begin(), ranks.end());
      return;
    }
  }
  name->opinions.push_back({description, ranks});
}

void Aggregator::evict(Ticket ticket) {
  ++evictions_;
  set_changes_.erase(ticket);
  auto it = tickets_.find(ticket);
  if (it == tickets_.end()) return;
  Name* name = it->second;
  tickets_.erase(it);
  evicted_[ticket] = {name->key, name->description};
  evicted_order_.push_back(ticket);
  for (size_t child = 0; child < name->said.size(); ++child) {
    if (name->said[child] != Said::kTicket) continue;
    name->said[child] = Said::kDescription;
    add_opinion(name, name->description, name->set->members[child]);
  }
  name->ticket = 0;
  name->description.clear();
  if (name->heard == 0) names_.erase(OpKey(name->key));
}

void Aggregator::forget_evicted(int child, uint64_t evictions) {
  evictions_read_[child] = evictions;
  const uint64_t read = *std::min_element(evictions_read_.begin(), evictions_read_.end());
  while (!evicted_order_.empty() && evictions_ - evicted_order_.size() < read) {
    evicted_.erase(evicted_order_.front());
    evicted_order_.pop_front();
  }
}

void Aggregator::say_forgotten() {
  if (evictions_said_ == evictions_) return;
  evictions_said_ = evictions_;
  Report report;
  report.kind = Report::Kind::kForgotten;
  report.evictions = evictions_;
  say(std::move(report));
}

void Aggregator::say(Report report) { said_.push_back(std::move(report)); }

}  // namespace hvd
