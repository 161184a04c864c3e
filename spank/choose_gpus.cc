// SPDX-License-Identifier: Apache-2.0
//
// Which GPU each rank works on, and the list of GPUs that it sees. GPUs are dealt out evenly: none
// has two ranks more than another. First the policy gives every rank its GPUs, then they become a
// list. One list serves all ranks if entry `local rank` (modulo its length, as scripts and libhvd
// count) is right for each of them; that is better than a GPU alone, because programs that call
// set_device(local_rank) work, and peers stay visible for NVLink and CUDA IPC. What Slurm has bound
// is counted in the same way: of a list of several a script takes entry `local rank`.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "spank/assign.h"
#include "spank/bind_parts.h"

namespace hvd {
namespace {

class Chooser {
 public:
  Chooser(const Topology& topology, const BindRequest& request)
      : topology_(topology),
        request_(request),
        ranks_(static_cast<size_t>(request.ranks)),
        order_(request.gpus.size()) {
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) { return key(a) < key(b); });
  }

  // By rank, positions in the list; the first is the one it works on.
  std::vector<std::vector<int>> nearest(size_t each) const {
    return request_.masks.empty() ? near_any_cpu(each) : near_own_cpus(each);
  }

  // One list for all with the nearest of slot `rank % length` there.
  std::vector<int> nearest_list() const {
    const size_t length = order_.size();
    if (ranks_ < length) {
      std::vector<std::vector<int>> first = nearest(1);
      std::vector<int> list;
      for (const auto& gpus : first) list.push_back(gpus[0]);
      return completed(std::move(list));
    }
    if (request_.masks.empty()) return order_;
    std::vector<std::vector<int64_t>> cost(length, std::vector<int64_t>(length, 0));
    for (size_t rank = 0; rank < ranks_; ++rank) {
      for (size_t column = 0; column < length; ++column) {
        cost[rank % length][column] += cost_of(rank, order_[column]);
      }
    }
    std::vector<int> list;
    for (const int column : assign(cost)) list.push_back(order_[static_cast<size_t>(column)]);
    return list;
  }

  // With the GPUs that are not in it, in order.
  std::vector<int> completed(std::vector<int> list) const {
    for (const int position : order_) {
      if (std::find(list.begin(), list.end(), position) == list.end()) list.push_back(position);
    }
    return list;
  }

 private:
  using Key = std::tuple<bool, int, const std::string&>;
  Key key(int position) const {
    const StepGpu& gpu = request_.gpus[static_cast<size_t>(position)];
    return Key(gpu.gpu < 0, gpu.gpu, gpu.token);
  }

  int64_t cost_of(size_t rank, int position) const {
    const Place* place = place_of(topology_, request_, position);
    return place == nullptr ? 0 : distance(topology_, *place, request_.masks[rank]);
  }

  // A row for each GPU that a rank gets. If there are more rows than GPUs, each GPU has as many
  // columns as ranks it has at least, and one that costs more than any answer can.
  std::vector<std::vector<int>> near_own_cpus(size_t each) const {
    const size_t rows = ranks_ * each;
    const size_t least = rows / order_.size();
    const int64_t extra = int64_t{kMostHops} * 1000 * static_cast<int64_t>(rows + 1);
    std::vector<int> columns;
    for (const int position : order_) columns.insert(columns.end(), least + 1, position);
    std::vector<std::vector<int64_t>> cost;
    for (size_t row = 0; row < rows; ++row) {
      cost.emplace_back();
      for (size_t column = 0; column < columns.size(); ++column) {
        const bool is_extra = column % (least + 1) == least;
        cost.back().push_back(cost_of(row / each, columns[column]) + (is_extra ? extra : 0));
      }
    }
    const std::vector<int> chosen = assign(cost);
    std::vector<std::vector<int>> gpus(ranks_);
    for (size_t row = 0; row < rows; ++row) {
      gpus[row / each].push_back(columns[static_cast<size_t>(chosen[row])]);
    }
    for (size_t rank = 0; rank < ranks_; ++rank) {
      std::stable_sort(gpus[rank].begin(), gpus[rank].end(), [&](int a, int b) {
        return std::make_tuple(cost_of(rank, a), key(a)) <
               std::make_tuple(cost_of(rank, b), key(b));
      });
    }
    return gpus;
  }

  // A GPU and the cores that would be dealt out beside it.
  struct Candidate {
    int position;
    int hops = 0;  // to the step's nearest CPU
    std::vector<int> cores;
    int64_t load = 0;  // times that it is taken
  };

