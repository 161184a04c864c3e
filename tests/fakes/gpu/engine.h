// SPDX-License-Identifier: Apache-2.0
//
// What runs on the fake devices: a stream is a thread that does its tasks in order, each after a
// random delay; an event is a place in a stream. Which accesses are ordered is decided when a task
// is submitted (order.h). Both fake libraries submit here; nothing here knows CUDA's entry points.
// Thread-safe. Handles are numbers that are never given out twice.
//
// A task gets whether its device has a sticky error; then it only tidies up, as work on a broken
// GPU never runs.
#ifndef TESTS_FAKES_GPU_ENGINE_H
#define TESTS_FAKES_GPU_ENGINE_H

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/gpu/memory.h"
#include "tests/fakes/gpu/order.h"
#include "tests/fakes/gpu/settings.h"

namespace fake_gpu {

using Work = std::function<int(bool broken)>;  // a CudaResult; what is no success breaks the device

struct Stream;

// A place in a stream: after the task with that ticket.
struct Point {
  std::shared_ptr<Stream> stream;
  std::uint64_t ticket = 0;
  Clock clock;
  std::shared_ptr<std::atomic<long>> done_at;  // of a recorded event, ms
};

struct Task {
  Work work;
  std::vector<Point> after;
};

struct Stream {
  // Fixed.
  std::uint64_t id = 0;
  int device = 0, priority = 0, order = 0;
  bool blocking = false;  // synchronises with the NULL stream
  bool null = false;
  // Under the engine's lock.
  std::uint64_t submitted = 0;
  std::string
      in_progress;  // the NCCL call of a non-blocking communicator that nobody has seen succeed yet
  // Under its own.
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Task> tasks;
  std::uint64_t completed = 0;
  bool closed = false;
  std::atomic<bool> ended{false};
  std::thread thread;
};

struct Event {
  int device = 0;
  bool timed = true;
  std::unique_ptr<Point> recorded;
};

class FAKE_GPU_EXPORT Engine {
 public:
  int open();  // a CudaResult
  bool is_open() const { return open_; }

  int sticky(int device) const { return sticky_[static_cast<size_t>(device)]; }
  void break_device(int device, int code);

  // Streams. A NULL handle is the device's NULL stream.
  void* create_stream(int device, bool blocking, int priority);
  void destroy_stream(void* handle);
  // Ends the process if there is none of that handle, or none any more.
  std::shared_ptr<Stream> stream(const char* what, void* handle, int device);

  // Submits a task; what: the call. From_nccl: it may touch a stream whose last NCCL call is in
  // progress.
  Point submit(const std::shared_ptr<Stream>& stream, const char* what,
               const std::vector<Access>& accesses, Work work, std::vector<Point> after = {},
               bool from_nccl = false);
  Point last(const std::shared_ptr<Stream>& stream);
  // A CUDA call looks at the stream without submitting anything.
  void look(const std::shared_ptr<Stream>& stream, const char* what);
  void set_in_progress(const std::shared_ptr<Stream>& stream, const std::string& call);

  // The host waits, or looks; when the place is reached it knows so.
  void wait(const Point& point, const char* what);
  bool reached(const Point& point);
  void wait_device(int device, const char* what);

  // Events.
  void* create_event(int device, bool timed);
  void destroy_event(void* handle);
  void record(void* event, const std::shared_ptr<Stream>& stream);
  std::unique_ptr<Point> recorded(const char* what, void* event);  // null: never

  void forget(std::uintptr_t begin, size_t bytes);
  bool is_timed(void* event);
  size_t live_streams();
  size_t live_events();

 private:
  Event& event(const char* what, void* handle);
  std::shared_ptr<Stream> make_stream(int device, bool blocking, int priority);
  void check_free_to_touch(const Stream& stream, const char* what);
  void order_null_stream(const std::shared_ptr<Stream>& stream, std::vector<Point>* after);
  Point last_locked(const std::shared_ptr<Stream>& stream);
  void retire(const std::shared_ptr<Stream>& stream);
  void run(const std::shared_ptr<Stream>& stream);
  bool wait_until(const Point& point, long deadline);

  std::mutex mutex_;
  bool open_ = false;
  Order order_;
  std::uint64_t ids_ = 0;
  std::map<void*, std::shared_ptr<Stream>> streams_;
  std::map<void*, Event> events_;
  std::vector<std::shared_ptr<Stream>> retired_;
  std::set<void*> destroyed_;
  std::map<int, std::shared_ptr<Stream>> null_streams_;
  std::vector<std::string> names_;  // of streams, by their number in the order
  std::atomic<int> sticky_[64] = {};
};

FAKE_GPU_EXPORT Engine& engine();

// The device of the calling thread's current context; -1 for none.
FAKE_GPU_EXPORT int current_device();
FAKE_GPU_EXPORT std::string pci_bus_id(int device);

}  // namespace fake_gpu

#endif  // TESTS_FAKES_GPU_ENGINE_H
