// SPDX-License-Identifier: Apache-2.0
//
// Which GPUs are linked, from hwloc's matrices. What they mean, as hwloc 2 fills them in:
//
// - NVLinkBandwidth (from NVML): MB/s in one direction between its GPUs, the sum of all links of a
//   pair; 0 without a link, and a high number without meaning on the diagonal. Behind the GPUs it
//   has the NVSwitches that they are linked to, and on POWER the processors; no link between two
//   switches is in it. GPUs with a link to a switch reach each other through it, and the switches
//   of a node are one fabric: so do hwloc's own transformations ("merge switch ports", "transitive
//   closure") read it. GPUs that meet at a processor are not linked.
// - XGMIHops (from ROCm SMI): 1 where the way between two GPUs is XGMI alone; 0 where it is not,
// and
//   on the diagonal. Newer releases count the GPUs on the way, and have more than 1 for those.
// - XGMIBandwidth: MB/s in one direction where there is such a way, else 0. Which ones are direct
// is
//   for XGMIHops to say, where it is there.
//
// A link counts if both ends tell of it. A GPU that is in none of the matrices may have links or
// not. hwloc has no matrix if no GPU has a link, so that it is unknown then, too.
#include <algorithm>
#include <map>

#include "spank/topology_tree.h"

namespace hvd {
namespace {

constexpr int64_t kMostMbPerS = 1000000000;  // sums of them fit

// A matrix with its objects found.
struct Known {
  const TreeMatrix& matrix;
  std::vector<int> gpus;        // by row: index in Topology::gpus, -1: none
  std::vector<bool> is_switch;  // by row

  size_t size() const { return gpus.size(); }
  // What both directions have.
  int64_t between(size_t a, size_t b) const {
    return std::min({matrix.values[a * size() + b], matrix.values[b * size() + a], kMostMbPerS});
  }
};

using Pair = std::pair<int, int>;  // of GPUs, the lower first
using Links = std::map<Pair, int64_t>;

// Calls `take` with each two rows that are different GPUs.
template <typename Take>
void for_pairs(const Known& known, Take take) {
  for (size_t a = 0; a < known.size(); ++a) {
    for (size_t b = a + 1; b < known.size(); ++b) {
      const auto [low, high] = std::minmax(known.gpus[a], known.gpus[b]);
      if (low >= 0 && low < high) take(Pair(low, high), a, b);
    }
  }
}

void keep(const Pair& pair, int64_t mb_per_s, Links* links) {
  int64_t& kept = (*links)[pair];
  kept = std::max(kept, mb_per_s);
}

Links nvlinks(const Known& known) {
  std::vector<int64_t> to_switches(known.size(), 0);
  for (size_t row = 0; row < known.size(); ++row) {
    for (size_t other = 0; other < known.size(); ++other) {
      if (known.is_switch[other]) to_switches[row] += known.between(row, other);
    }
  }
  Links links;
  for_pairs(known, [&](const Pair& pair, size_t a, size_t b) {
    const int64_t direct = known.between(a, b);
    const int64_t mb_per_s = direct > 0 ? direct : std::min(to_switches[a], to_switches[b]);
    if (mb_per_s > 0) keep(pair, mb_per_s, &links);
  });
  return links;
}

Links with_bandwidth(const Known& known) {
  Links links;
  for_pairs(known, [&](const Pair& pair, size_t a, size_t b) {
    if (known.between(a, b) > 0) keep(pair, known.between(a, b), &links);
  });
  return links;
}

Links one_hop(const Known& known, const Links& bandwidths) {
  Links links;
  for_pairs(known, [&](const Pair& pair, size_t a, size_t b) {
    const size_t n = known.size();
    if (known.matrix.values[a * n + b] != 1 || known.matrix.values[b * n + a] != 1) return;
    const auto bandwidth = bandwidths.find(pair);
    keep(pair, bandwidth == bandwidths.end() ? 0 : bandwidth->second, &links);
  });
  return links;
}

class LinkReader {
 public:
  LinkReader(const Tree& tree, const std::vector<int>& gpu_of) : tree_(tree), gpu_of_(gpu_of) {
    for (size_t i = 0; i < tree.objects.size(); ++i) {
      if (tree.objects[i].id != 0) object_of_.emplace(tree.objects[i].id, static_cast<int>(i));
    }
  }

  std::optional<Known> find(const char* name) const {
    for (const TreeMatrix& matrix : tree_.matrices) {
      if (matrix.name == name) return with_objects(matrix);
    }
    return std::nullopt;
  }

 private:
  Known with_objects(const TreeMatrix& matrix) const {
    Known known{matrix, {}, {}};
    for (const uint64_t id : matrix.ids) {
      const auto found = object_of_.find(id);
      const int object = found == object_of_.end() ? -1 : found->second;
      known.gpus.push_back(gpu_at(object));
      known.is_switch.push_back(object >= 0 && tree_.objects[static_cast<size_t>(object)].nvswitch);
    }
    return known;
  }

  // That of a device of the system is the PCI device above it.
  int gpu_at(int object) const {
    for (; object >= 0; object = tree_.objects[static_cast<size_t>(object)].parent) {
      const auto at = static_cast<size_t>(object);
      if (tree_.objects[at].type == TreeObject::Type::kPciDevice) return gpu_of_[at];
    }
    return -1;
  }

  const Tree& tree_;
  const std::vector<int>& gpu_of_;
  std::map<uint64_t, int> object_of_;
};

}  // namespace

void read_links(const Tree& tree, const std::vector<int>& gpu_of, Topology* topology) {
  if (tree.matrices.empty()) return;
  const LinkReader reader(tree, gpu_of);
  const auto links_of = [&](int gpu) -> auto& {
    return topology->gpus[static_cast<size_t>(gpu)].links;
  };
  Links all;
  const auto add = [&](const Known& known, const Links& links) {
    for (const int gpu : known.gpus) {
      if (gpu >= 0 && !links_of(gpu)) links_of(gpu).emplace();
    }
    for (const auto& [pair, mb_per_s] : links) keep(pair, mb_per_s, &all);
  };
  if (const auto nvlink = reader.find(kNvlinkBandwidth)) add(*nvlink, nvlinks(*nvlink));
  const auto bandwidth = reader.find(kXgmiBandwidth);
  const Links bandwidths = bandwidth ? with_bandwidth(*bandwidth) : Links();
  if (const auto hops = reader.find(kXgmiHops)) {
    add(*hops, one_hop(*hops, bandwidths));
  } else if (bandwidth) {
    add(*bandwidth, bandwidths);
  }
  for (const auto& [pair, mb_per_s] : all) {
    links_of(pair.first)->push_back({pair.second, mb_per_s});
    links_of(pair.second)->push_back({pair.first, mb_per_s});
  }
}

}  // namespace hvd
