// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "spank/assign.h"
#include "spank/bind_parts.h"

namespace hvd {
namespace {

using Cores = std::vector<int>;  // ascending

Cores common(const Cores& a, const Cores& b) {
  Cores both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

Cores without(const Cores& a, const Cores& b) {
  Cores rest;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(rest));
  return rest;
}

Cores both_of(const Cores& a, const Cores& b) {
  Cores all;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

// Ranks of one locality, and the narrower ones within it.
struct Group {
  Cores cores;
  std::vector<size_t> ranks;
  std::vector<size_t> children;
  size_t ranks_within = 0;  // of its own and of its children
  bool is_child = false;
};

class Dealer {
 public:
  Dealer(const Topology& topology, const CpuSet& allowed, const std::vector<const Place*>& places)
      : topology_(topology), allowed_(allowed), places_(places), dealt_(places.size()) {
    std::map<Cores, std::vector<size_t>> ranks_of;
    for (size_t rank = 0; rank < places.size(); ++rank) {
      ranks_of[cores_near(topology, allowed, places[rank])].push_back(rank);
    }
    for (auto& [cores, ranks] : ranks_of) groups_.push_back({cores, ranks, {}, ranks.size()});
    std::stable_sort(groups_.begin(), groups_.end(), [](const Group& a, const Group& b) {
      return a.cores.size() < b.cores.size();
    });
    for (size_t i = 0; i < groups_.size(); ++i) adopt(i);
  }

  std::vector<CpuSet> deal() {
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (!groups_[i].is_child) share(groups_[i], groups_[i].cores);
    }
    return std::move(dealt_);
  }

 private:
  // Under the smallest group that holds it: they are sorted by size, so it is complete by then.
  void adopt(size_t child) {
    const Cores& cores = groups_[child].cores;
    for (size_t i = child + 1; i < groups_.size(); ++i) {
      Group& parent = groups_[i];
      if (!std::includes(parent.cores.begin(), parent.cores.end(), cores.begin(), cores.end())) {
        continue;
      }
      parent.children.push_back(child);
      parent.ranks_within += groups_[child].ranks_within;
      groups_[child].is_child = true;
      return;
    }
  }

  // `free` are the cores of the group that the groups around it leave to it.
  void share(const Group& group, const Cores& free) {
    const size_t even = group.ranks_within == 0 ? 0 : free.size() / group.ranks_within;
    Cores rest = free;
    for (const size_t i : group.children) {
      const Group& child = groups_[i];
      Cores its = common(rest, child.cores);
      if (!group.ranks.empty()) its = fair_part(child, its, std::max<size_t>(even, 1));
      // Others have all that it could have: that is hwloc's hierarchy upside down.
      share(child, its.empty() ? child.cores : its);
      rest = without(rest, its);
    }
    if (!group.ranks.empty()) share_evenly(group.ranks, rest.empty() ? free : rest);
  }

  // `even` cores of `free` for each rank within, or all if they are fewer; each group within has
  // its own fair part among them.
  Cores fair_part(const Group& group, const Cores& free, size_t even) const {
    const size_t fair = group.ranks_within * even;
    if (free.size() <= fair) return free;
    Cores part;
    Cores outside = free;
    for (const size_t i : group.children) {
      const Cores its = fair_part(groups_[i], common(free, groups_[i].cores), even);
      part = both_of(part, its);
      outside = without(outside, groups_[i].cores);
    }
    for (const Cores& more : {without(outside, part), without(without(free, outside), part)}) {
      const size_t room = fair - std::min(fair, part.size());
      part = both_of(part, Cores(more.begin(), more.begin() + static_cast<std::ptrdiff_t>(
                                                                  std::min(room, more.size()))));
    }
    return part;
  }

  void share_evenly(const std::vector<size_t>& ranks, const Cores& cores) {
    const size_t n = ranks.size();
    if (cores.size() < n) {
      for (const size_t rank : ranks) dealt_[rank] = cpus_of(cores);
      return;
    }
    std::vector<CpuSet> runs;
    for (size_t i = 0; i < n; ++i) {
      const auto at = [&](size_t k) {
        return cores.begin() + static_cast<std::ptrdiff_t>((k * cores.size() + n - 1) / n);
      };
      runs.push_back(cpus_of(Cores(at(i), at(i + 1))));
    }
    std::vector<std::vector<int64_t>> cost(n);
    for (size_t i = 0; i < n; ++i) {
      const Place* place = places_[ranks[i]];
      for (const CpuSet& run : runs) {
        cost[i].push_back(place == nullptr ? 0 : distance(topology_, *place, run));
      }
    }
    const std::vector<int> chosen = assign(cost);
    for (size_t i = 0; i < n; ++i) dealt_[ranks[i]] = runs[static_cast<size_t>(chosen[i])];
  }

  CpuSet cpus_of(const Cores& cores) const {
    CpuSet cpus;
    for (const int core : cores) cpus |= topology_.cores[static_cast<size_t>(core)].cpus;
    return cpus & allowed_;
  }

  const Topology& topology_;
  const CpuSet& allowed_;
  const std::vector<const Place*>& places_;
  std::vector<Group> groups_;
  std::vector<CpuSet> dealt_;
};

Cores cores_in(const Topology& topology, const CpuSet& cpus) {
  Cores cores;
  for (size_t i = 0; i < topology.cores.size(); ++i) {
    if (topology.cores[i].cpus.meets(cpus)) cores.push_back(static_cast<int>(i));
  }
  return cores;
}

}  // namespace

std::vector<int> cores_near(const Topology& topology, const CpuSet& allowed, const Place* place) {
  if (place != nullptr) {
    const CpuSet& near =
        place->numa < 0 ? place->cpus : topology.numas[static_cast<size_t>(place->numa)].cpus;
    Cores cores = cores_in(topology, near & allowed);
    if (cores.empty() && place->package >= 0) {
      const Package& package = topology.packages[static_cast<size_t>(place->package)];
      cores = cores_in(topology, package.cpus & allowed);
    }
    if (!cores.empty()) return cores;
  }
  return cores_in(topology, allowed);
}

std::vector<CpuSet> deal_cores(const Topology& topology, const CpuSet& allowed,
                               const std::vector<const Place*>& places) {
  if (!topology.cpus().meets(allowed)) return {};
  return Dealer(topology, allowed, places).deal();
}

}  // namespace hvd
