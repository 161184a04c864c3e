// SPDX-License-Identifier: Apache-2.0
//
// See control.h.
#include "libhvd/control/control.h"

#include <algorithm>

#include "libhvd/control/tree.h"

namespace hvd {
namespace {

std::vector<std::vector<int>> ranks_below(const Layout& layout, int node,
                                          const std::vector<int>& children) {
  std::vector<std::vector<int>> below;
  for (int rank : layout.ranks[node]) below.push_back({rank});
  for (int child : children) below.push_back(tree_ranks_below(child, layout));
  return below;
}

}  // namespace

Control::Control(const Layout& layout, int rank, Board* board, Wire* wire, Scheduler::Limits limits,
                 Events events)
    : layout_(layout),
      rank_(rank),
      node_(layout.node_of[rank]),
      local_rank_(layout.local_rank[rank]),
      board_(board),
      wire_(wire),
      events_(std::move(events)),
      parent_(tree_parent(node_)),
      children_(tree_children(node_, layout.nodes())),
      announcer_(rank) {
  if (local_rank_ != 0) return;
  aggregator_ = std::make_unique<Aggregator>(ranks_below(layout, node_, children_));
  if (node_ == 0) scheduler_ = std::make_unique<Scheduler>(limits, layout.size);
}

void Control::announce(const OpKey& key, const std::string& description) {
  if (std::optional<Report> forgotten = announcer_.forgotten()) say(std::move(*forgotten));
  say(announcer_.announce(key, description));
}

void Control::say(Report report) {
  if (aggregator_) {
    aggregator_->take(local_rank_, std::move(report));
    return;
  }
  reports_.push_back(report.encode());
  flush_reports();
}

bool Control::flush_reports() {
  bool moved = false;
  while (!reports_.empty() && board_->report(reports_.front())) {
    reports_.pop_front();
    moved = true;
  }
  if (moved) board_->wake(0);
  return moved;
}

bool Control::progress(uint64_t finished, int64_t now_ns) {
  if (!aggregator_) return flush_reports();
  bool moved = read_lanes();
  if (wire_ != nullptr) moved |= read_wire(now_ns);
  moved |= pass_on(finished, now_ns);
  if (scheduler_) moved |= watch_stalls(now_ns);
  moved |= flush_schedule();
  return moved;
}

bool Control::read_lanes() {
  bool moved = false;
  std::string message;
  for (int child = 1; child < layout_.local_size(rank_); ++child) {
    bool broken = false;
    while (board_->next_report(child, &message, &broken)) {
      moved = true;
      std::optional<Report> report = Report::decode(message);
      if (!report || !aggregator_->take(child, std::move(*report))) broken = true;
    }
    if (broken) events_.broken(layout_.ranks[node_][child], "sent what is no message");
  }
  return moved;
}

bool Control::read_wire(int64_t) {
  Wire::Sink sink;
  sink.message = [this](int node, std::string_view message) { take_from_node(node, message); };
  sink.closed = [this](int node, const std::string& why) {
    const bool in_order =
        std::find(may_vanish_.begin(), may_vanish_.end(), node) != may_vanish_.end();
    events_.closed(node, why, in_order);
  };
  sink.news = [this](int node, std::string_view text) {
    const std::string line(text);
    spread_news(line, node);
    events_.news(line);
  };
  return wire_->poll(sink);
}

void Control::take_from_node(int node, std::string_view message) {
  if (node == parent_) {
    Reader reader(message);
    std::vector<Entry> entries;
    while (reader.ok() && !reader.at_end()) entries.push_back(Entry::decode(&reader));
    if (!reader.ok()) {
      events_.broken(layout_.leader(node), "sent what is no message");
      return;
    }
    for (const Entry& entry : entries) {
      if (entry.kind == Entry::Kind::kNews) {
        spread_news(entry.text, node);
        events_.news(entry.text);
      } else if (entry.kind == Entry::Kind::kPresence) {
        note_presence(node, entry.rank);
      }
    }
    distribute(entries);
    return;
  }
  const auto child = std::find(children_.begin(), children_.end(), node);
  std::optional<Report> report = Report::decode(message);
  const int index = layout_.local_size(rank_) + static_cast<int>(child - children_.begin());
  if (report && report->kind == Report::Kind::kNews) {
    spread_news(report->text, node);
    events_.news(report->text);
  } else if (report && report->kind == Report::Kind::kPresence) {
    note_presence(node, report->rank);
  } else if (child == children_.end() || !report || !aggregator_->take(index, *report)) {
    events_.broken(layout_.leader(node), "sent what is no message");
  }
}

// What the aggregator has to say goes up; at the root the scheduler's answer goes down. Applying
// the answer may complete something else, so this goes on until there is nothing left to say.
bool Control::pass_on(uint64_t finished, int64_t now_ns) {
  bool moved = false;
  for (;;) {
    std::vector<Report> reports = aggregator_->drain();
    if (!scheduler_) {
      for (const Report& report : reports) wire_->send(parent_, report.encode());
      return moved || !reports.empty();
    }
    for (Report& report : reports) take_as_root(std::move(report), now_ns);
    scheduler_->form(finished, now_ns);
    const std::vector<Entry> entries = scheduler_->drain();
    if (reports.empty() && entries.empty()) return moved;
    moved = true;
    distribute(entries);
  }
}

void Control::take_as_root(Report report, int64_t now_ns) {
  if (report.kind == Report::Kind::kStalled) {
    std::vector<int> members = scheduler_->members(report.key.set);
    distribute({stalls_.ask(report, std::move(members), scheduler_->joined(), now_ns)});
  } else if (report.kind == Report::Kind::kAnswer) {
    stalls_.take(report);
  } else {
    if (report.kind == Report::Kind::kAllGone) stalls_.clear();
    scheduler_->take(std::move(report), now_ns);
  }
}

bool Control::watch_stalls(int64_t now_ns) {
  const std::vector<Stall> stalls = stalls_.finished(now_ns);
  for (const Stall& stall : stalls) events_.stalled(stall);
  return !stalls.empty();
}

void Control::stop(std::string text) {
  Entry entry;
  entry.kind = Entry::Kind::kStop;
  entry.text = std::move(text);
  if (entry.text.size() > kMaxText) entry.text.resize(kMaxText);
  distribute({entry});
}

void Control::distribute(const std::vector<Entry>& entries) {
  Writer message;
  const auto send = [&] {
    if (message.empty()) return;
    if (wire_ != nullptr) {
      for (int child : children_) wire_->send(child, message.bytes());
    }
    publish(message.take());
    message = Writer();
  };
  for (const Entry& entry : entries) {
    if (entry.kind == Entry::Kind::kNews || entry.kind == Entry::Kind::kPresence) continue;
    aggregator_->apply(entry);
    entry.encode(&message);
    if (message.bytes().size() > kMaxScheduleMessage / 2) send();
  }
  send();
}

void Control::publish(std::string message) {
  schedule_.push_back(std::move(message));
  flush_schedule();
}

bool Control::flush_schedule() {
  bool moved = false;
  while (!schedule_.empty() && board_->publish(schedule_.front())) {
    schedule_.pop_front();
    moved = true;
  }
  if (moved) board_->rouse();
  return moved;
}

bool Control::next_entry(Entry* entry) {
  while (entries_.empty()) {
    std::string message;
    bool broken = false;
    if (!board_->next_entry(&message, &broken)) {
      if (broken) events_.broken(layout_.leader(node_), "wrote what is no schedule");
      return false;
    }
    Reader reader(message);
    while (reader.ok() && !reader.at_end()) entries_.push_back(Entry::decode(&reader));
    if (!reader.ok()) {
      entries_.clear();
      events_.broken(layout_.leader(node_), "wrote what is no schedule");
      return false;
    }
  }
  *entry = std::move(entries_.front());
  entries_.pop_front();
  announcer_.apply(*entry);
  return true;
}

Control::Sizes Control::sizes() const {
  Sizes sizes;
  sizes.tickets = announcer_.size();
  if (aggregator_) {
    sizes.names = aggregator_->names();
    sizes.evicted = aggregator_->remembered();
    sizes.sets = aggregator_->sets();
  }
  if (scheduler_) sizes.scheduled = scheduler_->known();
  return sizes;
}

void Control::note_presence(int node, int may_vanish) {
  may_vanish_.erase(std::remove(may_vanish_.begin(), may_vanish_.end(), node), may_vanish_.end());
  if (may_vanish != 0) may_vanish_.push_back(node);
  if (std::find(heard_.begin(), heard_.end(), node) == heard_.end()) heard_.push_back(node);
}

std::vector<int> Control::silent_neighbours() const {
  std::vector<int> silent;
  const auto look = [&](int node) {
    if (std::find(heard_.begin(), heard_.end(), node) == heard_.end()) silent.push_back(node);
  };
  if (wire_ == nullptr) return silent;
  if (parent_ >= 0) look(parent_);
  for (const int child : children_) look(child);
  return silent;
}

void Control::say_presence(bool may_vanish) {
  Report up;
  up.kind = Report::Kind::kPresence;
  up.rank = may_vanish ? 1 : 0;
  Entry down;
  down.kind = Entry::Kind::kPresence;
  down.rank = up.rank;
  send_to_neighbours(up, down, -1);
}

void Control::spread_news(const std::string& line, int except) {
  Report up;
  up.kind = Report::Kind::kNews;
  up.text = line;
  Entry down;
  down.kind = Entry::Kind::kNews;
  down.text = line;
  send_to_neighbours(up, down, except);
}

void Control::send_to_neighbours(const Report& up, const Entry& down, int except) {
  if (wire_ == nullptr) return;
  Writer writer;
  down.encode(&writer);
  if (parent_ >= 0 && parent_ != except) wire_->send(parent_, up.encode());
  for (int child : children_) {
    if (child != except) wire_->send(child, writer.bytes());
  }
}

}  // namespace hvd
