// SPDX-License-Identifier: Apache-2.0
//
// The timeline of one rank: what happens to each tensor and when, as a Chrome trace (JSON array of
// events; chrome://tracing, ui.perfetto.dev), laid out as Horovod lays it out. It knows no engine;
// the engine tells it. How the file stays valid is array_file.h's.
//
// Each tensor is a "process", in the order of first use. Its thread 0 has the phases
// NEGOTIATE_ALLREDUCE, QUEUE, ALLREDUCE; threads below have the stages, which overlap as blocks
// follow each other. Process 0 is the rank: cycles, and the number of events that were dropped.
//
// Threads: any thread may call anything. Telling costs a short lock and no memory once the buffers
// have grown; a thread of its own, asleep when there is nothing, writes every 100 ms. If the disk
// cannot follow, events beyond kMostEvents are dropped and counted. A forked child has no such
// thread, so it writes nothing; it may not call start or stop.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "libhvd/base/status.h"
#include "libhvd/trace/trace_text.h"

namespace hvd {

class Timeline {
 public:
  using Identity = TraceIdentity;
  // Gets the one line about a file that can no longer be written, on the timeline's thread.
  using Warn = std::function<void(const std::string& text)>;

  using Arg = TraceArg;
  using Args = std::initializer_list<Arg>;  // three at most
  using Stage = TraceStage;

  static constexpr size_t kMostEvents = 512 << 10;  // 56 MB

  Timeline(Identity identity, Warn warn, size_t most_events = kMostEvents);
  ~Timeline() { stop(); }

  // Begins a trace in place of what `path` has. One that is being written to another path is
  // finished first. An error names the path; there is no timeline then.
  Status start(const std::string& path, bool mark_cycles);
  // Writes what there is, and ends the trace. Nothing if there is none.
  void stop();

  // Ask first: nothing below does anything while it is false.
  bool on() const { return on_.load(std::memory_order_relaxed); }

  // Names of phases are literals; times are now_ns()'s. An end without its begin is left out, so
  // that a timeline may start and stop at any moment. A phase that begins inside another ends in
  // it.
  void begin(std::string_view tensor, const char* phase, int64_t ns, Args args = {});
  void end(std::string_view tensor, const char* phase, int64_t ns, Args args = {});
  void stage(std::string_view tensor, Stage stage, int64_t begin_ns, int64_t end_ns,
             Args args = {});
  // A tick under NEGOTIATE_*: this rank has submitted the tensor.
  void rank_ready(std::string_view tensor, int rank, int64_t ns);
  // Nothing unless the trace was started with mark_cycles.
  void mark_cycle(int64_t ns);

 private:
  void tell(std::string_view tensor, TraceEvent event, Args args);
  uint32_t track_of(std::string_view tensor);
  void write(const std::string& path, int64_t start_ns);
  void stop_locked();

  const Identity identity_;
  const Warn warn_;
  const size_t most_events_;

  std::mutex control_;  // held by start and stop
  std::string path_;
  std::thread thread_;

  std::atomic<bool> on_{false};
  std::atomic<bool> marks_cycles_{false};

  std::mutex mutex_;  // of all below
  std::condition_variable wake_;
  std::condition_variable opened_;
  bool is_open_ = false;  // or `open_status_` is an error
  bool stopping_ = false;
  Status open_status_;
  TraceBatch batch_;
  std::map<std::string, uint32_t, std::less<>> tracks_;
  size_t name_bytes_ = 0;
};

}  // namespace hvd
