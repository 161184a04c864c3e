// SPDX-License-Identifier: Apache-2.0
//
// See mix_run.h.
#include "tests/ranks/mix_run.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

namespace hvd::test {
namespace {

constexpr int64_t kDeadlineMs = 30000;
constexpr char kUntouched = 0x5a;
constexpr size_t kGuard = 64;

// Memory for a tensor, at any alignment, with something around it that must stay.
class Buffer {
 public:
  Buffer() = default;
  Buffer(size_t bytes, size_t offset)
      : begin_(kGuard + offset), bytes_(bytes), memory_(begin_ + bytes + kGuard, kUntouched) {}

  char* data() { return memory_.data() + begin_; }
  const char* data() const { return memory_.data() + begin_; }
  void fill(const std::vector<char>& bytes) { std::copy(bytes.begin(), bytes.end(), data()); }
  bool surroundings_are_untouched() const {
    return untouched(0, begin_) && untouched(begin_ + bytes_, memory_.size());
  }
  bool is_untouched() const { return untouched(0, memory_.size()); }

 private:
  bool untouched(size_t begin, size_t end) const {
    return std::all_of(memory_.begin() + static_cast<std::ptrdiff_t>(begin),
                       memory_.begin() + static_cast<std::ptrdiff_t>(end),
                       [](char c) { return c == kUntouched; });
  }
  size_t begin_ = kGuard;
  size_t bytes_ = 0;
  std::vector<char> memory_ = std::vector<char>(2 * kGuard, kUntouched);
};

std::string in_words(const End& end) {
  return "code " + std::to_string(end.code) + ", \"" + end.text + "\"";
}

int64_t elements_of(const hvd_tensor& tensor) {
  int64_t n = 1;
  for (int i = 0; i < tensor.ndim; ++i) n *= tensor.shape[i];
  return n;
}

// In `to`, whose shapes are those of `pieces`; `data(i)` is where they are.
template <typename Data>
std::vector<hvd_tensor> tensors(const std::vector<Piece>& pieces, Data data) {
  std::vector<hvd_tensor> all;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    all.push_back({data(i), piece.shape.data(), static_cast<int32_t>(piece.shape.size()),
                   piece.type, HVD_HOST});
  }
  return all;
}

}  // namespace

// One use of a name by this rank, from its buffers to what came of it.
struct Player::Running {
  Running(const Use& of, int rank, Random* random) : use(&of), ask(of.ask(rank)) {
    in_place = random->one_in(2);
    for (size_t i = 0; i < ask.pieces.size(); ++i) {
      before.push_back(of.input(rank, i));
      in.emplace_back(before[i].size(), random->one_in(3) ? random->below(8) : 0);
      in[i].fill(before[i]);
      out.emplace_back(ask.ragged() || in_place ? 0 : before[i].size(), random->below(3));
    }
    received.assign(of.members.size(), -1);
    call.set = of.set;
    call.name = of.name.empty() ? nullptr : of.name.c_str();
    call.ask = ask;
    call.inputs = tensors(ask.pieces, [&](size_t i) { return in[i].data(); });
    for (size_t i = 0; i < ask.pieces.size(); ++i) {
      call.outputs.push_back(in_place ? in[i].data() : out[i].data());
      if (before[i].empty() && random->one_in(2)) call.inputs[i].data = nullptr;
    }
    if (ask.kind == Kind::kBroadcast && ask.root != rank && random->one_in(2)) {
      call.inputs[0].data = nullptr;
    }
    if (random->one_in(2)) call.received = received.data();
  }
  std::string text() const {
    return ask.kind_text() + " \"" + use->spoken + "\" of process set " + std::to_string(use->set);
  }

  const Use* use;
  Ask ask;
  bool in_place = false;
  std::vector<std::vector<char>> before;
  std::vector<Buffer> in;
  std::vector<Buffer> out;
  std::vector<int64_t> received;
  Call call;
  int64_t handle = 0;
};

// Something to submit.
struct Player::Action {
  Running* running = nullptr;
  const Attempt* attempt = nullptr;
  int thread = 0;
};

Player::Player(Calls* calls, int rank, int ranks, const std::vector<Kind>& kinds)
    : calls_(calls), rank_(rank), ranks_(ranks), mix_(ranks, kinds) {}

void Player::complain(const std::string& text) {
  std::lock_guard<std::mutex> lock(mutex_);
  complaints_ += where_ + ": rank " + std::to_string(rank_) + ": " + text + "\n";
}

std::string Player::play(uint64_t seed, int rounds) {
  mix_.begin(seed);
  for (int round = 0; round < rounds && complaints_.empty(); ++round) {
    where_ = "seed " + std::to_string(seed) + ", round " + std::to_string(round);
    play_round(mix_.next());
  }
  return std::exchange(complaints_, "");
}

