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
#include <utility>

namespace hvd {

Aggregator::Aggregator(std::vector<std::vector<int>> ranks_below)
    : ranks_below_(std::move(ranks_below)),
      evictions_read_(ranks_below_.size(), 0),
      gone_(ranks_below_.size(), false),
      bye_(ranks_below_.size(), false),
      left_(ranks_below_.size(), false) {}

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
      for (Ticket ticket : report.tickets) take_ticket(child, ticket);
      return true;
    case Report::Kind::kSubmit:
      take_description(child, report.name, report.opinions);
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
    case Entry::Kind::kDefine: {
      Name* name = find_or_add(entry.name);
      if (name->ticket != 0) tickets_.erase(name->ticket);
      name->ticket = entry.ticket;
      name->description = entry.description;
      tickets_[entry.ticket] = name;
      return;
    }
    case Entry::Kind::kEvict:
      evict(entry.ticket);
      return;
    case Entry::Kind::kEpochEnd:
      names_.clear();
      tickets_.clear();
      evicted_.clear();
      evicted_order_.clear();
      incomplete_ = 0;
      std::fill(gone_.begin(), gone_.end(), false);
      gone_count_ = 0;
      goodbye_said_ = false;
      for (size_t child = 0; child < left_.size(); ++child) {
        if (left_[child]) left(static_cast<int>(child));
      }
      return;
    case Entry::Kind::kBatch:
    case Entry::Kind::kFail:
    case Entry::Kind::kLeft:
    case Entry::Kind::kFinalize:
    case Entry::Kind::kGranted:
    case Entry::Kind::kNews:
    case Entry::Kind::kPresence:
      return;
  }
}

std::vector<Report> Aggregator::drain() { return std::exchange(said_, {}); }

Aggregator::Name* Aggregator::find_or_add(const std::string& name) {
  std::unique_ptr<Name>& slot = names_[name];
  if (!slot) {
    slot = std::make_unique<Name>();
    slot->name = name;
    slot->said.resize(ranks_below_.size(), Said::kNothing);
  }
  return slot.get();
}

void Aggregator::take_ticket(int child, Ticket ticket) {
  const auto known = tickets_.find(ticket);
  if (known != tickets_.end()) return hear(known->second, child, Said::kTicket);
  const auto evicted = evicted_.find(ticket);
  if (evicted == evicted_.end()) return;
  take_description(child, evicted->second.name, {{evicted->second.description, {}}});
}

void Aggregator::take_description(int child, const std::string& name,
                                  const std::vector<Opinion>& opinions) {
  Name* known = find_or_add(name);
  if (known->said[child] != Said::kNothing) return;
  for (const Opinion& opinion : opinions) {
    add_opinion(known, opinion.description,
                opinion.ranks.empty() ? ranks_below_[child] : opinion.ranks);
  }
  hear(known, child, Said::kDescription);
}

void Aggregator::hear(Name* name, int child, Said what) {
  if (name->said[child] != Said::kNothing) return;
  name->said[child] = what;
  if (name->heard++ == 0) ++incomplete_;
  if (name->heard == static_cast<int>(ranks_below_.size())) complete(name);
}

void Aggregator::complete(Name* name) {
  --incomplete_;
  say_forgotten();
  if (name->opinions.empty()) {
    if (said_.empty() || said_.back().kind != Report::Kind::kReady) {
      Report report;
      report.kind = Report::Kind::kReady;
      said_.push_back(std::move(report));
    }
    said_.back().tickets.push_back(name->ticket);
  } else {
    for (size_t child = 0; child < name->said.size(); ++child) {
      if (name->said[child] == Said::kTicket) {
        add_opinion(name, name->description, ranks_below_[child]);
      }
    }
    Report report;
    report.kind = Report::Kind::kSubmit;
    report.name = name->name;
    report.opinions = std::move(name->opinions);
    if (report.opinions.size() == 1) {
      report.opinions[0].ranks.clear();
    } else {
      for (Opinion& opinion : report.opinions) {
        std::sort(opinion.ranks.begin(), opinion.ranks.end());
      }
    }
    say(std::move(report));
  }
  name->opinions.clear();
  name->heard = 0;
  std::fill(name->said.begin(), name->said.end(), Said::kNothing);
  if (name->ticket == 0) names_.erase(std::string(name->name));
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
  auto it = tickets_.find(ticket);
  if (it == tickets_.end()) return;
  Name* name = it->second;
  tickets_.erase(it);
  evicted_[ticket] = {name->name, name->description};
  evicted_order_.push_back(ticket);
  for (size_t child = 0; child < name->said.size(); ++child) {
    if (name->said[child] != Said::kTicket) continue;
    name->said[child] = Said::kDescription;
    add_opinion(name, name->description, ranks_below_[child]);
  }
  name->ticket = 0;
  name->description.clear();
  if (name->heard == 0) names_.erase(std::string(name->name));
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
