// SPDX-License-Identifier: Apache-2.0
//
// See engine.h. The order in this file is the order of an operation's life.
#include "libhvd/engine/engine.h"

#include <sched.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace hvd {
namespace {

size_t page_align(size_t n) { return (n + 4095) / 4096 * 4096; }

// While messages between nodes are under way nothing rings a doorbell for them.
constexpr int64_t kPollNs = 100 * 1000;
// When none is, the last bytes of one may still wait for room in a socket (Stream::flush), soon
// after a batch in all likelihood, later hardly ever: [after so long] look again in so long.
constexpr int64_t kFlushSoonNs = 10 * 1000000LL;
constexpr int64_t kFlushLaterNs = 1000 * 1000000LL;
constexpr int64_t kFlushSoonEveryNs = 200 * 1000;
constexpr int64_t kFlushLaterEveryNs = 5 * 1000000LL;
constexpr int64_t kFlushRarelyEveryNs = 50 * 1000000LL;
// While a ring of the board is full.
constexpr int64_t kBacklogNs = 1000 * 1000;
// While there is no sleep in which hvd-info would be heard.
constexpr int64_t kAnswerEveryNs = 100 * 1000000LL;
// What a broken message between nodes waits for the line about the rank that died.
constexpr int64_t kNewsPatienceNs = 1000 * 1000000LL;

void publish_cpus(Board* board) {
  cpu_set_t set;
  uint64_t cpus[16] = {};
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) cpus[cpu / 64] |= uint64_t{1} << (cpu % 64);
    }
  }
  board->set_cpus(cpus);
}

}  // namespace

size_t Engine::node_bytes(int local_size, size_t block_bytes, int slots) {
  return page_align(Board::bytes(local_size)) + Stream::bytes(local_size, block_bytes, slots);
}

Engine::Engine(Parts parts)
    : parts_(std::move(parts)),
      board_(parts_.node->base(), parts_.node->local_size(), parts_.node->local_rank(),
             [this](int local_rank) { parts_.node->ring(local_rank); }),
      stream_(
          parts_.geometry,
          parts_.node->base() + page_align(Board::bytes(parts_.node->local_size())),
          parts_.channel.get(), [this] { board_.rouse(); },
          [this](int local_rank) { board_.wake(local_rank); }),
      tracing_(parts_.timeline, parts_.rank),
      sets_(parts_.layout, parts_.rank) {
  publish_cpus(&board_);
  fate_ = std::make_unique<Fate>(parts_.layout, parts_.rank, parts_.hosts, &board_,
                                 parts_.stderr_fd, fate_events());
  control_ = std::make_unique<Control>(parts_.layout, parts_.rank, &board_, parts_.wire.get(),
                                       parts_.limits, control_events());
  Driver::Work work;
  work.progress = [this] { return progress(); };
  work.sleep = [this](Deadline deadline) { sleep(deadline); };
  work.interrupt = [this] { parts_.node->ring(parts_.node->local_rank()); };
  work.may_spin = [this] { return board_.cpu_count() >= parts_.node->local_size(); };
  work.busy = [this] { return !stream_.idle(); };
  driver_ = std::make_unique<Driver>(std::move(work));
}

Engine::~Engine() { driver_->stop(); }

Expected<int64_t> Engine::submit(OperationPtr operation) {
  if (!open()) return error(Code::kState, "hvd_init has not been called, or hvd_shutdown has");
  if (failed()) return failure_;
  operation->encoded = operation->description.encode();
  operation->submitted_ns = now_ns();
  if (Status s = table_.add(operation); !s.ok()) return s;
  board_.wake(parts_.node->local_rank());
  return operation->handle;
}

bool Engine::progress() {
  try {
    return look();
  } catch (const std::exception& e) {
    // Out of memory, in all likelihood. Not a rank's death, but nothing can go on here.
    fail_everything(Status(Code::kSystem, e.what()));
    return true;
  }
}

