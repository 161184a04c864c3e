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

Report Announcer::announce(const std::string& name, const std::string& description) {
  in_flight_[name] = description;
  auto known = names_.find(name);
  if (known == names_.end() || known->second.description != description) {
    return submit(name, description);
  }
  Report report;
  report.kind = Report::Kind::kReady;
  report.tickets.push_back(known->second.ticket);
  return report;
}

std::vector<Report> Announcer::apply(const Entry& entry) {
  std::vector<Report> again;
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
      auto ticket = tickets_.find(entry.ticket);
      if (ticket == tickets_.end()) break;
      const std::string name = std::move(ticket->second);
      tickets_.erase(ticket);
      const std::string description = std::move(names_[name].description);
      names_.erase(name);
      auto waiting = in_flight_.find(name);
      if (waiting != in_flight_.end() && waiting->second == description) {
        again.push_back(submit(name, description));
      }
      break;
    }
    case Entry::Kind::kEpochEnd:
      names_.clear();
      tickets_.clear();
      in_flight_.clear();
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
  return again;
}

const std::string* Announcer::name_of(Ticket ticket) const {
  auto it = tickets_.find(ticket);
  return it == tickets_.end() ? nullptr : &it->second;
}

void Announcer::settle(const std::string& name) { in_flight_.erase(name); }

}  // namespace hvd
