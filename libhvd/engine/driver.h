// SPDX-License-Identifier: Apache-2.0
//
// Who drives the engine, and who sleeps. The engine is passive; exactly one thread at a time calls
// its progress(): a user's thread that waits, if there is one, else the background thread. So a
// waiting thread gets its result without a hand-over between threads, and a job whose threads all
// compute still moves.
//
// A waiting thread takes over from the background thread by ending its sleep. The way back is lazy:
// a thread that stops waiting tells nobody, since the next wait often follows at once; the
// background thread looks in after a nap. Only if it gave up looking (a long wait) it is woken.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "libhvd/base/clock.h"

namespace hvd {

class Driver {
 public:
  struct Work {
    std::function<bool()> progress;       // true if anything moved; one thread at a time
    std::function<void(Deadline)> sleep;  // until something can move; may return early
    std::function<void()> interrupt;      // ends a sleep; any thread
    std::function<bool()> may_spin;       // true if there is a core for every rank
    std::function<bool()> busy;           // true while a batch runs: peers work on it too
  };

  // Starts the background thread (all signals blocked in it).
  explicit Driver(Work work);
  ~Driver();

  // Drives until done() or the deadline; true if done. Any thread. done() is cheap and takes no
  // lock: it is called often, also under the driver's.
  bool drive_until(const std::function<bool()>& done, Deadline deadline);

  // True in a signal handler that interrupted the driving thread: it must not wait for itself.
  bool driven_by_this_thread() const { return user_thread_.load() == pthread_self(); }

  // Ends the background thread; only drive_until() moves the engine afterwards.
  void stop();

 private:
  enum class Who { kNobody, kBackground, kUser };
  void background();
  void run(const std::function<bool()>& done, Deadline deadline, bool user);

  Work work_;
  std::mutex mutex_;
  std::condition_variable users_;       // users that wait while somebody else drives
  std::condition_variable background_;  // the background thread's naps
  Who who_ = Who::kNobody;
  uint64_t user_drives_ = 0;     // times a user's thread has driven
  bool background_off_ = false;  // it sleeps until it is notified
  bool stopping_ = false;
  std::atomic<bool> hand_over_{false};               // the background thread is asked to let go
  std::atomic<int> users_inside_{0};                 // threads in drive_until
  std::atomic<pthread_t> user_thread_{pthread_t()};  // the one that drives, if a user's does
  std::thread thread_;
};

}  // namespace hvd
