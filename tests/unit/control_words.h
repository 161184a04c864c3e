// SPDX-License-Identifier: Apache-2.0
//
// Shorthands for the words of the agreement, for tests of what thinks about them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "libhvd/control/message.h"

namespace hvd::test {

// One tensor of float32 in all but the first.
Description described(OpKind kind, std::vector<TensorShape> tensors);
Description described(OpKind kind, std::vector<int64_t> shape);
Description group(OpKind kind, std::vector<TensorShape> tensors);
Description changed(Description description, void (*change)(Description*));
std::string floats(int64_t n);  // an allreduce, encoded
std::string adding(std::vector<int32_t> ranks);
std::string removing(int32_t set);
std::string barrier_text();

OpKey key(const std::string& name, int32_t set = 0);
Report submitted(const OpKey& key, const std::string& description, int32_t joined = -1);
Report submitted(const std::string& name, const std::string& description);
Report ready(std::vector<Ready> tickets);
Report ready(Ticket ticket);
Report joins(int rank);
Report stalled(const OpKey& key, int rank, bool final = false);
Report forgotten(uint64_t evictions);

Entry defined(Ticket ticket, const OpKey& key, const std::string& description);
Entry defined(Ticket ticket, const std::string& name, const std::string& description);
Entry evicted(Ticket ticket);
Entry batch(std::vector<Ready> tickets, int32_t set = 0);
Entry failed(const OpKey& key);
Entry of_kind(Entry::Kind kind);

// "define a; batch a b" for entries: names for tickets, "1:a" for those of process set 1.
class Told {
 public:
  std::string operator()(const std::vector<Entry>& entries);

 private:
  std::vector<std::string> names_;  // by ticket
};

// The same for reports: "ready a; submit b, 0 joined; join 0".
std::string told(const std::vector<Report>& reports);

}  // namespace hvd::test
