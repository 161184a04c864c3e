// SPDX-License-Identifier: Apache-2.0
//
// The root's part of the stall watch. A rank whose operation has waited for long says so; the root
// asks the members of its set once whether they have submitted it and what they wait in instead;
// when all have answered, or the patience is over (a stopped process does not answer), it knows
// what to tell. Nothing is sent while nothing stalls.
//
// Not thread-safe: called under the engine's lock. Pure: time comes in as an argument.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "libhvd/control/message.h"

namespace hvd {

// What was found out about an operation that does not come.
struct Stall {
  OpKey key;
  std::string kind;        // "allreduce"
  int reporter = 0;        // the rank that noticed
  bool final = false;      // it has waited too long: the job gives up
  std::vector<int> ready;  // members that have submitted it, or joined; ascending
  struct Missing {
    int rank = 0;
    bool answered = false;
    std::string waits_in;  // "allreduce \"b\""; empty: in nothing
  };
  std::vector<Missing> missing;  // ascending
};

// The sentence for a stall: who has submitted it and who has not, with hosts, and what those wait
// in. `place(rank)` is "rank 3 on node1", `seconds` what the operation was allowed.
std::string stall_text(const Stall& stall, double seconds,
                       const std::function<std::string(int rank)>& place);

class StallWatch {
 public:
  // A rank says that an operation stalls. The entry to publish; kAsk always.
  Entry ask(const Report& report, std::vector<int> members, const std::vector<int>& joined,
            int64_t now_ns);
  void take(const Report& answer);
  // What is known by now, in the order asked.
  std::vector<Stall> finished(int64_t now_ns);
  // When finished() has something that only waits for the clock; INT64_MAX if nothing.
  int64_t due_ns() const;
  void clear() { open_.clear(); }

 private:
  struct Question {
    Stall stall;
    std::map<int, Report> answers;  // by rank
    std::vector<int> asked;
    int64_t due_ns = 0;
  };
  std::map<Ticket, Question> open_;
  Ticket next_ = 1;
};

}  // namespace hvd
