// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/gpu/engine.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "tests/fakes/gpu/cuda_abi.h"

namespace fake_gpu {
namespace {

// So that a handle is no pointer that works by accident.
void* handle_of(std::uint64_t id) { return reinterpret_cast<void*>(0x5EED00000000u + id * 16); }

std::string hex(std::uintptr_t address) {
  char text[32];
  snprintf(text, sizeof text, "%p", reinterpret_cast<void*>(address));
  return text;
}

}  // namespace

Engine& engine() {
  static auto* engine = new Engine;  // its threads outlive main
  return *engine;
}

int Engine::open() {
  const std::lock_guard lock(mutex_);
  if (open_) return kCudaSuccess;
  const int code = memory().open();
  open_ = code == kCudaSuccess;
  return code;
}

void Engine::break_device(int device, int code) {
  int none = 0;
  sticky_[static_cast<size_t>(device)].compare_exchange_strong(none, code);
}

// ---- streams ----

std::shared_ptr<Stream> Engine::make_stream(int device, bool blocking, int priority) {
  auto stream = std::make_shared<Stream>();
  stream->id = ++ids_;
  stream->device = device;
  stream->blocking = blocking;
  stream->priority = priority;
  stream->order = order_.add_stream();
  names_.push_back("stream " + std::to_string(stream->id));
  return stream;
}

void* Engine::create_stream(int device, bool blocking, int priority) {
  const std::lock_guard lock(mutex_);
  auto stream = make_stream(device, blocking, priority);
  void* handle = handle_of(stream->id);
  streams_[handle] = std::move(stream);
  return handle;
}

// As CUDA: what is queued still runs.
void Engine::destroy_stream(void* handle) {
  const std::shared_ptr<Stream> stream = this->stream("cuStreamDestroy", handle, -1);
  {
    const std::lock_guard lock(mutex_);
    check_free_to_touch(*stream, "cuStreamDestroy");
    streams_.erase(handle);
    destroyed_.insert(handle);
    retire(stream);
  }
  const std::lock_guard lock(stream->mutex);
  stream->closed = true;
  stream->changed.notify_all();
  if (stream->thread.joinable())
    stream->thread.detach();  // it keeps the stream, and ends with its last task
}

// Its thread ends with its last task, which may be never; those that have are joined here.
void Engine::retire(const std::shared_ptr<Stream>& stream) {
  retired_.push_back(stream);
  const auto gone = std::remove_if(retired_.begin(), retired_.end(), [](const auto& old) {
    if (!old->ended) return false;
    if (old->thread.joinable()) old->thread.join();
    return true;
  });
  retired_.erase(gone, retired_.end());
}

std::shared_ptr<Stream> Engine::stream(const char* what, void* handle, int device) {
  const std::lock_guard lock(mutex_);
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number == 2)
    violation("streams", "%s uses the per-thread default stream, which is not faked", what);
  if (number < 2 && device >= 0) {
    auto& null = null_streams_[device];
    if (!null) {
      null = make_stream(device, true, 0);
      null->null = true;
      names_.back() = "the NULL stream";
    }
    return null;
  }
  const auto found = streams_.find(handle);
  if (found != streams_.end()) return found->second;
  violation("destroyed handle",
            destroyed_.count(handle) != 0 ? "%s uses stream %p, which was destroyed"
                                          : "%s uses %p, which is no stream",
            what, handle);
}

void Engine::check_free_to_touch(const Stream& stream, const char* what) {
  if (stream.in_progress.empty()) return;
  violation("NCCL in progress",
            "%s touches a stream whose %s is in progress; poll ncclCommGetAsyncError until it says "
            "ncclSuccess",
            what, stream.in_progress.c_str());
}

void Engine::look(const std::shared_ptr<Stream>& stream, const char* what) {
  const std::lock_guard lock(mutex_);
  check_free_to_touch(*stream, what);
}

void Engine::set_in_progress(const std::shared_ptr<Stream>& stream, const std::string& call) {
  const std::lock_guard lock(mutex_);
  stream->in_progress = call;
}

// Work in the NULL stream comes after all that blocking streams of its device have, and the other
// way round.
void Engine::order_null_stream(const std::shared_ptr<Stream>& stream, std::vector<Point>* after) {
  if (!stream->blocking) return;
  const auto null = null_streams_.find(stream->device);
  if (!stream->null) {
    if (null != null_streams_.end()) after->push_back(last_locked(null->second));
    return;
  }
  for (const auto& [handle, other] : streams_) {
    if (other->blocking && other->device == stream->device) after->push_back(last_locked(other));
  }
}

Point Engine::submit(const std::shared_ptr<Stream>& stream, const char* what,
                     const std::vector<Access>& accesses, Work work, std::vector<Point> after,
                     bool from_nccl) {
  const std::lock_guard lock(mutex_);
  if (!from_nccl) check_free_to_touch(*stream, what);
  order_null_stream(stream, &after);
  order_.step(stream->order);
  for (const Point& point : after) order_.join(stream->order, point.clock);
  for (const Access& access : accesses) {
    const auto race = order_.touch(stream->order, access, what);
    if (!race) continue;
    violation("missing wait",
              "%s in %s %s %s, which %s in %s %s, and no event or host wait orders the two", what,
              names_[static_cast<size_t>(stream->order)].c_str(),
              access.writes ? "writes" : "reads", hex(race->at).c_str(), race->what.c_str(),
              names_[static_cast<size_t>(race->stream)].c_str(), race->wrote ? "writes" : "reads");
  }
  Point point = last_locked(stream);
  point.ticket = ++stream->submitted;

  const std::lock_guard stream_lock(stream->mutex);
  stream->tasks.push_back(Task{std::move(work), std::move(after)});
  if (!stream->thread.joinable()) stream->thread = std::thread([this, stream] { run(stream); });
  stream->changed.notify_all();
  return point;
}

