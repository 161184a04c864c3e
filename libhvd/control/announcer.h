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
  // What to report when `name` is submitted with this (encoded) description.
  Report announce(const std::string& name, const std::string& description) const;

  // To be reported before that: which tickets are not said again. Nothing nearly always.
  std::optional<Report> forgotten();

  // An entry of the schedule, in order.
  void apply(const Entry& entry);

  // The name behind a ticket that was defined and not evicted; nullptr if there is none.
  const std::string* name_of(Ticket ticket) const;

 private:
  struct Known {
    Ticket ticket = 0;
    std::string description;
  };
  std::unordered_map<std::string, Known> names_;
  std::unordered_map<Ticket, std::string> tickets_;
  uint64_t evictions_ = 0;       // read
  uint64_t evictions_said_ = 0;  // reported
};

}  // namespace hvd
