// SPDX-License-Identifier: Apache-2.0
//
// The words of the agreement. Up the tree go Reports (from a rank to its leader, from a leader to
// its parent: the same words); down go Entries of the one schedule, the same bytes for everybody.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libhvd/base/codec.h"
#include "libhvd/control/description.h"

namespace hvd {

using Ticket = uint64_t;  // a known (name, description); never used twice; 0 is none

// A ticket that ranks have submitted, and how.
struct Ready {
  Ticket ticket = 0;
  int32_t last = 0;     // the rank that was the last to submit it
  int32_t joined = -1;  // a rank that has joined instead of submitting it; -1: there is none
};

// What a child says to its parent. A child speaks for the ranks below it.
struct Report {
  enum class Kind : uint8_t {
    kReady = 1,      // all members below have submitted these tickets
    kSubmit = 2,     // all members below have submitted this name, with these descriptions
    kGoodbye = 3,    // `rank` below has shut down; more may follow
    kAllGone = 4,    // all ranks below have shut down
    kBye = 5,        // all ranks below are at the end of their process
    kLeave = 6,      // a rank below waits at the end of its process and wants to go
    kNews = 7,       // a rank is gone: `text` is the line, already written by who found out
    kPresence = 8,   // the sender itself: `rank` is 0 here, 1 may vanish without being missed
    kForgotten = 9,  // the sender has read `evictions` kEvict: it says none of those tickets again
    kJoin = 10,      // `rank` below has joined: it submits nothing until all have
    kStalled = 11,   // `key`, of kind `text`, has waited for long on `rank`; `final`: too long
    kAnswer = 12,    // to question `ticket`: `rank` has submitted it or not, and waits in `text`
  };
  Kind kind = Kind::kReady;
  std::vector<Ready> tickets;     // kReady
  OpKey key;                      // kSubmit, kStalled
  std::vector<Opinion> opinions;  // kSubmit; one without ranks: all members below agree
  int32_t last = 0;               // kSubmit: as in Ready
  int32_t joined = -1;            // kSubmit: as in Ready
  int32_t rank = 0;               // kGoodbye, kPresence, kJoin, kStalled, kAnswer
  uint64_t evictions = 0;         // kForgotten; since the job began
  bool final = false;             // kStalled
  Ticket question = 0;            // kAnswer
  bool submitted = false;         // kAnswer
  std::string text;               // kNews, kStalled, kAnswer

  std::string encode() const;
  static std::optional<Report> decode(std::string_view bytes);
};

// One entry of the schedule.
struct Entry {
  enum class Kind : uint8_t {
    kDefine = 1,  // `ticket` stands for (name, description) from here on, in place of an older one
    kEvict = 2,   // `ticket` is forgotten; where it is on its way it stands for its description
    kBatch = 3,   // run these tickets, all of `set`, in blocks [first_block, end_block)
    kFail = 4,    // the operation `key` fails with `text` (kMismatch)
    kLeft = 5,    // `rank` has shut down: nothing that needs it will be scheduled any more
    kEpochEnd = 6,   // all ranks have shut down; a new epoch begins with empty tables
    kFinalize = 7,   // all ranks are at their end: MPI can be finalised
    kGranted = 8,    // leave without finalising MPI, whoever is at the end
    kNews = 9,       // a rank is gone: `text` is the line, already written
    kPresence = 10,  // the sender itself: `rank` is 0 here, 1 may vanish without being missed
    kJoined = 11,    // all ranks have joined, `rank` as the last
    kAsk = 12,       // members of its set: answer question `ticket`, have you submitted `key`?
    kStop = 13,      // everything fails with `text` (kStalled)
  };
  Kind kind = Kind::kBatch;
  Ticket ticket = 0;
  OpKey key;
  std::string description;
  int32_t set = 0;
  std::vector<Ready> tickets;
  uint64_t first_block = 0;
  uint64_t end_block = 0;
  int32_t rank = 0;
  std::string text;

  void encode(Writer* w) const;
  // One entry from the front of `r`; r->ok() is false if it did not parse.
  static Entry decode(Reader* r);
};

// Blocks that are set aside for a batch whose size is known only once it runs.
constexpr uint64_t kUnknownBlocks = uint64_t{1} << 28;

// Most tensors in one batch of several tickets: with kMaxName and kMaxDescription, what keeps every
// message far below the size of the rings it travels through.
constexpr size_t kMaxBatchTensors = 4096;
constexpr size_t kMaxText = 8192;  // longer texts are cut

}  // namespace hvd