  Candidate candidate(int position) const {
    const Place* place = place_of(topology_, request_, position);
    Candidate c{position, 0, cores_near(topology_, request_.cpus, place)};
    if (place == nullptr || c.cores.empty()) return c;
    c.hops = kMostHops;
    for (const int core : c.cores) {
      const CpuSet& cpus = topology_.cores[static_cast<size_t>(core)].cpus;
      c.hops = std::min(c.hops, hops(topology_, *place, cpus.first()));
    }
    return c;
  }

  // Takes GPUs one by one: all once before any twice, near ones first, then those whose cores the
  // fewest ranks share. That is optimal: hops add up, and the crowd grows with each.
  std::vector<std::vector<int>> near_any_cpu(size_t each) const {
    std::vector<Candidate> candidates;
    for (const int position : order_) candidates.push_back(candidate(position));
    const auto crowd = [&](const Candidate& c) {
      int64_t ranks = 1;
      for (const Candidate& other : candidates) {
        if (other.cores == c.cores) ranks += other.load;
      }
      return ranks * 1000000 / static_cast<int64_t>(std::max<size_t>(c.cores.size(), 1));
    };
    for (size_t taken = 0; taken < ranks_ * each; ++taken) {
      const auto best = std::min_element(candidates.begin(), candidates.end(),
                                         [&](const Candidate& a, const Candidate& b) {
                                           return std::make_tuple(a.load, a.hops, crowd(a)) <
                                                  std::make_tuple(b.load, b.hops, crowd(b));
                                         });
      ++best->load;
    }
    std::vector<int> chosen;
    for (const Candidate& c : candidates) {
      chosen.insert(chosen.end(), static_cast<size_t>(c.load), c.position);
    }
    return in_groups(std::move(chosen), each);
  }

  // GPUs of one rank should be neighbours of each other; ranks are in the order of their first.
  std::vector<std::vector<int>> in_groups(std::vector<int> chosen, size_t each) const {
    const auto home = [&](int position) {
      const Place* place = place_of(topology_, request_, position);
      return place == nullptr ? std::make_tuple(-1, -1)
                              : std::make_tuple(place->package, place->numa);
    };
    std::stable_sort(chosen.begin(), chosen.end(), [&](int a, int b) {
      return std::make_tuple(each > 1 ? home(a) : home(-1), key(a)) <
             std::make_tuple(each > 1 ? home(b) : home(-1), key(b));
    });
    std::vector<std::vector<int>> groups(ranks_);
    for (size_t i = 0; i < chosen.size(); ++i) groups[i / each].push_back(chosen[i]);
    std::stable_sort(groups.begin(), groups.end(),
                     [&](const auto& a, const auto& b) { return key(a[0]) < key(b[0]); });
    if (each == 1 || ranks_ == 1) return groups;
    std::vector<std::vector<int>> linked = regrouped_by_links(groups);
    return links_within(linked) > links_within(groups) ? linked : groups;
  }

  // The same with GPUs of a rank rather linked to each other. Only GPUs with the same nearest CPUs
  // change places, so that every distance stays as it was. In turn, each gets of those that are
  // left the one with the most links to what its rank has already, the first of them if several.
  std::vector<std::vector<int>> regrouped_by_links(std::vector<std::vector<int>> groups) const {
    std::vector<int> left;
    for (const auto& group : groups) left.insert(left.end(), group.begin(), group.end());
    std::stable_sort(left.begin(), left.end(), [&](int a, int b) { return key(a) < key(b); });
    for (auto& group : groups) {
      std::vector<int> links(order_.size(), 0);  // by position: to those that the rank has
      for (int& place : group) {
        auto best = left.end();
        for (auto it = left.begin(); it != left.end(); ++it) {
          if (!same_cpus(*it, place)) continue;
          if (best == left.end() || links[at(*it)] > links[at(*best)]) best = it;
        }
        place = *best;
        left.erase(best);
        for (const int other : left) links[at(other)] += are_linked(place, other) ? 1 : 0;
      }
    }
    return groups;
  }

  static size_t at(int position) { return static_cast<size_t>(position); }

  bool same_cpus(int a, int b) const {
    const Place* one = place_of(topology_, request_, a);
    const Place* other = place_of(topology_, request_, b);
    return one == nullptr || other == nullptr ? one == other : one->cpus == other->cpus;
  }

  bool are_linked(int a, int b) const {
    return place_of(topology_, request_, a) != nullptr &&
           place_of(topology_, request_, b) != nullptr &&
           link_of(topology_, request_.gpus[at(a)].gpu, request_.gpus[at(b)].gpu) != nullptr;
  }

  int64_t links_within(const std::vector<std::vector<int>>& groups) const {
    int64_t links = 0;
    for (const auto& group : groups) {
      for (const int a : group) {
        for (const int b : group) links += are_linked(a, b) ? 1 : 0;
      }
    }
    return links;
  }

  const Topology& topology_;
  const BindRequest& request_;
  const size_t ranks_;
  std::vector<int> order_;  // positions, by PCI address and token
};