bool Engine::look() {
  const int64_t now = now_ns();
  if (now >= next_answer_ns_) answer_inspector(now);
  if (failed()) {
    const bool ran = run_tasks();
    if (!table_.has_added()) return ran;
    fail_everything(failure_);
    return true;
  }
  bool moved = run_tasks();
  moved |= take_added();
  moved |= control_->progress(finished_batches_, now);
  moved |= take_entries();
  moved |= move_stream(now);
  moved |= fate_->check_suspicion(now);
  if (stalls_watched() && now >= next_stall_check_ns_) check_stalls(now);
  if (now > channel_error_due_ns_) {
    fail_everything(channel_error_);
    moved = true;
  }
  std::string line;
  if (board_.told(&line)) {
    // Somebody on this node knows of a death: as the leader, pass it on.
    if (!std::exchange(spread_, true)) control_->spread_news(line, -1);
    fail_everything(Status(Code::kPeerLost, line));
    moved = true;
  }
  return moved;
}

bool Engine::take_added() {
  if (!table_.has_added()) return false;
  for (OperationPtr& operation : table_.take_added()) {
    if (Status s = reason_not_to_run(); !s.ok()) {
      end(operation, s);
    } else if (sets_.find(operation->key.set) == nullptr) {
      end(operation, set_is_gone(operation->key.set));
    } else if (operation->description.kind == OpKind::kJoin) {
      tracing_.submitted(*operation);
      join_ = operation;
      Report report;
      report.kind = Report::Kind::kJoin;
      report.rank = parts_.rank;
      control_->say(std::move(report));
    } else {
      tracing_.submitted(*operation);
      waiting_[operation->key] = operation;
      control_->announce(operation->key, operation->encoded);
    }
  }
  return true;
}

Status Engine::reason_not_to_run() const {
  if (!open()) return Status(Code::kShutDown, "shut down");
  return stopped_;
}

bool Engine::take_entries() {
  bool moved = false;
  for (Entry entry; !failed() && control_->next_entry(&entry); moved = true) apply(entry);
  return moved;
}

void Engine::apply(const Entry& entry) {
  switch (entry.kind) {
    case Entry::Kind::kBatch:
      tracing_.cycle();
      start_batch(entry);
      return;
    case Entry::Kind::kFail: {
      auto it = waiting_.find(entry.key);
      if (it == waiting_.end()) return;
      const OperationPtr operation = it->second;
      waiting_.erase(it);
      end(operation, Status(Code::kMismatch, entry.text));
      return;
    }
    case Entry::Kind::kJoined:
      finish_join(entry.rank);
      return;
    case Entry::Kind::kAsk:
      answer(entry);
      return;
    case Entry::Kind::kStop:
      fail_everything(Status(Code::kStalled, entry.text));
      return;
    case Entry::Kind::kLeft:
      stopped_ = Status(Code::kShutDown, fate_->rank_on_host(entry.rank) + " has shut down");
      somebody_left_.store(true);
      fail_waiting(entry.rank == parts_.rank ? Status(Code::kShutDown, "shut down") : stopped_);
      return;
    case Entry::Kind::kEpochEnd:
      fail_waiting(Status(Code::kShutDown, "shut down"));
      stopped_ = ok_status();
      sets_.begin_epoch();
      somebody_left_.store(false);
      epoch_.fetch_add(1);
      return;
    case Entry::Kind::kFinalize:
      finalize_.store(true);
      return;
    case Entry::Kind::kGranted:
      granted_.store(true);
      return;
    case Entry::Kind::kDefine:
    case Entry::Kind::kEvict:
    case Entry::Kind::kNews:
    case Entry::Kind::kPresence:
      return;
  }
}

bool Engine::move_stream(int64_t now) {
  bool moved = false;
  if (stream_.must_poll()) {
    last_message_ns_ = now;
    next_flush_ns_ = now;
  } else if (parts_.channel != nullptr && now >= next_flush_ns_) {
    Status flushed = stream_.flush();
    if (!flushed.ok()) note_channel_error(flushed);
    const int64_t since = now - last_message_ns_;
    next_flush_ns_ = now + (since < kFlushSoonNs    ? kFlushSoonEveryNs
                            : since < kFlushLaterNs ? kFlushLaterEveryNs
                                                    : kFlushRarelyEveryNs);
  }
  Status s = stream_.step(&moved, [this](const Batch& batch) {
    trace_begun();
    for (const Segment& segment : batch.segments()) finish_segment(segment, batch.times());
    if (--runs_left_.front() > 0) return;
    runs_left_.pop_front();
    ++finished_batches_;
  });
  if (!watched_.empty()) trace_begun();
  if (!s.ok()) {
    note_channel_error(s);
    moved = true;
  }
  return moved;
}

