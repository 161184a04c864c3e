// SPDX-License-Identifier: Apache-2.0
//
// See scheduler.h.
#include "libhvd/control/scheduler.h"

#include <algorithm>
#include <utility>

namespace hvd {

Scheduler::Scheduler(Limits limits) : limits_(limits) {}

void Scheduler::take(Report report, int64_t now_ns) {
  Entry entry;
  switch (report.kind) {
    case Report::Kind::kReady:
      for (Ticket ticket : report.tickets) make_ready(ticket, now_ns);
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
      names_.clear();
      known_.clear();
      recently_.clear();
      ready_.clear();
      somebody_left_ = false;
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
    case Report::Kind::kNews:
    case Report::Kind::kPresence:
    case Report::Kind::kForgotten:
      return;
  }
  add(std::move(entry));
}

void Scheduler::submit(const Report& report, int64_t now_ns) {
  if (report.opinions.size() > 1) {
    Entry entry;
    entry.kind = Entry::Kind::kFail;
    entry.name = report.name;
    entry.text = disagreement(report.name, report.opinions).substr(0, kMaxText);
    add(std::move(entry));
    return;
  }
  const std::string& encoded = report.opinions[0].description;
  auto name = names_.find(report.name);
  if (name != names_.end()) {
    const Ticket old = name->second;
    if (known_[old].encoded == encoded) return make_ready(old, now_ns);
    recently_.erase(known_[old].used);
    known_.erase(old);
  }
  const Ticket ticket = next_ticket_++;
  Known& known = known_[ticket];
  known.name = report.name;
  known.encoded = encoded;
  known.description = Description::decode(encoded).value_or(Description());
  known.used = recently_.insert(recently_.begin(), ticket);
  names_[report.name] = ticket;
  Entry entry;
  entry.kind = Entry::Kind::kDefine;
  entry.ticket = ticket;
  entry.name = report.name;
  entry.description = encoded;
  add(std::move(entry));
  make_ready(ticket, now_ns);
}

void Scheduler::make_ready(Ticket ticket, int64_t now_ns) {
  auto it = known_.find(ticket);
  if (it == known_.end() || it->second.waiting) return;
  it->second.waiting = true;
  touch(ticket);
  if (ready_.empty()) first_ready_ns_ = now_ns;
  ready_.push_back(ticket);
}

void Scheduler::touch(Ticket ticket) {
  recently_.splice(recently_.begin(), recently_, known_[ticket].used);
}

void Scheduler::form(uint64_t finished, int64_t now_ns) {
  if (somebody_left_) ready_.clear();
  while (!ready_.empty() && formed_ - finished < static_cast<uint64_t>(limits_.batches_in_flight)) {
    if (limits_.cycle_ns > 0 && now_ns < first_ready_ns_ + limits_.cycle_ns) return;
    const Description first = known_[ready_.front()].description;
    std::vector<Ticket> batch;
    std::deque<Ticket> rest;
    int64_t bytes = 0;
    for (Ticket ticket : ready_) {
      const Description& d = known_[ticket].description;
      const int64_t size = d.elements() * static_cast<int64_t>(size_of(d.type));
      const bool joins =
          batch.empty() || (fits_together(first, d) && bytes + size <= limits_.fusion_bytes &&
                            batch.size() < kMaxBatchTickets);
      if (joins) {
        batch.push_back(ticket);
        bytes += size;
      } else {
        rest.push_back(ticket);
      }
    }
    ready_ = std::move(rest);
    add_batch(std::move(batch));
  }
  evict_beyond_capacity();
}

int64_t Scheduler::due_ns() const {
  if (ready_.empty() || limits_.cycle_ns == 0) return INT64_MAX;
  return first_ready_ns_ + limits_.cycle_ns;
}

bool Scheduler::fits_together(const Description& a, const Description& b) const {
  if (a.kind != b.kind || a.type != b.type || a.device != b.device) return false;
  switch (a.kind) {
    case OpKind::kAllreduce:
      return true;  // sum and average are one reduction; scale factors belong to each tensor
    case OpKind::kBroadcast:
      return a.root == b.root;
    case OpKind::kBarrier:
      return true;
    case OpKind::kAllgather:
    case OpKind::kAlltoall:
    case OpKind::kReducescatter:
    case OpKind::kJoin:
    case OpKind::kAddSet:
    case OpKind::kRemoveSet:
      return false;
  }
  return false;
}

void Scheduler::add_batch(std::vector<Ticket> tickets) {
  Entry entry;
  entry.kind = Entry::Kind::kBatch;
  entry.first_block = next_block_;
  uint64_t bytes = 0;
  for (Ticket ticket : tickets) {
    Known& known = known_[ticket];
    known.waiting = false;
    if (known.description.kind != OpKind::kBarrier) {
      bytes +=
          static_cast<uint64_t>(known.description.elements()) * size_of(known.description.type);
    }
  }
  next_block_ += (bytes + limits_.block_bytes - 1) / limits_.block_bytes;
  entry.tickets = std::move(tickets);
  ++formed_;
  add(std::move(entry));
}

void Scheduler::evict_beyond_capacity() {
  auto oldest = recently_.end();
  while (recently_.size() > limits_.cache_capacity && oldest != recently_.begin()) {
    --oldest;
    const Ticket ticket = *oldest;
    if (known_[ticket].waiting) continue;
    names_.erase(known_[ticket].name);
    known_.erase(ticket);
    oldest = recently_.erase(oldest);
    Entry entry;
    entry.kind = Entry::Kind::kEvict;
    entry.ticket = ticket;
    add(std::move(entry));
  }
}

std::vector<Entry> Scheduler::drain() { return std::exchange(entries_, {}); }

}  // namespace hvd
