// SPDX-License-Identifier: Apache-2.0
//
// One rank of a random test: does what the rounds (mix_draw.h) say, on two threads, and compares
// all that comes of it with the model. Through an interface, so that ranks may be processes that
// call hvd.h or threads with an engine each.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "libhvd/hvd.h"
#include "tests/ranks/mix_draw.h"

namespace hvd::test {

// How a call ended.
struct End {
  int code = HVD_OK;
  std::string text;
};

// A call that submits something.
struct Call {
  enum class What { kOperation, kJoin, kAddSet, kRemoveSet };
  What what = What::kOperation;
  int set = 0;
  const char* name = nullptr;
  Ask ask;  // what it is but for the tensors; those are:
  std::vector<hvd_tensor> inputs;
  std::vector<void*> outputs;
  int64_t* received = nullptr;
  std::vector<int32_t> ranks;  // of kAddSet
  int id = 0;                  // of kRemoveSet
  int32_t* number = nullptr;   // that is set: the id, or the rank that joined last
};

class Calls {
 public:
  virtual ~Calls() = default;
  virtual End submit(const Call& call, int64_t* handle) = 0;
  virtual End wait(int64_t handle, int64_t timeout_ms) = 0;
  virtual int poll(int64_t handle) = 0;
  virtual End result(int64_t handle, int index, hvd_tensor* tensor) = 0;
  virtual End release(int64_t handle) = 0;
  virtual std::vector<int> sets() = 0;
  virtual std::vector<int> ranks_of(int set) = 0;
  // Something does not come: says it and ends the process, whose memory is the library's still.
  [[noreturn]] virtual void give_up(const std::string& text) = 0;
};

class Player {
 public:
  Player(Calls* calls, int rank, int ranks, const std::vector<Kind>& kinds);

  void begin_epoch() { mix_.begin_epoch(); }
  // What was not as it had to be, "" if nothing. Stops after the first round in which something
  // was.
  std::string play(uint64_t seed, int rounds);

  int operations() const { return operations_; }  // so far
  int failures() const { return failures_; }      // of them, as they had to

 private:
  struct Running;
  struct Action;

  void play_round(const Round& round);
  void change_set(const SetChange& change);
  void submit(Running* running);
  void again(const Running& running);
  void attempt(const Attempt& attempt);
  void finish(Running* running);
  void compare(const Running& running, const Outcome& outcome);
  void compare_results(const Running& running, const Outcome& outcome);
  int64_t start(const Call& call, const std::string& what);
  int64_t join(int32_t* last);
  void agree_about_last(int32_t last);
  void compare_sets();
  End wait(int64_t handle, const std::string& what);
  void complain(const std::string& text);
  void on_two_threads(const std::function<void(int thread)>& fn);

  Calls* const calls_;
  const int rank_;
  const int ranks_;
  Mix mix_;
  std::string where_;
  int operations_ = 0;
  int failures_ = 0;
  std::mutex mutex_;
  std::string complaints_;
};

}  // namespace hvd::test