// The list that gives every rank its GPU at entry `rank % length`, if there is one.
std::optional<std::vector<int>> common_list(const Chooser& chooser, const BindRequest& request,
                                            const std::vector<int>& gpu_of) {
  const size_t length = request.gpus.size();
  std::vector<int> list;
  for (size_t rank = 0; rank < gpu_of.size(); ++rank) {
    if (rank >= length) {
      if (gpu_of[rank] != list[rank % length]) return std::nullopt;
    } else {
      if (std::find(list.begin(), list.end(), gpu_of[rank]) != list.end()) return std::nullopt;
      list.push_back(gpu_of[rank]);
    }
  }
  return chooser.completed(std::move(list));
}

void give_list(const std::vector<int>& list, Binding* binding) {
  binding->shared_list = true;
  for (size_t rank = 0; rank < binding->ranks.size(); ++rank) {
    binding->ranks[rank].visible = list;
    binding->ranks[rank].gpu = list[rank % list.size()];
  }
}

void give_own(const std::vector<std::vector<int>>& gpus, Binding* binding) {
  for (size_t rank = 0; rank < binding->ranks.size(); ++rank) {
    binding->ranks[rank].visible = gpus[rank];
    binding->ranks[rank].gpu = gpus[rank].empty() ? -1 : gpus[rank][0];
  }
}

std::vector<int> as_listed(const BindRequest& request) {
  std::vector<int> list(request.gpus.size());
  std::iota(list.begin(), list.end(), 0);
  return list;
}

Expected<std::vector<int>> mapped(const BindRequest& request) {
  std::vector<int> gpu_of;
  for (size_t rank = 0; rank < static_cast<size_t>(request.ranks); ++rank) {
    gpu_of.push_back(request.gpu.map[rank % request.gpu.map.size()]);
  }
  for (const int position : request.gpu.map) {
    if (position >= 0 && position < static_cast<int>(request.gpus.size())) continue;
    return error(Code::kInvalid,
                 "gpu-bind=map names GPU %d, but the step has %zu on this node; they count from 0 "
                 "in the order of its list, whatever their numbers are",
                 position, request.gpus.size());
  }
  return gpu_of;
}

// Each rank's GPU is decided. MIG: a process can use one instance.
void give_decided(const Chooser& chooser, const BindRequest& request,
                  const std::vector<int>& gpu_of, bool has_mig, Binding* binding) {
  const auto list = has_mig ? std::nullopt : common_list(chooser, request, gpu_of);
  if (list) return give_list(*list, binding);
  std::vector<std::vector<int>> own;
  for (const int gpu : gpu_of) own.push_back({gpu});
  give_own(own, binding);
}

}  // namespace

Status choose_gpus(const Topology& topology, const BindRequest& request, Binding* binding) {
  if (!request.rank_gpus.empty()) {
    give_own(request.rank_gpus, binding);
    for (size_t rank = 0; rank < binding->ranks.size(); ++rank) {
      RankPlace& its = binding->ranks[rank];
      const size_t slot = static_cast<size_t>(request.first_rank) + rank;
      if (!its.visible.empty()) its.gpu = its.visible[slot % its.visible.size()];
    }
    return ok_status();
  }
  if (request.gpus.empty()) return ok_status();
  const Chooser chooser(topology, request);
  const bool has_mig = std::any_of(request.gpus.begin(), request.gpus.end(), is_mig);
  const size_t each =
      has_mig ? 1 : std::max<size_t>(request.gpus.size() / static_cast<size_t>(request.ranks), 1);
  binding->sets_gpus = request.gpu.policy != GpuPolicy::kLeave;
  switch (request.gpu.policy) {
    case GpuPolicy::kLeave:
      give_list(as_listed(request), binding);
      break;
    case GpuPolicy::kAuto:
      if (has_mig) {
        give_own(chooser.nearest(1), binding);
      } else {
        give_list(chooser.nearest_list(), binding);
      }
      break;
    case GpuPolicy::kClosest:
      give_own(chooser.nearest(each), binding);
      break;
    case GpuPolicy::kRank: {
      std::vector<int> gpu_of;
      for (size_t rank = 0; rank < binding->ranks.size(); ++rank) {
        gpu_of.push_back(static_cast<int>(rank % request.gpus.size()));
      }
      if (has_mig) {
        give_decided(chooser, request, gpu_of, has_mig, binding);
      } else {
        give_list(as_listed(request), binding);
      }
      break;
    }
    case GpuPolicy::kMap: {
      const auto gpu_of = mapped(request);
      if (!gpu_of.ok()) return gpu_of.status();
      give_decided(chooser, request, *gpu_of, has_mig, binding);
      break;
    }
  }
  return ok_status();
}

}  // namespace hvd
