// SPDX-License-Identifier: Apache-2.0
//
// See announcer.h.
#include "libhvd/control/announcer.h"

namespace hvd {
namespace {

Report submit(const std::string& name, const std::string& description) {
  Report report;
  report.kind = Report::Kind::kSubmit;
  report.name = name;
  report.opinions.push_back({description, {}});
  return report;
}

}  // namespace

Report Announcer::announce(const std::string& name, const std::string& description) const {
  const auto known = names_.find(name);
  if (known == names_.end() || known->second.description != description) {
    return submit(name, description);
  }
  Report report;
  report.kind = Report::Kind::kReady;
  report.tickets.push_back(known->second.ticket);
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
      Known& known = names_[entry.name];
      if (known.ticket != 0) tickets_.erase(known.ticket);
      known.ticket = entry.ticket;
      known.description = entry.description;
      tickets_[entry.ticket] = entry.name;
      break;
    }
    case Entry::Kind::kEvict: {
      ++evictions_;
      auto ticket = tickets_.find(entry.ticket);
      if (ticket == tickets_.end()) break;
      names_.erase(ticket->second);
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
      break;
  }
}

const std::string* Announcer::name_of(Ticket ticket) const {
  auto it = tickets_.find(ticket);
  return it == tickets_.end() ? nullptr : &it->second;
}

}  // namespace hvd
