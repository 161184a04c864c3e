// SPDX-License-Identifier: Apache-2.0
//
// A rank's half of the agreement: knows which (name, description) has which ticket, says the short
// word where it can, and tells which names a batch is made of. Every rank has one.
//
// Not thread-safe: called under the engine's lock. Pure state.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "libhvd/control/message.h"

namespace hvd {

class Announcer {
 public:
  // What to report when `name` is submitted with this (encoded) description. The name is in flight
  // until settle() or an entry that fails it.
  Report announce(const std::string& name, const std::string& description);

  // An entry of the schedule, in order. Returns reports to send again (a ticket in flight was
  // evicted); empty nearly always.
  std::vector<Report> apply(const Entry& entry);

  // The name behind a ticket that was defined and not evicted; nullptr if there is none.
  const std::string* name_of(Ticket ticket) const;

  // The operation `name` was put into a batch or failed: it is not in flight any more.
  void settle(const std::string& name);

 private:
  struct Known {
    Ticket ticket = 0;
    std::string description;
  };
  std::unordered_map<std::string, Known> names_;
  std::unordered_map<Ticket, std::string> tickets_;
  // Names announced by ticket or description and not settled; value: the description.
  std::unordered_map<std::string, std::string> in_flight_;
};

}  // namespace hvd