Point Engine::last(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard lock(mutex_);
  return last_locked(stream);
}

Point Engine::last_locked(const std::shared_ptr<Stream>& stream) {
  return Point{stream, stream->submitted, order_.clock(stream->order), nullptr};
}

void Engine::run(const std::shared_ptr<Stream>& stream) {
  const Settings& s = settings();
  Random random(s.seed * 7919 + stream->id * 104729 + static_cast<std::uint64_t>(s.rank + 1));
  for (;;) {
    Task task;
    {
      std::unique_lock lock(stream->mutex);
      stream->changed.wait(lock, [&] { return !stream->tasks.empty() || stream->closed; });
      if (stream->tasks.empty()) {
        stream->ended = true;
        return;
      }
      task = std::move(stream->tasks.front());
      stream->tasks.pop_front();
    }
    if (s.delay_us > 0) {
      usleep(static_cast<unsigned>(random.below(static_cast<std::uint64_t>(s.delay_us) + 1)));
    }
    for (const Point& point : task.after) {
      if (!wait_until(point, now_ms() + s.deadline_ms)) {
        violation("deadline", "a stream has waited %ld ms for an event of another one",
                  s.deadline_ms);
      }
    }
    const int code = task.work(sticky(stream->device) != 0);
    if (code != kCudaSuccess) break_device(stream->device, code);
    task = Task();
    const std::lock_guard lock(stream->mutex);
    ++stream->completed;
    stream->changed.notify_all();
  }
}

// ---- waiting ----

bool Engine::wait_until(const Point& point, long deadline) {
  std::unique_lock lock(point.stream->mutex);
  return point.stream->changed.wait_for(lock, std::chrono::milliseconds(deadline - now_ms()),
                                        [&] { return point.stream->completed >= point.ticket; });
}

void Engine::wait(const Point& point, const char* what) {
  if (!wait_until(point, now_ms() + settings().deadline_ms)) {
    violation("deadline", "%s has waited %ld ms for work of a stream", what,
              settings().deadline_ms);
  }
  const std::lock_guard lock(mutex_);
  order_.host_knows(point.clock);
}

bool Engine::reached(const Point& point) {
  {
    const std::lock_guard lock(point.stream->mutex);
    if (point.stream->completed < point.ticket) return false;
  }
  const std::lock_guard lock(mutex_);
  order_.host_knows(point.clock);
  return true;
}

void Engine::wait_device(int device, const char* what) {
  std::vector<Point> points;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [handle, stream] : streams_) {
      if (stream->device == device) points.push_back(last_locked(stream));
    }
    const auto null = null_streams_.find(device);
    if (null != null_streams_.end()) points.push_back(last_locked(null->second));
  }
  for (const Point& point : points) wait(point, what);
}

// ---- events ----

void* Engine::create_event(int device, bool timed) {
  const std::lock_guard lock(mutex_);
  void* handle = handle_of(++ids_);
  Event& event = events_[handle];
  event.device = device;
  event.timed = timed;
  return handle;
}

Event& Engine::event(const char* what, void* handle) {
  const auto found = events_.find(handle);
  if (found != events_.end()) return found->second;
  violation("destroyed handle",
            destroyed_.count(handle) != 0 ? "%s uses event %p, which was destroyed"
                                          : "%s uses %p, which is no event",
            what, handle);
}

void Engine::destroy_event(void* handle) {
  const std::lock_guard lock(mutex_);
  event("cuEventDestroy", handle);
  events_.erase(handle);
  destroyed_.insert(handle);
}

void Engine::record(void* handle, const std::shared_ptr<Stream>& stream) {
  {
    const std::lock_guard lock(mutex_);
    if (event("cuEventRecord", handle).device != stream->device) {
      violation("contexts", "cuEventRecord records an event of device %d in a stream of device %d",
                event("cuEventRecord", handle).device, stream->device);
    }
  }
  auto done_at = std::make_shared<std::atomic<long>>(0);
  Point point = submit(stream, "cuEventRecord", {}, [done_at](bool) {
    *done_at = now_ms();
    return kCudaSuccess;
  });
  point.done_at = std::move(done_at);
  const std::lock_guard lock(mutex_);
  event("cuEventRecord", handle).recorded = std::make_unique<Point>(std::move(point));
}

std::unique_ptr<Point> Engine::recorded(const char* what, void* handle) {
  const std::lock_guard lock(mutex_);
  const Event& found = event(what, handle);
  return found.recorded ? std::make_unique<Point>(*found.recorded) : nullptr;
}

bool Engine::is_timed(void* handle) {
  const std::lock_guard lock(mutex_);
  return event("cuEventElapsedTime", handle).timed;
}

void Engine::forget(std::uintptr_t begin, size_t bytes) {
  const std::lock_guard lock(mutex_);
  order_.forget(begin, bytes);
}

size_t Engine::live_streams() {
  const std::lock_guard lock(mutex_);
  return streams_.size();
}

size_t Engine::live_events() {
  const std::lock_guard lock(mutex_);
  return events_.size();
}

}  // namespace fake_gpu
