// SPDX-License-Identifier: Apache-2.0
//
// See announcer.h.
#include "libhvd/control/announcer.h"

namespace hvd {

Report Announcer::announce(const OpKey& key, const std::string& description) const {
  Report report;
  const auto known = names_.find(key);
  if (known == names_.end() || tickets_.at(known->second).description != description) {
    report.kind = Report::Kind::kSubmit;
    report.key = key;
    report.opinions.push_back({description, {}});
    report.last = rank_;
    return report;
  }
  report.tickets.push_back({known->second, rank_, -1});
  return report;
}

std::optional<Report> Announcer::forgotten() {
  if (evictions_said_ == evictions_) return std::nullopt;
  evictions_said_ = evictions_;
  Report report;
  report.kind = Report::Kind::kForgotten;
  report.evictions = evictions_;
  return report;
}

void Announcer::apply(const Entry& entry) {
  switch (entry.kind) {
    case Entry::Kind::kDefine: {
      Ticket& ticket = names_[entry.key];
      if (ticket != 0) tickets_.erase(ticket);
      ticket = entry.ticket;
      tickets_[entry.ticket] = {entry.key, entry.description};
      break;
    }
    case Entry::Kind::kEvict: {
      ++evictions_;
      auto ticket = tickets_.find(entry.ticket);
      if (ticket == tickets_.end()) break;
      names_.erase(ticket->second.key);
      tickets_.erase(ticket);
      break;
    }
    case Entry::Kind::kEpochEnd:
      names_.clear();
      tickets_.clear();
      break;
    case Entry::Kind::kBatch:
    case Entry::Kind::kFail:
    case Entry::Kind::kLeft:
    case Entry::Kind::kFinalize:
    case Entry::Kind::kGranted:
    case Entry::Kind::kNews:
    case Entry::Kind::kPresence:
    case Entry::Kind::kJoined:
    case Entry::Kind::kAsk:
    case Entry::Kind::kStop:
      break;
  }
}

const Announcer::Known* Announcer::find(Ticket ticket) const {
  auto it = tickets_.find(ticket);
  return it == tickets_.end() ? nullptr : &it->second;
}

}  // namespace hvd
