// SPDX-License-Identifier: Apache-2.0
//
// See scheduler.h.
#include "libhvd/control/scheduler.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "libhvd/base/status.h"
#include "libhvd/control/runs.h"

namespace hvd {

Scheduler::Scheduler(Limits limits, int ranks) : limits_(limits), ranks_(ranks) {}

void Scheduler::take(Report report, int64_t now_ns) {
  Entry entry;
  switch (report.kind) {
    case Report::Kind::kReady:
      for (const Ready& ready : report.tickets) make_ready(ready, now_ns);
      return;
    case Report::Kind::kSubmit:
      submit(report, now_ns);
      return;
    case Report::Kind::kGoodbye:
      if (somebody_left_) return;
      somebody_left_ = true;
      entry.kind = Entry::Kind::kLeft;
      entry.rank = report.rank;
      break;
    case Report::Kind::kAllGone:
      end_epoch();
      entry.kind = Entry::Kind::kEpochEnd;
      break;
    case Report::Kind::kBye:
      if (granted_) return;
      finalized_ = true;
      entry.kind = Entry::Kind::kFinalize;
      break;
    case Report::Kind::kLeave:
      if (finalized_ || granted_) return;
      granted_ = true;
      entry.kind = Entry::Kind::kGranted;
      break;
    case Report::Kind::kJoin:
      return join(report.rank);
    case Report::Kind::kStalled:
    case Report::Kind::kAnswer:  // the stall watch's: see Control
    case Report::Kind::kNews:
    case Report::Kind::kPresence:
    case Report::Kind::kForgotten:
      return;
  }
  add(std::move(entry));
}

void Scheduler::end_epoch() {
  names_.clear();
  known_.clear();
  recently_.clear();
  ready_.clear();
  sets_.clear();
  next_set_ = 1;
  joined_.clear();
  all_joined_ = false;
  somebody_left_ = false;
}

void Scheduler::join(int rank) {
  joined_.push_back(rank);
  all_joined_ = static_cast<int>(joined_.size()) == ranks_;
}

// Behind all that was complete before: joined ranks take part in it.
void Scheduler::end_join() {
  Entry entry;
  entry.kind = Entry::Kind::kJoined;
  entry.rank = joined_.back();
  joined_.clear();
  all_joined_ = false;
  add(std::move(entry));
}

void Scheduler::submit(const Report& report, int64_t now_ns) {
  if (report.opinions.size() > 1) {
    return fail(report.key, disagreement(report.key.name, report.opinions));
  }
  const auto name = names_.find(report.key);
  const bool known =
      name != names_.end() && known_[name->second].encoded == report.opinions[0].description;
  if (!known) define(report);
  make_ready({names_[report.key], report.last, report.joined}, now_ns);
}

void Scheduler::define(const Report& report) {
  const auto name = names_.find(report.key);
  if (name != names_.end()) {
    recently_.erase(known_[name->second].used);
    known_.erase(name->second);
  }
  const Ticket ticket = next_ticket_++;
  Known& known = known_[ticket];
  known.key = report.key;
  known.encoded = report.opinions[0].description;
  known.description = Description::decode(known.encoded).value_or(Description());
  known.used = recently_.insert(recently_.begin(), ticket);
  names_[report.key] = ticket;
  Entry entry;
  entry.kind = Entry::Kind::kDefine;
  entry.ticket = ticket;
  entry.key = known.key;
  entry.description = known.encoded;
  add(std::move(entry));
}

void Scheduler::make_ready(const Ready& ready, int64_t now_ns) {
  auto it = known_.find(ready.ticket);
  if (it == known_.end() || it->second.waiting) return;
  touch(ready.ticket);
  const std::string text = join_objection(it->second.key, it->second.description, ready.joined);
  if (!text.empty()) return fail(it->second.key, text);
  it->second.waiting = true;
  if (ready_.empty()) first_ready_ns_ = now_ns;
  ready_.push_back(ready);
}

// Why an operation cannot run that `joined` has not submitted. Empty: it can.
std::string Scheduler::join_objection(const OpKey& key, const Description& description,
                                      int32_t joined) const {
  const bool zeros_will_do =
      description.kind == OpKind::kAllreduce || description.kind == OpKind::kBarrier;
  if (joined < 0 || (key.set == 0 && zeros_will_do)) return "";
  return format(
      "%s \"%s\"%s: rank %d has joined; without it only allreduce and barrier of all ranks go on",
      description.kind_text().c_str(), key.name.c_str(),
      key.set == 0 ? "" : format(" of process set %d", key.set).c_str(), joined);
}

// Why the process sets cannot be changed like this when it is its turn. Empty: they can.
std::string Scheduler::set_objection(const OpKey& key, const Description& description) const {
  if (description.kind == OpKind::kAddSet) {
    if (static_cast<int>(description.ranks.size()) == ranks_) {
      return format("%s \"%s\": process set 0 has these ranks already", name_of(description.kind),
                    key.name.c_str());
    }
    for (const auto& [id, ranks] : sets_) {
      if (ranks == description.ranks) {
        return format("%s \"%s\": process set %d has these ranks already",
                      name_of(description.kind), key.name.c_str(), id);
      }
    }
  }
  if (description.kind == OpKind::kRemoveSet && sets_.count(description.root) == 0) {
    return format("%s \"%s\": there is no process set %d any more", name_of(description.kind),
                  key.name.c_str(), description.root);
  }
  return "";
}

void Scheduler::fail(const OpKey& key, std::string text) {
  Entry entry;
  entry.kind = Entry::Kind::kFail;
  entry.key = key;
  entry.text = std::move(text);
  if (entry.text.size() > kMaxText) entry.text.resize(kMaxText);
  add(std::move(entry));
}

void Scheduler::touch(Ticket ticket) {
  recently_.splice(recently_.begin(), recently_, known_[ticket].used);
}

void Scheduler::form(uint64_t finished, int64_t now_ns) {
  if (somebody_left_) ready_.clear();
  while (!ready_.empty() && formed_ - finished < static_cast<uint64_t>(limits_.batches_in_flight)) {
    if (limits_.cycle_ns > 0 && now_ns < first_ready_ns_ + limits_.cycle_ns) return;
    Known& first = known_[ready_.front().ticket];
    if (const std::string text = set_objection(first.key, first.description); !text.empty()) {
      first.waiting = false;
      fail(first.key, text);
      ready_.pop_front();
      continue;
    }
    std::vector<Ready> batch;
    std::deque<Ready> rest;
    int64_t bytes = 0;
    size_t tensors = 0;
    for (const Ready& ready : ready_) {
      const Known& known = known_[ready.ticket];
      const int64_t size = known.description.bytes();
      const size_t count = std::max<size_t>(1, known.description.tensors.size());
      const bool joins =
          batch.empty() || (fits_together(first, known) && bytes + size <= limits_.fusion_bytes &&
                            tensors + count <= kMaxBatchTensors);
      if (joins) {
        batch.push_back(ready);
        bytes += size;
        tensors += count;
      } else {
        rest.push_back(ready);
      }
    }
    ready_ = std::move(rest);
    add_batch(std::move(batch));
  }
  if (all_joined_ && ready_.empty()) end_join();
  evict_beyond_capacity();
}

int64_t Scheduler::due_ns() const {
  if (ready_.empty() || limits_.cycle_ns == 0) return INT64_MAX;
  return first_ready_ns_ + limits_.cycle_ns;
}

// Scale factors belong to each tensor, so they need not be the same.
bool Scheduler::fits_together(const Known& a, const Known& b) const {
  const Description& x = a.description;
  const Description& y = b.description;
  if (a.key.set != b.key.set || x.kind != y.kind || x.device != y.device) return false;
  if (!limits_.fuse_groups && (x.grouped || y.grouped)) return false;
  const auto average_is_sum = [](ReduceOp op) {
    return op == ReduceOp::kAverage ? ReduceOp::kSum : op;
  };
  switch (x.kind) {
    case OpKind::kAllreduce:
    case OpKind::kReducescatter:
      // Groups may mix types; other tensors join those of their own type only.
      return average_is_sum(x.op) == average_is_sum(y.op) && x.tensors[0].type == y.tensors[0].type;
    case OpKind::kBroadcast:
      return x.root == y.root;
    case OpKind::kAllgather:
    case OpKind::kAlltoall:
    case OpKind::kBarrier:
      return true;
    case OpKind::kJoin:
    case OpKind::kAddSet:
    case OpKind::kRemoveSet:
      return false;
  }
  return false;
}

void Scheduler::add_batch(std::vector<Ready> tickets) {
  std::vector<const Description*> descriptions;
  for (const Ready& ready : tickets) {
    Known& known = known_[ready.ticket];
    known.waiting = false;
    descriptions.push_back(&known.description);
  }
  Entry entry;
  entry.kind = Entry::Kind::kBatch;
  entry.set = known_[tickets[0].ticket].key.set;
  entry.first_block = next_block_;
  const std::vector<Run> runs = plan_runs(descriptions, next_block_, limits_.block_bytes);
  if (!runs.empty()) next_block_ = runs.back().end_block;
  entry.end_block = next_block_;
  entry.tickets = std::move(tickets);
  ++formed_;
  const Description first = *descriptions[0];
  if (first.kind == OpKind::kRemoveSet) change_sets(first);  // before the entry: it evicts
  add(std::move(entry));
  if (first.kind == OpKind::kAddSet) change_sets(first);
}

// Of a set that is removed every ticket is forgotten, complete or not.
void Scheduler::change_sets(const Description& description) {
  if (description.kind == OpKind::kAddSet) {
    sets_[next_set_++] = description.ranks;
    return;
  }
  const int32_t set = description.root;
  sets_.erase(set);
  ready_.erase(std::remove_if(ready_.begin(), ready_.end(),
                              [&](const Ready& r) { return known_[r.ticket].key.set == set; }),
               ready_.end());
  for (auto it = recently_.begin(); it != recently_.end();) {
    it = known_[*it].key.set == set ? evict(*it) : std::next(it);
  }
}

void Scheduler::evict_beyond_capacity() {
  auto oldest = recently_.end();
  while (recently_.size() > limits_.cache_capacity && oldest != recently_.begin()) {
    --oldest;
    if (!known_[*oldest].waiting) oldest = evict(*oldest);
  }
}

// Returns the place behind it among the recently used.
std::list<Ticket>::iterator Scheduler::evict(Ticket ticket) {
  const Known& known = known_[ticket];
  names_.erase(known.key);
  const auto next = recently_.erase(known.used);
  known_.erase(ticket);
  Entry entry;
  entry.kind = Entry::Kind::kEvict;
  entry.ticket = ticket;
  add(std::move(entry));
  return next;
}

std::vector<int> Scheduler::members(int32_t set) const {
  const auto it = sets_.find(set);
  if (it != sets_.end()) return std::vector<int>(it->second.begin(), it->second.end());
  std::vector<int> all;
  for (int rank = 0; set == 0 && rank < ranks_; ++rank) all.push_back(rank);
  return all;
}

std::vector<Entry> Scheduler::drain() { return std::exchange(entries_, {}); }

}  // namespace hvd