void Player::on_two_threads(const std::function<void(int thread)>& fn) {
  std::thread other([&] { fn(1); });
  fn(0);
  other.join();
}

void Player::play_round(const Round& round) {
  Random random(round.seed + static_cast<uint64_t>(rank_) * 0x10001);
  for (const SetChange& change : round.changes) change_set(change);
  std::vector<std::unique_ptr<Running>> running;
  std::vector<Action> actions;
  for (const Use& use : round.uses) {
    if (!use.submitted_by(rank_)) continue;
    running.push_back(std::make_unique<Running>(use, rank_, &random));
    actions.push_back({running.back().get(), nullptr, 0});
  }
  for (const Attempt& attempt : round.attempts) {
    if (attempt.rank == rank_) actions.push_back({nullptr, &attempt, 0});
  }
  random.shuffle(&actions);
  for (Action& action : actions) action.thread = static_cast<int>(random.below(2));
  on_two_threads([&](int thread) {
    for (const Action& action : actions) {
      if (action.thread != thread) continue;
      action.running != nullptr ? submit(action.running) : attempt(*action.attempt);
    }
  });

  Call removal;
  removal.what = Call::What::kRemoveSet;
  removal.id = round.removed;
  const int64_t removing = round.removed != 0 ? start(removal, "remove_process_set") : 0;
  int32_t last = -1;
  const bool joins_first = round.joining[static_cast<size_t>(rank_)] != Joining::kAfterWaiting;
  int64_t joining = round.joins && joins_first ? join(&last) : 0;

  random.shuffle(&running);
  on_two_threads([&](int thread) {
    for (size_t i = static_cast<size_t>(thread); i < running.size(); i += 2) {
      finish(running[i].get());
    }
  });
  if (removing != 0) {
    const End end = wait(removing, "remove_process_set");
    if (end.code != HVD_OK) complain("removing a process set: " + in_words(end));
  }
  if (round.joins) {
    if (joining == 0) joining = join(&last);
    const End end = wait(joining, "join");
    if (end.code != HVD_OK) complain("join: " + in_words(end));
    agree_about_last(last);
  }
  compare_sets();
}

int64_t Player::start(const Call& call, const std::string& what) {
  int64_t handle = 0;
  const End end = calls_->submit(call, &handle);
  if (end.code != HVD_OK) complain(what + " was refused: " + in_words(end));
  return handle;
}

End Player::wait(int64_t handle, const std::string& what) {
  if (handle == 0) return {HVD_ERR_INVALID, "was not submitted"};
  const End end = calls_->wait(handle, kDeadlineMs);
  if (end.code == HVD_ERR_TIMEOUT) {
    calls_->give_up(complaints_ + where_ + ": rank " + std::to_string(rank_) + ": waited for " +
                    what + " for " + std::to_string(kDeadlineMs / 1000) + " s");
  }
  return end;
}

void Player::change_set(const SetChange& change) {
  int32_t id = -1;
  Call call;
  call.what = change.add ? Call::What::kAddSet : Call::What::kRemoveSet;
  call.number = &id;
  if (change.add) {
    const auto& ranks = change.ranks[static_cast<size_t>(rank_)];
    call.ranks.assign(ranks.rbegin(), ranks.rend());
  } else {
    call.id = change.ids[static_cast<size_t>(rank_)];
  }
  const std::string what = change.add ? "add_process_set" : "remove_process_set";
  const End end = wait(start(call, what), what);
  const int code = change.error.empty() ? HVD_OK : HVD_ERR_MISMATCH;
  if (end.code != code || end.text != change.error) {
    complain(what + " ended with " + in_words(end) + "\n  not with " +
             in_words({code, change.error}));
  } else if (code == HVD_OK && change.add && id != change.id) {
    complain("a new process set is " + std::to_string(id) + ", not " + std::to_string(change.id));
  }
}

void Player::submit(Running* running) {
  const End end = calls_->submit(running->call, &running->handle);
  if (end.code != HVD_OK) {
    complain(running->text() + " was refused: " + in_words(end));
  } else if (running->use->doomed) {
    again(*running);
  }
}

// What cannot be done is in flight for certain.
void Player::again(const Running& running) {
  int64_t handle = 0;
  const End end = calls_->submit(running.call, &handle);
  const std::string want = running.ask.kind_text() + " \"" + running.use->spoken +
                           "\" is in flight already; wait for it, or give each operation a name "
                           "of its own";
  if (end.code != HVD_ERR_INVALID || end.text != want) {
    complain(running.text() + ", submitted twice: " + in_words(end));
  }
}

