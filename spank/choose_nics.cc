// SPDX-License-Identifier: Apache-2.0
//
// The NIC nearest to each rank's GPU, or to its CPUs if it has none. Only NICs of the node's best
// fabric count: a rank must not talk Ethernet because that port is nearer than InfiniBand.
#include <algorithm>
#include <map>

#include "spank/bind_parts.h"

namespace hvd {
namespace {

std::vector<int> of_best_fabric(const Topology& topology) {
  Fabric best = Fabric::kEthernet;
  for (const Nic& nic : topology.nics) best = std::min(best, nic.fabric);
  std::vector<int> indices;
  for (size_t i = 0; i < topology.nics.size(); ++i) {
    if (topology.nics[i].fabric == best) indices.push_back(static_cast<int>(i));
  }
  return indices;
}

}  // namespace

void choose_nics(const Topology& topology, const BindRequest& request, Binding* binding) {
  if (request.nic == NicPolicy::kNone) return;
  const std::vector<int> candidates = of_best_fabric(topology);
  std::map<std::vector<int>, size_t> ranks_beside;
  for (RankPlace& rank : binding->ranks) {
    const Place* place = place_of(topology, request, rank.gpu);
    int64_t least = -1;
    for (const int i : candidates) {
      const Place& nic = topology.nics[static_cast<size_t>(i)].place;
      const int64_t far =
          place != nullptr ? distance(*place, nic) : distance(topology, nic, rank.cpus);
      if (least < 0 || far < least) rank.nics.clear();
      if (least < 0 || far <= least) {
        least = far;
        rank.nics.push_back(i);
      }
    }
    if (request.nic == NicPolicy::kNearest && rank.nics.size() > 1) {
      const size_t turn = ranks_beside[rank.nics]++;
      rank.nics = {rank.nics[turn % rank.nics.size()]};
    }
  }
  binding->sets_nics = !candidates.empty();
}

}  // namespace hvd
