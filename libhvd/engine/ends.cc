// SPDX-License-Identifier: Apache-2.0
//
// How an engine ends: deaths of others, shutdown and the next epoch, and the end of the process.
#include <memory>
#include <utility>

#include "libhvd/control/tree.h"
#include "libhvd/engine/engine.h"

namespace hvd {
namespace {

// What is left to say at an end has so long to be sent.
constexpr int64_t kSendMs = 1000;

Report word(Report::Kind kind, int rank) {
  Report report;
  report.kind = kind;
  report.rank = rank;
  return report;
}

}  // namespace

Fate::Events Engine::fate_events() {
  Fate::Events events;
  events.tell_neighbours = [this](const std::string& line) {
    spread_ = true;
    if (control_->leader()) {
      control_->spread_news(line, -1);
      return;
    }
    // Only a rank whose leader is dead gets here: the leader sees all other deaths of the node.
    const int node = parts_.layout.node_of[static_cast<size_t>(parts_.rank)];
    std::vector<int> neighbours = tree_children(node, parts_.layout.nodes());
    if (node != 0) neighbours.push_back(tree_parent(node));
    for (int neighbour : neighbours) parts_.bring_news(neighbour, line);
  };
  events.leader_left = [this](const std::string& why) {
    // Its last words may have come since we looked: what it had scheduled is done all the same.
    take_entries();
    stopped_ = Status(Code::kShutDown, why);
    control_lost_.store(true);
    fail_waiting(stopped_);
  };
  events.rank_left = [this](int local_rank) { control_->local_rank_left(local_rank); };
  return events;
}

Control::Events Engine::control_events() {
  Control::Events events;
  events.news = [this](const std::string& line) {
    spread_ = true;
    fate_->news(line);
  };
  events.closed = [this](int node, const std::string& why, bool in_order) {
    fate_->neighbour_gone(node, why, in_order || granted_.load() || finalize_.load());
  };
  events.broken = [this](int rank, const char* what) { fate_->broken(rank, what); };
  events.stalled = [this](const Stall& stall) { tell_stall(stall); };
  return events;
}

void Engine::fail_waiting(const Status& status) {
  for (auto& [key, operation] : waiting_) end(operation, status);
  waiting_.clear();
  if (join_ != nullptr) end(std::exchange(join_, nullptr), status);
}

void Engine::fail_everything(const Status& status) {
  if (!failed()) {
    failure_ = status;
    stream_.abandon();
    failed_.store(true);
  }
  for (OperationPtr& operation : table_.take_added()) end(operation, status);
  fail_waiting(status);
  for (auto& [handle, operation] : running_) end(operation, status);
  running_.clear();
  running_count_.store(0);
}

void Engine::later(std::function<void()> task) {
  {
    std::lock_guard<std::mutex> lock(tasks_mutex_);
    tasks_.push_back(std::move(task));
    has_tasks_.store(true, std::memory_order_seq_cst);
  }
  board_.wake(parts_.node->local_rank());
}

bool Engine::run_tasks() {
  if (!has_tasks_.load(std::memory_order_seq_cst)) return false;
  std::vector<std::function<void()>> tasks;
  {
    std::lock_guard<std::mutex> lock(tasks_mutex_);
    tasks.swap(tasks_);
    has_tasks_.store(false, std::memory_order_seq_cst);
  }
  for (auto& task : tasks) task();
  return true;
}

// True once the thread that drives has run the task; the task owns what it needs.
bool Engine::run_on_driver(std::function<void()> task, Deadline deadline) {
  auto ran = std::make_shared<std::atomic<bool>>(false);
  later([task = std::move(task), ran] {
    task();
    ran->store(true);
  });
  return driver_->drive_until([ran] { return ran->load(); }, deadline);
}

Status Engine::await(const std::function<bool()>& done, Deadline deadline,
                     const std::string& what) {
  const bool reached =
      driver_->drive_until([&] { return done() || failed() || control_lost_.load(); }, deadline);
  if (failed()) return failure_;
  if (done()) return ok_status();
  if (reached) return Status(Code::kShutDown, what + ": a rank has left the job for good");
  return Status(Code::kTimeout, what);
}

// Ranks of this node, and leaders of the neighbour nodes, that have connected and said nothing
// since; empty also if the own leader is there to find them.
std::string Engine::late_ranks() const {
  std::vector<int> ranks;
  if (!control_->leader() && board_.has_started(0)) return "";
  const int node = parts_.layout.node_of[static_cast<size_t>(parts_.rank)];
  for (int i = 0; i < parts_.node->local_size(); ++i) {
    if (!board_.has_started(i)) {
      ranks.push_back(parts_.layout.ranks[node][static_cast<size_t>(i)]);
    }
  }
  for (const int neighbour : control_->silent_neighbours()) {
    ranks.push_back(parts_.layout.leader(neighbour));
  }
  std::string who;
  for (const int rank : ranks) who += (who.empty() ? "" : ", ") + fate_->rank_on_host(rank);
  return who;
}

Status Engine::meet(Deadline deadline) {
  Description description;
  description.kind = OpKind::kBarrier;
  board_.set_started();
  say_presence(Board::Presence::kHere);
  auto barrier = std::make_shared<Operation>();
  barrier->key.name = "horovod.start";
  barrier->description = description;
  Expected<int64_t> handle = submit(barrier);
  if (!handle.ok()) return handle.status();
  const OperationPtr operation = table_.find(*handle);
  const auto done = [&] { return operation->done.load(); };
  if (!driver_->drive_until(done, deadline)) {
    run_on_driver(
        [this] {
          const std::string who = late_ranks();
          if (!who.empty()) fate_->call_off(who + " did not come to the start in time");
        },
        Deadline::after_ms(kSendMs));
    if (!driver_->drive_until(done, Deadline::after_ms(kSendMs))) {
      return Status(Code::kTimeout, fate_->rank_on_host(parts_.layout.leader(0)) +
                                        " has not heard from all ranks in time");
    }
  }
  table_.release(*handle);
  const Status& status = operation->status;
  if (status.code() != Code::kPeerLost || Fate::is_about_a_death(status.text())) return status;
  return Status(Code::kTimeout, status.text());
}

void Engine::call_off(const NodeLink& node, const std::string& line) {
  Board board(node.base(), node.local_size(), node.local_rank(),
              [&](int local_rank) { node.ring(local_rank); });
  if (!board.claim_news()) return;
  board.tell(line);
  board.ring_all();
}

void Engine::set_channel(std::unique_ptr<Channel> channel) {
  auto held = std::make_shared<std::unique_ptr<Channel>>(std::move(channel));
  run_on_driver(
      [this, held] {
        parts_.channel = std::move(*held);
        stream_.set_channel(parts_.channel.get());
      },
      Deadline::never());
}

Engine::Sizes Engine::sizes() {
  auto sizes = std::make_shared<Sizes>();
  run_on_driver(
      [this, sizes] {
        sizes->operations = table_.held();
        sizes->sets = sets_.ids().size();
        sizes->control = control_->sizes();
      },
      Deadline::never());
  return *sizes;
}

void Engine::close_channel() {
  run_on_driver(
      [this] {
        stream_.set_channel(nullptr);
        if (parts_.channel) closed_channel_ = std::move(parts_.channel);
      },
      Deadline::never());
}

void Engine::say_presence(Board::Presence presence) {
  board_.set_presence(presence);
  if (!control_->leader() || parts_.wire == nullptr) return;
  const bool may_vanish = presence != Board::Presence::kHere;
  later([this, may_vanish] {
    if (!failed()) control_->say_presence(may_vanish);
  });
}

void Engine::at_end() {
  say_presence(Board::Presence::kAtEnd);
  if (!control_->leader() || parts_.wire == nullptr) return;
  auto sent = std::make_shared<std::atomic<bool>>(false);
  const Deadline deadline = Deadline::after_ms(kSendMs);
  while (!sent->load() && !failed() && !deadline.passed()) {
    if (!run_on_driver([this, sent] { sent->store(control_->sent()); }, deadline)) return;
  }
}

// Batches that the root has scheduled before it hears of this still run, on all ranks; behind its
// answer (kLeft) comes none. So no memory of the user is touched after this returns.
Status Engine::shutdown(Deadline deadline) {
  if (!open_.exchange(false)) return ok_status();
  closed_epoch_ = epoch_.load();
  later([this] {
    control_->say(word(Report::Kind::kGoodbye, parts_.rank));
    control_->say(word(Report::Kind::kAllGone, parts_.rank));
  });
  const auto quiet = [this] {
    return failed() ||
           (running_count_.load() == 0 &&
            (somebody_left_.load() || epoch_.load() > closed_epoch_ || control_lost_.load()));
  };
  const bool in_time = driver_->drive_until(quiet, deadline);
  const bool drained = run_on_driver(
      [this, in_time] {
        const Status shut_down(Code::kShutDown, "shut down");
        if (failed()) return;
        if (!in_time || running_count_.load() > 0) {
          fail_everything(shut_down);
        } else {
          take_added();
          fail_waiting(shut_down);
        }
      },
      Deadline::after_ms(kSendMs));
  say_presence(Board::Presence::kClosed);
  if (in_time && drained) return ok_status();
  return error(Code::kTimeout, "shutting down: no answer from %s",
               fate_->rank_on_host(parts_.layout.leader(0)).c_str());
}

Status Engine::reopen(Deadline deadline) {
  Status s = await([this] { return epoch_.load() > closed_epoch_; }, deadline, "");
  if (s.code() == Code::kTimeout) {
    std::string who;
    const int node = parts_.layout.node_of[static_cast<size_t>(parts_.rank)];
    for (int i = 0; i < parts_.node->local_size(); ++i) {
      if (board_.presence(i) != Board::Presence::kHere) continue;
      who += (who.empty() ? "" : ", ") +
             fate_->rank_on_host(parts_.layout.ranks[node][static_cast<size_t>(i)]);
    }
    if (who.empty()) who = "a rank of another node";
    return error(Code::kTimeout, "initialising again: %s has not shut down", who.c_str());
  }
  if (!s.ok()) {
    // A rank died, or the leader has left for good: say which.
    return (failed() ? failure_ : stopped_).annotate("initialising again");
  }
  table_.begin_epoch();
  say_presence(Board::Presence::kHere);
  opened_ns_.store(now_ns());
  open_.store(true);
  return ok_status();
}

Engine::Way Engine::leave(Deadline ask, Deadline give_up) {
  later([this] { control_->say(word(Report::Kind::kBye, parts_.rank)); });
  const auto told = [this] { return finalize_.load() || granted_.load(); };
  if (await(told, ask, "").code() == Code::kTimeout) {
    later([this] { control_->say(word(Report::Kind::kLeave, parts_.rank)); });
    static_cast<void>(await(told, give_up, ""));
  }
  return finalize_.load() && !failed() ? Way::kFinalize : Way::kLeave;
}

}  // namespace hvd