void Player::attempt(const Attempt& attempt) {
  Call call;
  call.set = attempt.set;
  call.name = attempt.name.c_str();
  call.ask = attempt.ask;
  std::vector<double> memory(64);
  call.inputs = tensors(attempt.ask.pieces, [&](size_t) { return memory.data(); });
  call.outputs.assign(attempt.ask.pieces.size(), memory.data());
  int64_t handle = 0;
  const End end = calls_->submit(call, &handle);
  if (end.code != HVD_ERR_INVALID || end.text != attempt.text) {
    complain(attempt.ask.kind_text() + " had to be refused with \"" + attempt.text +
             "\"; submitting it: " + in_words(end));
  }
}

void Player::finish(Running* running) {
  if (running->handle == 0) return;
  if (calls_->poll(running->handle) < 0) complain(running->text() + " has no handle");
  const End end = wait(running->handle, running->text());
  const Outcome outcome = running->use->outcome(rank_);
  if (end.code != outcome.code || end.text != outcome.text) {
    complain(running->text() + " ended with " + in_words(end) + "\n  not with " +
             in_words({outcome.code, outcome.text}));
  } else {
    compare(*running, outcome);
  }
  if (end.code == HVD_OK && running->ask.ragged()) {
    if (end.code == outcome.code) compare_results(*running, outcome);
    const End released = calls_->release(running->handle);
    if (released.code != HVD_OK) complain("releasing " + running->text() + in_words(released));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  ++operations_;
  if (outcome.code != HVD_OK) ++failures_;
}

// Memory of the program: what has to be in it, and that all else is as it was.
void Player::compare(const Running& running, const Outcome& outcome) {
  for (size_t i = 0; i < running.ask.pieces.size(); ++i) {
    const std::string which = running.text() + ", tensor " + std::to_string(i);
    const Buffer& in = running.in[i];
    const Buffer& out = running.out[i];
    const bool result = outcome.code == HVD_OK && !running.ask.ragged();
    const std::vector<char>& before = running.before[i];
    if (!in.surroundings_are_untouched() || !out.surroundings_are_untouched()) {
      complain(which + ": memory around it was written to");
    }
    if (!(result && running.in_place) && !before.empty() &&
        memcmp(in.data(), before.data(), before.size()) != 0) {
      complain(which + ": its input was written to");
    }
    if (!result) {
      if (!out.is_untouched()) complain(which + ": its output was written to");
      continue;
    }
    const char* data = running.in_place ? in.data() : out.data();
    const Piece& piece = outcome.pieces[i];
    if (!same_numbers(piece.type, data, outcome.bytes[i].data(), piece.elements())) {
      complain(which + " has a wrong result");
    }
  }
}

// Memory that belongs to the handle.
void Player::compare_results(const Running& running, const Outcome& outcome) {
  for (size_t i = 0; i < outcome.pieces.size(); ++i) {
    const std::string which = running.text() + ", tensor " + std::to_string(i);
    hvd_tensor tensor = {};
    const End end = calls_->result(running.handle, static_cast<int>(i), &tensor);
    if (end.code != HVD_OK) {
      complain(which + " has no result: " + in_words(end));
      continue;
    }
    const Piece& piece = outcome.pieces[i];
    const std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.ndim);
    if (tensor.type != piece.type || shape != piece.shape) {
      complain(which + " has another shape or type");
    } else if (!same_numbers(piece.type, static_cast<const char*>(tensor.data),
                             outcome.bytes[i].data(), elements_of(tensor))) {
      complain(which + " has a wrong result");
    }
  }
  if (running.call.received != nullptr && running.ask.kind == Kind::kAlltoall &&
      running.received != outcome.received) {
    complain(running.text() + " says wrong numbers of rows");
  }
}

int64_t Player::join(int32_t* last) {
  Call call;
  call.what = Call::What::kJoin;
  call.number = last;
  return start(call, "join");
}

// The smallest and the largest of what the ranks were told is what this one was.
void Player::agree_about_last(int32_t last) {
  if (last < 0 || last >= ranks_) complain("rank " + std::to_string(last) + " joined last");
  int32_t both[2] = {last, -last};
  const int64_t two = 2;
  Call call;
  call.name = "last";
  call.ask.kind = Kind::kAllreduce;
  call.ask.op = HVD_MIN;
  call.inputs = {{both, &two, 1, HVD_INT32, HVD_HOST}};
  call.outputs = {both};
  const End end = wait(start(call, "last"), "allreduce \"last\"");
  if (end.code != HVD_OK) complain("comparing who joined last: " + in_words(end));
  if (both[0] != last || both[1] != -last) {
    complain("rank " + std::to_string(last) + " joined last, but others were told of " +
             std::to_string(both[0]) + " and " + std::to_string(-both[1]));
  }
}

void Player::compare_sets() {
  if (calls_->sets() != mix_.sets()) complain("there are other process sets than there should be");
  for (int set : mix_.sets()) {
    if (calls_->ranks_of(set) != mix_.ranks_of(set)) {
      complain("process set " + std::to_string(set) + " has other ranks");
    }
  }
}

}  // namespace hvd::test
