// SPDX-License-Identifier: Apache-2.0
//
// See agreement_job.h.
#include "tests/unit/agreement_job.h"

#include <algorithm>
#include <optional>

namespace hvd::test {

AgreementJob::AgreementJob(const Tree& tree, Scheduler::Limits limits, Random* random,
                           std::function<void(size_t, const Entry&)> on_entry)
    : layout_(*layout_from_nodes(tree.node_of_rank)),
      tree_(tree),
      random_(*random),
      on_entry_(std::move(on_entry)),
      scheduler_(limits, layout_.size),
      nodes_(static_cast<size_t>(layout_.nodes())) {
  for (int rank = 0; rank < layout_.size; ++rank) ranks_.emplace_back(rank);
  for (size_t node = 0; node < nodes_.size(); ++node) {
    for (size_t child = 0; child < nodes_.size(); ++child) {
      if (tree_.parent[child] == static_cast<int>(node)) nodes_[node].children.push_back(child);
    }
    std::vector<std::vector<int>> below;
    for (int rank : layout_.ranks[node]) below.push_back({rank});
    for (size_t child : nodes_[node].children) below.push_back(ranks_below(child));
    nodes_[node].aggregator = std::make_unique<Aggregator>(below);
  }
}

std::vector<int> AgreementJob::ranks_below(size_t node) const {
  std::vector<int> ranks = layout_.ranks[node];
  for (size_t child = 0; child < tree_.parent.size(); ++child) {
    if (tree_.parent[child] != static_cast<int>(node)) continue;
    const std::vector<int> more = ranks_below(child);
    ranks.insert(ranks.end(), more.begin(), more.end());
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

size_t AgreementJob::deliverable() {
  can_.clear();
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!ranks_[rank].lane.empty()) can_.emplace_back('l', rank);
    if (!ranks_[rank].entries.empty()) can_.emplace_back('e', rank);
  }
  for (size_t node = 0; node < nodes_.size(); ++node) {
    if (!nodes_[node].up.empty()) can_.emplace_back('u', node);
    if (!nodes_[node].down.empty()) can_.emplace_back('d', node);
  }
  if (finished_ < scheduler_.formed()) can_.emplace_back('f', 0);
  return can_.size();
}

void AgreementJob::deliver() {
  const auto [what, who] = can_[random_.below(can_.size())];
  switch (what) {
    case 'l': {
      const size_t node = static_cast<size_t>(layout_.node_of[who]);
      return hear(node, static_cast<size_t>(layout_.local_rank[who]), &ranks_[who].lane);
    }
    case 'e':
      return read_entries(who);
    case 'u': {
      const size_t parent = static_cast<size_t>(tree_.parent[who]);
      const auto& children = nodes_[parent].children;
      const auto place = std::find(children.begin(), children.end(), who) - children.begin();
      return hear(parent, layout_.ranks[parent].size() + static_cast<size_t>(place),
                  &nodes_[who].up);
    }
    case 'd': {
      const std::string bytes = nodes_[who].down.front();
      nodes_[who].down.pop_front();
      distribute(who, bytes);
      return pass_on(who);
    }
    default:
      ++finished_;
      return pass_on(0);
  }
}

void AgreementJob::announce(size_t rank, const OpKey& key, const std::string& description) {
  Announcer& announcer = ranks_[rank].announcer;
  if (std::optional<Report> forgotten = announcer.forgotten()) say(rank, std::move(*forgotten));
  say(rank, announcer.announce(key, description));
}

void AgreementJob::say(size_t rank, Report report) {
  if (layout_.local_rank[rank] != 0) {
    ranks_[rank].lane.push_back(report.encode());
    return;
  }
  const size_t node = static_cast<size_t>(layout_.node_of[rank]);
  nodes_[node].aggregator->take(0, std::move(report));
  pass_on(node);
}

void AgreementJob::hear(size_t node, size_t child, std::deque<std::string>* queue) {
  std::optional<Report> report = Report::decode(queue->front());
  queue->pop_front();
  if (!report || !nodes_[node].aggregator->take(static_cast<int>(child), std::move(*report))) {
    error_ = "a report that is none";
  }
  pass_on(node);
}

void AgreementJob::pass_on(size_t node) {
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
void AgreementJob::distribute(size_t node, const std::string& bytes) {
  Reader reader(bytes);
  while (reader.ok() && !reader.at_end()) {
    nodes_[node].aggregator->apply(Entry::decode(&reader));
  }
  for (size_t child : nodes_[node].children) nodes_[child].down.push_back(bytes);
  for (int rank : layout_.ranks[node]) {
    ranks_[static_cast<size_t>(rank)].entries.push_back(bytes);
  }
}

void AgreementJob::read_entries(size_t rank) {
  const std::string bytes = ranks_[rank].entries.front();
  ranks_[rank].entries.pop_front();
  Reader reader(bytes);
  while (reader.ok() && !reader.at_end()) {
    const Entry entry = Entry::decode(&reader);
    ranks_[rank].announcer.apply(entry);
    on_entry_(rank, entry);
  }
  if (!reader.ok()) error_ = "a schedule that is none";
}

std::string AgreementJob::error(size_t most_remembered) const {
  for (size_t node = 0; node < nodes_.size() && error_.empty(); ++node) {
    const size_t remembered = nodes_[node].aggregator->remembered();
    if (remembered <= most_remembered) continue;
    return "node " + std::to_string(node) + " remembers " + std::to_string(remembered) +
           " evicted tickets";
  }
  return error_;
}

std::string AgreementJob::leftover() const {
  for (const Rank& rank : ranks_) {
    if (rank.announcer.size() != scheduler_.known()) {
      return "a rank knows " + std::to_string(rank.announcer.size()) + " tickets, the root " +
             std::to_string(scheduler_.known());
    }
  }
  for (const Node& node : nodes_) {
    const Aggregator& aggregator = *node.aggregator;
    if (aggregator.incomplete() != 0) return "a leader waits for a name";
    if (aggregator.sets() != scheduler_.sets() + 1) return "a leader knows other process sets";
    if (aggregator.names() > scheduler_.known()) return "a leader keeps names without a ticket";
  }
  return "";
}

}  // namespace hvd::test