// Most likely a rank died: the line about it is on its way, and says more than this.
void Engine::note_channel_error(const Status& status) {
  if (channel_error_.ok()) {
    channel_error_ = status;
    channel_error_due_ns_ = now_ns() + kNewsPatienceNs;
  }
  stream_.abandon();
}

bool Engine::poll(int64_t handle) {
  const OperationPtr operation = table_.find(handle);
  return operation == nullptr || operation->done.load();
}

Status Engine::wait(int64_t handle, int64_t timeout_ms) {
  const OperationPtr operation = table_.find(handle);
  if (operation == nullptr) {
    return error(Code::kInvalid, "there is no handle %lld; was it waited for before?",
                 static_cast<long long>(handle));
  }
  const Deadline deadline = timeout_ms < 0 ? Deadline::never() : Deadline::after_ms(timeout_ms);
  if (!operation->done.load()) {
    note_wait(operation, true);
    const bool done = driver_->drive_until([&] { return operation->done.load(); }, deadline);
    note_wait(operation, false);
    if (!done) {
      return error(Code::kTimeout, "%s is not done after %lld ms", operation->text().c_str(),
                   static_cast<long long>(timeout_ms));
    }
  }
  if (!operation->status.ok() || !operation->has_result()) table_.release(handle);
  return operation->status;
}

void Engine::answer_inspector(int64_t now) {
  next_answer_ns_ = now + kAnswerEveryNs;
  if (parts_.inspector == nullptr) return;
  try {
    parts_.inspector->serve(now, [this] { return describe(); });
  } catch (const std::exception&) {
    // No memory to describe oneself is no reason to end a job: who asked gets no answer.
  }
}

// Sleeps in the one place. Whoever publishes something rings the ranks that have said they sleep;
// what was published before that is found by looking once more.
void Engine::sleep(Deadline deadline) {
  board_.sleep_begin();
  if (progress()) {
    board_.sleep_end();
    return;
  }
  const int64_t now = now_ns();
  std::vector<pollfd> fds;
  parts_.node->add_poll_fds(&fds);
  if (parts_.wire != nullptr && !failed()) parts_.wire->add_poll_fds(&fds);
  const size_t peers_end = fds.size();
  int64_t due =
      std::min({deadline.at_ns(), control_->due_ns(), fate_->due_ns(), channel_error_due_ns_});
  if (parts_.inspector != nullptr) {
    due = std::min(due, parts_.inspector->add_poll_fd(&fds, now));
  }
  if (!failed() && stream_.must_poll()) due = std::min(due, now + kPollNs);
  if (!failed() && parts_.channel != nullptr) due = std::min(due, next_flush_ns_);
  if (!failed() && stalls_watched() && !waiting_.empty()) due = std::min(due, next_stall_check_ns_);
  if (!failed() && control_->backlog()) due = std::min(due, now + kBacklogNs);
  timespec left{};
  timespec* timeout = nullptr;
  if (due != INT64_MAX) {
    const int64_t ns = std::max<int64_t>(0, due - now_ns());
    left = {ns / 1000000000, ns % 1000000000};
    timeout = &left;
  }
  const int ready = ppoll(fds.data(), fds.size(), timeout, nullptr);
  board_.sleep_end();
  const bool asked = fds.size() > peers_end && fds.back().revents != 0;
  if (asked) {
    answer_inspector(now_ns());
  } else {
    next_answer_ns_ = now_ns() + kAnswerEveryNs;  // nobody has asked: ppoll has just looked
  }
  if (ready <= 0) return;
  if (fds[0].revents != 0) parts_.node->hush();
  const int mine = (fds[0].revents != 0 ? 1 : 0) + (asked ? 1 : 0);
  if (ready > mine) {
    parts_.node->check_peers(
        [this](int local_rank, const char* why) { fate_->local_gone(local_rank, why); });
  }
}

}  // namespace hvd
