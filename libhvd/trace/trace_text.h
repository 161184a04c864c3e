// SPDX-License-Identifier: Apache-2.0
//
// Events of a timeline as JSON, in Chrome's trace format: what is told once about a process or a
// thread is put in front of its first event, and begins and ends are made to fit each other. One
// thread uses an object.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvd {

// Whose timeline it is.
struct TraceIdentity {
  int rank = 0;
  int size = 1;
  std::string host;
  std::string job;
};

// A number that is shown with an event. The key is a literal.
struct TraceArg {
  const char* key;
  int64_t value;
};

enum class TraceStage : uint8_t { kPack, kReduce, kCross, kUnpack };

struct TraceEvent {
  enum class Kind : uint8_t { kBegin, kEnd, kStage, kRank, kCycle };

  Kind kind = Kind::kBegin;
  TraceStage stage = TraceStage::kPack;  // kStage
  uint8_t arg_count = 0;
  uint32_t track = 0;          // 0 is the rank, others are tensors from 1 on
  const char* name = nullptr;  // kBegin, kEnd
  int64_t ns = 0;
  int64_t end_ns = 0;  // kStage
  int rank = 0;        // kRank
  std::array<TraceArg, 3> args{};
};

struct TraceBatch {
  std::vector<std::string> names;  // of new tracks, in order
  std::vector<TraceEvent> events;
  uint64_t dropped = 0;  // behind them
  int64_t dropped_ns = 0;

  void clear();  // keeps the memory
};

class TraceText {
 public:
  using Emit = std::function<void(std::string_view element)>;

  TraceText(int64_t start_ns, Emit emit) : start_ns_(start_ns), emit_(std::move(emit)) {}

  // The first element: who this is, and what the wall clock (us since 1970) says at time 0.
  std::string head(const TraceIdentity& identity, int64_t start_us) const;
  void write(const TraceBatch& batch);

 private:
  struct Track {
    std::vector<std::string_view> open;  // phases
    uint8_t stages = 0;                  // threads that have their name
  };

  void name_track(std::string_view name);
  void begin(const TraceEvent& event);
  void end(const TraceEvent& event);
  void stage(const TraceEvent& event);
  void put(const TraceEvent& event, char phase, std::string_view name, int thread,
           std::string_view more);

  const int64_t start_ns_;
  const Emit emit_;
  std::vector<Track> tracks_{1};
};

}  // namespace hvd
