// SPDX-License-Identifier: Apache-2.0
//
// The engine's part of the stall watch: a rank says which of its operations have waited for long,
// and answers the root's questions; see control/stall_watch.h for the root's part.
#include <algorithm>

#include "libhvd/engine/engine.h"

namespace hvd {
namespace {

constexpr double kNsPerSecond = 1e9;
// Ages are looked at so often, in parts of the shorter limit, and at least once a second.
constexpr int64_t kLooksPerLimit = 10;
constexpr int64_t kMostBetweenLooksNs = 1000 * 1000000LL;

bool passed(int64_t age, int64_t limit) { return limit > 0 && age >= limit; }

}  // namespace

void Engine::check_stalls(int64_t now) {
  const StallLimits& limits = parts_.stalls;
  int64_t shortest = INT64_MAX;
  for (int64_t limit : {limits.warn_ns, limits.stop_ns}) {
    if (limit > 0) shortest = std::min(shortest, limit);
  }
  next_stall_check_ns_ = now + std::min(shortest / kLooksPerLimit, kMostBetweenLooksNs);
  if (!stopped_.ok()) return;
  for (auto& [key, operation] : waiting_) {
    const int64_t age = now - operation->submitted_ns;
    const bool final = passed(age, limits.stop_ns);
    bool& said = final ? operation->given_up : operation->warned;
    if (said || (!final && !passed(age, limits.warn_ns))) continue;
    said = true;
    Report report;
    report.kind = Report::Kind::kStalled;
    report.key = key;
    report.rank = parts_.rank;
    report.final = final;
    report.text = operation->description.kind_text();
    control_->say(std::move(report));
  }
}

void Engine::answer(const Entry& question) {
  const std::shared_ptr<const Team> team = sets_.find(question.key.set);
  if (team == nullptr || team->index < 0) return;
  Report report;
  report.kind = Report::Kind::kAnswer;
  report.question = question.ticket;
  report.rank = parts_.rank;
  report.submitted = join_ != nullptr || waiting_.count(question.key) > 0;
  if (!report.submitted) report.text = waits_in();
  control_->say(std::move(report));
}

// The first of the operations that a thread of the user waits for.
std::string Engine::waits_in() const {
  std::lock_guard<std::mutex> lock(waits_mutex_);
  return waits_.empty() ? "" : waits_.front()->text();
}

void Engine::note_wait(const OperationPtr& operation, bool begins) {
  std::lock_guard<std::mutex> lock(waits_mutex_);
  if (begins) {
    waits_.push_back(operation);
  } else {
    waits_.erase(std::find(waits_.begin(), waits_.end(), operation));
  }
}

void Engine::tell_stall(const Stall& stall) {
  const int64_t limit = stall.final ? parts_.stalls.stop_ns : parts_.stalls.warn_ns;
  const std::string text = stall_text(stall, static_cast<double>(limit) / kNsPerSecond,
                                      [this](int rank) { return fate_->rank_on_host(rank); });
  if (stall.final) {
    control_->stop(text);
  } else {
    parts_.warn(text);
  }
}

}  // namespace hvd
