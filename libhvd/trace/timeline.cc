// SPDX-License-Identifier: Apache-2.0
//
// See timeline.h. Those who tell append to a batch; the thread takes it as a whole and writes it
// with trace_text.h. The first event of a batch wakes the thread, which then lets others gather.
#include "libhvd/trace/timeline.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <chrono>
#include <utility>

#include "libhvd/base/clock.h"
#include "libhvd/trace/array_file.h"
#include "libhvd/trace/trace_text.h"

namespace hvd {
namespace {

constexpr auto kGather = std::chrono::milliseconds(100);
// How soon it is tried again to write while somebody has the file open.
constexpr auto kInUse = std::chrono::milliseconds(10);
// More names than that share a track: unnamed operations have a new name each.
constexpr size_t kMostBytesOfNames = 16 << 20;
constexpr std::string_view kOthers = "(other tensors)";

int64_t wall_clock_us() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return int64_t{t.tv_sec} * 1000000 + t.tv_nsec / 1000;
}

}  // namespace

Timeline::Timeline(Identity identity, Warn warn, size_t most_events)
    : identity_(std::move(identity)), warn_(std::move(warn)), most_events_(most_events) {}

Status Timeline::start(const std::string& path, bool mark_cycles) {
  std::lock_guard<std::mutex> control(control_);
  if (on() && path == path_) {
    marks_cycles_.store(mark_cycles);
    return ok_status();
  }
  stop_locked();
  path_ = path;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_open_ = stopping_ = false;
    open_status_ = ok_status();
    batch_ = TraceBatch();
    tracks_.clear();
    name_bytes_ = 0;
  }
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this, path, now = now_ns()] { write(path, now); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "horovod-trace");

  std::unique_lock<std::mutex> lock(mutex_);
  opened_.wait(lock, [&] { return is_open_ || !open_status_.ok(); });
  if (!open_status_.ok()) {
    lock.unlock();
    thread_.join();
    return open_status_;
  }
  marks_cycles_.store(mark_cycles);
  on_.store(true);
  return ok_status();
}

void Timeline::stop() {
  std::lock_guard<std::mutex> control(control_);
  stop_locked();
}

void Timeline::stop_locked() {
  on_.store(false);
  if (!thread_.joinable()) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  thread_.join();
}

uint32_t Timeline::track_of(std::string_view tensor) {
  auto found = tracks_.find(tensor);
  if (found == tracks_.end()) {
    if (name_bytes_ + tensor.size() > kMostBytesOfNames && tensor != kOthers)
      return track_of(kOthers);
    name_bytes_ += tensor.size() + sizeof(*found);
    found = tracks_.emplace(tensor, tracks_.size() + 1).first;
    batch_.names.emplace_back(tensor);
  }
  return found->second;
}

void Timeline::tell(std::string_view tensor, TraceEvent event, Args args) {
  for (const Arg& arg : args) {
    if (event.arg_count < event.args.size()) event.args[event.arg_count++] = arg;
  }
  bool first = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!on() || stopping_) return;
    if (batch_.events.size() >= most_events_) {
      ++batch_.dropped;
      batch_.dropped_ns = event.ns;
      return;
    }
    first = batch_.events.empty();
    event.track = tensor.empty() ? 0 : track_of(tensor);
    batch_.events.push_back(event);
  }
  if (first) wake_.notify_one();
}

void Timeline::begin(std::string_view tensor, const char* phase, int64_t ns, Args args) {
  TraceEvent event;
  event.kind = TraceEvent::Kind::kBegin;
  event.name = phase;
  event.ns = ns;
  tell(tensor, event, args);
}

void Timeline::end(std::string_view tensor, const char* phase, int64_t ns, Args args) {
  TraceEvent event;
  event.kind = TraceEvent::Kind::kEnd;
  event.name = phase;
  event.ns = ns;
  tell(tensor, event, args);
}

void Timeline::stage(std::string_view tensor, Stage stage, int64_t begin_ns, int64_t end_ns,
                     Args args) {
  TraceEvent event;
  event.kind = TraceEvent::Kind::kStage;
  event.stage = stage;
  event.ns = begin_ns;
  event.end_ns = end_ns;
  tell(tensor, event, args);
}

void Timeline::rank_ready(std::string_view tensor, int rank, int64_t ns) {
  TraceEvent event;
  event.kind = TraceEvent::Kind::kRank;
  event.rank = rank;
  event.ns = ns;
  tell(tensor, event, {});
}

void Timeline::mark_cycle(int64_t ns) {
  if (!marks_cycles_.load(std::memory_order_relaxed)) return;
  TraceEvent event;
  event.kind = TraceEvent::Kind::kCycle;
  event.ns = ns;
  tell({}, event, {});
}

// The thread. Leaves on_ false and the file complete, whatever happens.
void Timeline::write(const std::string& path, int64_t start_ns) {
  ArrayFile file;
  const int64_t start_us = wall_clock_us() - (now_ns() - start_ns) / 1000;
  TraceText text(start_ns, [&](std::string_view element) { file.add(element); });
  Status status = file.create(path, text.head(identity_, start_us));

  std::unique_lock<std::mutex> lock(mutex_);
  is_open_ = status.ok();
  open_status_ = status;
  opened_.notify_all();
  if (!is_open_) return;

  TraceBatch taken;
  bool written = true;
  while (status.ok()) {
    const auto stopped = [&] { return stopping_; };
    if (written) {
      wake_.wait(lock, [&] { return stopping_ || !batch_.events.empty(); });
      wake_.wait_for(lock, kGather, stopped);
    } else {
      wake_.wait_for(lock, kInUse, stopped);
    }
    const bool last = stopping_;
    std::swap(batch_, taken);
    lock.unlock();
    text.write(taken);
    taken.clear();
    if (last) {
      status = file.finish();
    } else {
      Expected<bool> flushed = file.flush();
      written = flushed.ok() && *flushed;
      status = flushed.status();
    }
    if (!status.ok()) {
      on_.store(false);
      warn_("the timeline ends here: " + status.text());
    }
    lock.lock();
    if (last) return;
  }
}

}  // namespace hvd
