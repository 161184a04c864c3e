// SPDX-License-Identifier: Apache-2.0
//
// See driver.h.
#include "libhvd/engine/driver.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <chrono>

namespace hvd {
namespace {

constexpr auto kNap = std::chrono::microseconds(500);
// Naps before the background thread gives up on a user's thread that drives on and on.
constexpr int kNapsBeforeOff = 8;
// How long a thread looks without result before it sleeps. A sleep and its end cost 10 to 20 us, a
// processor that idles meanwhile 50 us and more. A thread of the user that waits has nothing better
// to do; while a batch runs, what it waits for is a block's worth of work of a peer. The background
// thread shares its core with the user's computation.
constexpr int64_t kLookNs = 50 * 1000;
constexpr int64_t kLookWhileBusyNs = 500 * 1000;
constexpr int64_t kBackgroundLookNs = 20 * 1000;
// Of that, without giving the core away; only where every rank has one.
constexpr int64_t kSpinNs = 20 * 1000;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

std::thread start_with_signals_blocked(std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

Driver::Driver(Work work) : work_(std::move(work)) {
  thread_ = start_with_signals_blocked([this] { background(); });
  pthread_setname_np(thread_.native_handle(), "horovod");
}

Driver::~Driver() { stop(); }

void Driver::stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    hand_over_.store(true);
    background_.notify_all();
  }
  work_.interrupt();
  if (thread_.joinable()) thread_.join();
}

bool Driver::drive_until(const std::function<bool()>& done, Deadline deadline) {
  // Counted before done() is asked: who finishes something afterwards sees that somebody waits.
  users_inside_.fetch_add(1);
  std::unique_lock<std::mutex> lock(mutex_);
  bool result = true;
  while (!done()) {
    if (deadline.passed()) {
      result = false;
      break;
    }
    if (who_ == Who::kNobody) {
      who_ = Who::kUser;
      user_thread_.store(pthread_self());
      lock.unlock();
      run(done, deadline, true);
      lock.lock();
      who_ = Who::kNobody;
      user_thread_.store(pthread_t());
      ++user_drives_;
      users_.notify_all();
      continue;
    }
    if (who_ == Who::kBackground && !hand_over_.load()) {
      hand_over_.store(true);
      work_.interrupt();
    }
    users_.wait_for(lock, std::chrono::milliseconds(deadline.poll_ms(1000)));
  }
  users_inside_.fetch_sub(1);
  // Whoever is the last to go leaves the engine to the background thread.
  if (who_ == Who::kNobody && background_off_) background_.notify_all();
  return result;
}

void Driver::run(const std::function<bool()>& done, Deadline deadline, bool user) {
  const bool spin = user && work_.may_spin();
  const int nobody_else = user ? 1 : 0;
  int64_t idle_since = 0;
  while (!done()) {
    const int64_t now = now_ns();
    if (now >= deadline.at_ns()) return;
    bool moved = work_.progress();
    if (moved) {
      idle_since = 0;
    } else {
      if (idle_since == 0) idle_since = now;
      const int64_t waited = now - idle_since;
      const int64_t look = !user ? kBackgroundLookNs : work_.busy() ? kLookWhileBusyNs : kLookNs;
      if (spin && waited < kSpinNs) {
        relax();
      } else if (waited < look) {
        sched_yield();
      } else {
        // Until something moves it looks once between sleeps.
        work_.sleep(deadline);
        moved = true;  // perhaps: it looks once more before it sleeps
      }
    }
    if (moved && users_inside_.load() > nobody_else) {
      std::lock_guard<std::mutex> lock(mutex_);
      users_.notify_all();
    }
  }
}

void Driver::background() {
  std::unique_lock<std::mutex> lock(mutex_);
  uint64_t seen = user_drives_;
  int naps = 0;
  while (!stopping_) {
    const bool quiet = seen == user_drives_;
    seen = user_drives_;
    if (who_ == Who::kNobody && quiet && users_inside_.load() == 0) {
      naps = 0;
      who_ = Who::kBackground;
      hand_over_.store(false);
      lock.unlock();
      run([this] { return hand_over_.load(); }, Deadline::never(), false);
      lock.lock();
      who_ = Who::kNobody;
      users_.notify_all();
      background_.wait_for(lock, kNap);
      continue;
    }
    if (who_ == Who::kUser && quiet && ++naps >= kNapsBeforeOff) {
      background_off_ = true;
      background_.wait(lock);
      background_off_ = false;
      naps = 0;
      continue;
    }
    if (!quiet) naps = 0;
    background_.wait_for(lock, kNap);
  }
}

}  // namespace hvd
