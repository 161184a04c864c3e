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
  explicit Announcer(int rank) : rank_(rank) {}

  // What to report when `key` is submitted with this (encoded) description.
  Report announce(const OpKey& key, const std::string& description) const;

  // To be reported before that: which tickets are not said again. Nothing nearly always.
  std::optional<Report> forgotten();

  // An entry of the schedule, in order.
  void apply(const Entry& entry);

  // What a ticket stands for that was defined and not evicted.
  struct Known {
    OpKey key;
    std::string description;
  };
  // nullptr if there is no such ticket.
  const Known* find(Ticket ticket) const;

  size_t size() const { return tickets_.size(); }

 private:
  const int rank_;
  std::unordered_map<OpKey, Ticket, OpKeyHash> names_;
  std::unordered_map<Ticket, Known> tickets_;
  uint64_t evictions_ = 0;       // read
  uint64_t evictions_said_ = 0;  // reported
};

}  // namespace hvd
