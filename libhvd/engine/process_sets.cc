// SPDX-License-Identifier: Apache-2.0
//
// See process_sets.h.
#include "libhvd/engine/process_sets.h"

#include <numeric>

namespace hvd {

ProcessSets::ProcessSets(const Layout& layout, int rank) : layout_(layout), rank_(rank) {
  std::vector<int> all(static_cast<size_t>(layout.size));
  std::iota(all.begin(), all.end(), 0);
  teams_[0] = std::make_shared<const Team>(Team::of(layout, rank, all));
}

std::shared_ptr<const Team> ProcessSets::find(int32_t id) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = teams_.find(id);
  return it == teams_.end() ? nullptr : it->second;
}

std::vector<int32_t> ProcessSets::ids() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<int32_t> ids;
  for (const auto& [id, team] : teams_) ids.push_back(id);
  return ids;
}

int32_t ProcessSets::add(const std::vector<int32_t>& ranks) {
  auto team = std::make_shared<const Team>(
      Team::of(layout_, rank_, std::vector<int>(ranks.begin(), ranks.end())));
  std::lock_guard<std::mutex> lock(mutex_);
  teams_[next_] = std::move(team);
  return next_++;
}

void ProcessSets::remove(int32_t id) {
  std::lock_guard<std::mutex> lock(mutex_);
  teams_.erase(id);
}

void ProcessSets::begin_epoch() {
  std::lock_guard<std::mutex> lock(mutex_);
  teams_.erase(teams_.upper_bound(0), teams_.end());
  next_ = 1;
}

}  // namespace hvd
