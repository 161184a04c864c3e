// SPDX-License-Identifier: Apache-2.0
//
// How an engine ends: deaths of others, shutdown and the next epoch, and the end of the process.
#include "libhvd/control/tree.h"
#include "libhvd/engine/engine.h"

namespace hvd {
namespace {

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
  events.closed = [this](int node, const std::string& why) {
    fate_->neighbour_gone(node, why, granted_.load() || finalize_.load());
  };
  events.broken = [this](int rank, const char* what) { fate_->broken(rank, what); };
  return events;
}

void Engine::fail_waiting(const Status& status) {
  for (auto& [name, operation] : waiting_) {
    control_->settle(name);
    table_.finish(operation.get(), status);
  }
  waiting_.clear();
}

void Engine::fail_everything(const Status& status) {
  if (!failed()) {
    failure_ = status;
    stream_.abandon();
    failed_.store(true);
  }
  for (OperationPtr& operation : table_.take_added()) table_.finish(operation.get(), status);
  for (auto& [name, operation] : waiting_) table_.finish(operation.get(), status);
  for (auto& [handle, operation] : running_) table_.finish(operation.get(), status);
  waiting_.clear();
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

Status Engine::await(const std::function<bool()>& done, Deadline deadline,
                     const std::string& what) {
  const bool reached =
      driver_->drive_until([&] { return done() || failed() || control_lost_.load(); }, deadline);
  if (failed()) return failure_;
  if (done()) return ok_status();
  if (reached) return Status(Code::kShutDown, what + ": a rank has left the job for good");
  return Status(Code::kTimeout, what);
}

// Batches that the root has scheduled before it hears of this still run, on all ranks; behind its
// answer (kLeft) comes none. So no memory of the user is touched after this returns.
Status Engine::shutdown(Deadline deadline) {
  if (!open_.exchange(false)) return ok_status();
  closed_epoch_ = epoch_.load();
  board_.set_closed(closed_epoch_ + 1);
  later([this] {
    control_->say(word(Report::Kind::kGoodbye, parts_.rank));
    control_->say(word(Report::Kind::kAllGone, parts_.rank));
  });
  Status s = await(
      [this] {
        return running_count_.load() == 0 &&
               (somebody_left_.load() || epoch_.load() > closed_epoch_);
      },
      deadline, "shutting down: no answer from " + fate_->rank_on_host(parts_.layout.leader(0)));
  std::atomic<bool> drained{false};
  later([this, &s, &drained] {
    const Status shut_down(Code::kShutDown, "shut down");
    if (s.code() == Code::kTimeout) {
      fail_everything(shut_down);
    } else if (!failed()) {
      take_added();
      fail_waiting(shut_down);
    }
    drained.store(true);
  });
  driver_->drive_until([&] { return drained.load(); }, Deadline::never());
  return s.code() == Code::kTimeout ? s : ok_status();
}

Status Engine::reopen(Deadline deadline) {
  Status s = await([this] { return epoch_.load() > closed_epoch_; }, deadline, "");
  if (s.code() == Code::kPeerLost) return s;
  if (!s.ok()) {
    std::string who;
    const int node = parts_.layout.node_of[static_cast<size_t>(parts_.rank)];
    for (int i = 0; i < parts_.node->local_size(); ++i) {
      if (board_.closed(i) > closed_epoch_) continue;
      who += (who.empty() ? "" : ", ") +
             fate_->rank_on_host(parts_.layout.ranks[node][static_cast<size_t>(i)]);
    }
    if (who.empty()) who = "a rank of another node";
    return error(s.code(), "initialising again: %s has not shut down", who.c_str());
  }
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
