// SPDX-License-Identifier: Apache-2.0
//
// Binding on random nodes and allocations: what holds whatever the node is. HVD_SEED starts
// elsewhere; a failure prints the seed of its case.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>

#include "spank/bind_parts.h"
#include "tests/random.h"
#include "tests/unit/bind_words.h"
#include "tests/unit/catch.h"

namespace hvd {
namespace {

using test::Random;

constexpr int kCases = 10000;

uint64_t first_seed() {
  const char* text = getenv("HVD_SEED");
  return text == nullptr ? 1 : strtoull(text, nullptr, 10);
}

struct Drawn {
  Topology topology;
  BindRequest request;
};

Topology draw_node(Random* random) {
  test::NodeSpec spec;
  spec.packages = 1 + static_cast<int>(random->below(3));
  spec.numas = 1 + static_cast<int>(random->below(4));
  const int numas = spec.packages * spec.numas;
  spec.threads = 1 + static_cast<int>(random->below(2));
  for (int i = 0; i < numas; ++i) {
    spec.cores_of.push_back(1 + static_cast<int>(random->below(8)));
  }
  const auto somewhere = [&] { return static_cast<int>(random->from(-1, numas - 1)); };
  for (size_t i = random->below(9); i > 0; --i) spec.gpus.push_back(somewhere());
  for (size_t i = random->below(4); i > 0; --i) spec.nics.push_back(somewhere());
  Topology topology = test::node_of(spec);
  for (Gpu& gpu : topology.gpus) {
    // Below a cache of its NUMA node, or beside all of its package.
    if (gpu.place.numa >= 0 && random->one_in(4)) {
      gpu.place.cpus = topology.cores[random->below(topology.cores.size())].cpus;
    } else if (gpu.place.package >= 0 && random->one_in(4)) {
      gpu.place.cpus = topology.packages[static_cast<size_t>(gpu.place.package)].cpus;
    }
  }
  for (Nic& nic : topology.nics) {
    if (random->one_in(4)) nic.fabric = Fabric::kEthernet;
  }
  finish_topology(&topology);
  return topology;
}

// Islands of GPUs, or any.
void draw_links(Random* random, Topology* topology) {
  const size_t count = topology->gpus.size();
  const size_t islands = 1 + random->below(4);
  std::vector<size_t> island(count);
  for (size_t& its : island) its = random->below(islands);
  const bool any = random->one_in(2);
  std::string pairs;
  for (size_t a = 0; a < count; ++a) {
    for (size_t b = a + 1; b < count; ++b) {
      if (any ? !random->one_in(3) : island[a] != island[b]) continue;
      pairs += (pairs.empty() ? "" : " ") + std::to_string(a) + "-" + std::to_string(b);
    }
  }
  test::link_gpus(topology, pairs);
}

CpuSet draw_cpus(Random* random, const CpuSet& of) {
  CpuSet some;
  const size_t share = 1 + random->below(4);
  for (int cpu = of.first(); cpu >= 0; cpu = of.next(cpu)) {
    if (random->below(4) < share) some.add(cpu);
  }
  if (some.empty()) some.add(of.first());
  return some;
}

Drawn draw(uint64_t seed) {
  Random random(seed);
  Drawn drawn{draw_node(&random), {}};
  BindRequest& request = drawn.request;
  request.ranks = 1 + static_cast<int>(random.below(random.one_in(20) ? 40 : 10));
  request.cpus = draw_cpus(&random, drawn.topology.cpus());
  for (size_t i = 0; i < drawn.topology.gpus.size(); ++i) {
    if (random.one_in(4)) continue;
    const int known = random.one_in(10) ? -1 : static_cast<int>(i);
    request.gpus.push_back({drawn.topology.gpus[i].uuid, known});
  }
  if (random.one_in(10)) {
    for (StepGpu& gpu : request.gpus) gpu.token = "MIG-" + gpu.token;
  }
  random.shuffle(&request.gpus);
  constexpr GpuPolicy kPolicies[] = {GpuPolicy::kAuto, GpuPolicy::kClosest, GpuPolicy::kRank,
                                     GpuPolicy::kMap, GpuPolicy::kLeave};
  request.gpu.policy = kPolicies[random.below(10) < 7 ? random.below(2) : random.below(5)];
  if (request.gpu.policy == GpuPolicy::kMap) {
    for (size_t i = 1 + random.below(6); i > 0 && !request.gpus.empty(); --i) {
      request.gpu.map.push_back(static_cast<int>(random.below(request.gpus.size())));
    }
  }
  if (random.one_in(3)) {
    for (int rank = 0; rank < request.ranks; ++rank) {
      request.masks.push_back(draw_cpus(&random, request.cpus));
    }
  }
  if (random.one_in(10)) request.cpu = CpuPolicy::kNone;
  if (random.one_in(3)) request.nic = NicPolicy::kNearest;
  if (random.one_in(2)) draw_links(&random, &drawn.topology);
  return drawn;
}

// "" or what is wrong.
std::string wrong_gpus(const BindRequest& request, const Binding& binding) {
  std::vector<int> times(request.gpus.size(), 0);
  for (size_t rank = 0; rank < binding.ranks.size(); ++rank) {
    const RankPlace& its = binding.ranks[rank];
    if (request.gpus.empty()) {
      if (its.gpu != -1 || !its.visible.empty()) return "a GPU from nowhere";
      continue;
    }
    std::vector<int> list = its.visible;
    std::sort(list.begin(), list.end());
    if (list.empty() || list[0] < 0 || list.back() >= static_cast<int>(request.gpus.size())) {
      return "a GPU that is not allowed";
    }
    if (std::adjacent_find(list.begin(), list.end()) != list.end()) return "a GPU twice in a list";
    if (!std::binary_search(list.begin(), list.end(), its.gpu)) return "its GPU is not visible";
    if (binding.shared_list) {
      if (its.visible != binding.ranks[0].visible) return "lists differ";
      if (its.visible.size() != request.gpus.size()) return "a list is not complete";
      if (its.gpu != its.visible[rank % list.size()]) return "entry local_rank is not its GPU";
    } else if (its.gpu != its.visible[0]) {
      return "its GPU is not the first";
    }
    ++times[static_cast<size_t>(its.gpu)];
  }
  const auto [least, most] = std::minmax_element(times.begin(), times.end());
  const bool deals =
      request.gpu.policy == GpuPolicy::kAuto || request.gpu.policy == GpuPolicy::kClosest;
  if (deals && !times.empty() && *most - *least > 1) return "GPUs are not dealt out evenly";
  return "";
}

std::string wrong_cpus(const Topology& topology, const BindRequest& request,
                       const Binding& binding) {
  if (!binding.sets_cpus) return "";
  std::map<std::vector<int>, size_t> homes;
  std::vector<std::vector<int>> home_of;
  for (const RankPlace& its : binding.ranks) {
    const Place* place = place_of(topology, request, its.gpu);
    home_of.push_back(cores_near(topology, request.cpus, place));
    if (its.cpus.empty()) return "no CPU";
    if (!request.cpus.includes(its.cpus)) return "a CPU that is not allowed";
    CpuSet home;
    for (const int core : home_of.back()) home |= topology.cores[static_cast<size_t>(core)].cpus;
    if (!home.includes(its.cpus)) return "a CPU elsewhere than its GPU's";
    for (const Core& core : topology.cores) {
      if (core.cpus.meets(its.cpus) && !its.cpus.includes(core.cpus & request.cpus)) {
        return "a part of a core";
      }
    }
  }
  bool suffice = true;
  for (const auto& home : home_of) {
    const auto within = std::count_if(home_of.begin(), home_of.end(), [&](const auto& other) {
      return std::includes(home.begin(), home.end(), other.begin(), other.end());
    });
    suffice = suffice && home.size() >= static_cast<size_t>(within);
  }
  CpuSet taken;
  for (const RankPlace& its : binding.ranks) {
    if (suffice && taken.meets(its.cpus)) return "CPUs of two ranks, and there are enough";
    taken |= its.cpus;
  }
  return "";
}

std::string wrong_nics(const Topology& topology, const BindRequest& request,
                       const Binding& binding) {
  Fabric best = Fabric::kEthernet;
  for (const Nic& nic : topology.nics) best = std::min(best, nic.fabric);
  for (const RankPlace& its : binding.ranks) {
    if (its.nics.empty() != topology.nics.empty()) return "no NIC";
    const Place* place = place_of(topology, request, its.gpu);
    const auto far = [&](const Nic& nic) {
      return place != nullptr ? distance(*place, nic.place)
                              : distance(topology, nic.place, its.cpus);
    };
    for (const int i : its.nics) {
      const Nic& chosen = topology.nics[static_cast<size_t>(i)];
      if (chosen.fabric != best) return "a NIC of a lesser fabric";
      for (const Nic& other : topology.nics) {
        if (other.fabric == best && far(other) < far(chosen)) return "a NIC that is farther";
      }
    }
    if (request.nic == NicPolicy::kNearest && its.nics.size() > 1) return "several NICs";
  }
  return "";
}

// The same with the list in another order, and positions as they were.
std::string wrong_when_permuted(const Drawn& drawn, const Binding& binding, Random* random) {
  const BindRequest& request = drawn.request;
  if (request.gpu.policy != GpuPolicy::kAuto && request.gpu.policy != GpuPolicy::kClosest) {
    return "";
  }
  std::vector<size_t> order(request.gpus.size());
  std::iota(order.begin(), order.end(), size_t{0});
  random->shuffle(&order);
  BindRequest permuted = request;
  for (size_t i = 0; i < order.size(); ++i) permuted.gpus[i] = request.gpus[order[i]];
  const auto other = bind(drawn.topology, permuted);
  if (!other.ok()) return other.status().text();
  return test::shown(permuted, *other) == test::shown(request, binding) ? ""
                                                                        : "it depends on the order";
}

TEST_CASE("bind: what holds on 10,000 random nodes and allocations") {
  const uint64_t seed = first_seed();
  CAPTURE(seed);
  for (uint64_t i = 0; i < kCases; ++i) {
    const Drawn drawn = draw(seed + i);
    const auto binding = bind(drawn.topology, drawn.request);
    INFO("HVD_SEED=" << seed + i);
    REQUIRE(binding.ok());
    const auto in_another_task = bind(Topology(drawn.topology), BindRequest(drawn.request));
    REQUIRE(test::shown(drawn.request, *binding) == test::shown(drawn.request, *in_another_task));
    REQUIRE(wrong_gpus(drawn.request, *binding) == "");
    REQUIRE(wrong_cpus(drawn.topology, drawn.request, *binding) == "");
    REQUIRE(wrong_nics(drawn.topology, drawn.request, *binding) == "");
    Random random(seed + i);
    REQUIRE(wrong_when_permuted(drawn, *binding, &random) == "");
  }
}

// Pairs of linked GPUs of the same rank.
int links_within(const Drawn& drawn, const Binding& binding) {
  int links = 0;
  for (const RankPlace& its : binding.ranks) {
    for (const int a : its.visible) {
      for (const int b : its.visible) {
        const int gpu = drawn.request.gpus[static_cast<size_t>(a)].gpu;
        const int other = drawn.request.gpus[static_cast<size_t>(b)].gpu;
        if (gpu >= 0 && other >= 0 && link_of(drawn.topology, gpu, other) != nullptr) ++links;
      }
    }
  }
  return links / 2;
}

TEST_CASE("bind: links decide between equals, and change neither distances nor cores") {
  const uint64_t seed = first_seed();
  CAPTURE(seed);
  int better = 0;
  for (uint64_t i = 0; i < kCases / 5; ++i) {
    Drawn drawn = draw(seed + i);
    drawn.request.gpu.policy = GpuPolicy::kClosest;
    Topology without = drawn.topology;
    for (Gpu& gpu : without.gpus) gpu.links.reset();
    const auto binding = bind(drawn.topology, drawn.request);
    const auto plain = bind(without, drawn.request);
    INFO("HVD_SEED=" << seed + i);
    REQUIRE(binding.ok());
    REQUIRE(plain.ok());
    REQUIRE(binding->distance == plain->distance);
    for (size_t rank = 0; rank < binding->ranks.size(); ++rank) {
      const RankPlace& its = binding->ranks[rank];
      const RankPlace& before = plain->ranks[rank];
      REQUIRE(its.cpus == before.cpus);
      REQUIRE(its.distance == before.distance);
      REQUIRE(its.visible.size() == before.visible.size());
    }
    REQUIRE(links_within(drawn, *binding) >= links_within(drawn, *plain));
    if (links_within(drawn, *binding) > links_within(drawn, *plain)) ++better;
  }
  CHECK(better > 0);
}

// The least sum over all ways to give each rank one GPU such that none has two ranks more than
// another.
struct BruteForce {
  const std::vector<std::vector<int64_t>>& cost;
  std::vector<size_t> times;
  int64_t least = -1;

  void go(size_t rank, int64_t sum) {
    if (least >= 0 && sum >= least) return;
    if (rank == cost.size()) {
      least = sum;
      return;
    }
    const size_t floor = cost.size() / times.size();
    const size_t extras = cost.size() % times.size();
    for (size_t gpu = 0; gpu < times.size(); ++gpu) {
      const auto crowded =
          std::count_if(times.begin(), times.end(), [&](size_t n) { return n > floor; });
      if (times[gpu] > floor || (times[gpu] == floor && static_cast<size_t>(crowded) == extras)) {
        continue;
      }
      ++times[gpu];
      go(rank + 1, sum + cost[rank][gpu]);
      --times[gpu];
    }
  }
};

// hops of the nearest allowed CPU, in thousandths.
int64_t reach(const Topology& topology, const CpuSet& cpus, const Place& place) {
  int least = kMostHops;
  for (int cpu = cpus.first(); cpu >= 0; cpu = cpus.next(cpu)) {
    least = std::min(least, hops(topology, place, cpu));
  }
  return least * 1000;
}

TEST_CASE("bind: the sum of distances is minimal, against trying everything up to 8 x 8") {
  const uint64_t seed = first_seed();
  CAPTURE(seed);
  int compared = 0;
  for (uint64_t i = 0; compared < 600; ++i) {
    Drawn drawn = draw(seed + i);
    BindRequest& request = drawn.request;
    const size_t count = request.gpus.size();
    if (count == 0 || request.ranks > (i % 20 == 0 ? 8 : 6) || is_mig(request.gpus[0])) continue;
    request.cpu = CpuPolicy::kAuto;
    // One list for all ranks is a rule of its own where ranks are more than GPUs.
    const auto ranks = static_cast<size_t>(request.ranks);
    request.gpu.policy = ranks <= count && i % 2 == 0 ? GpuPolicy::kAuto : GpuPolicy::kClosest;
    const auto binding = bind(drawn.topology, request);
    INFO("HVD_SEED=" << seed + i);
    REQUIRE(binding.ok());
    std::vector<std::vector<int64_t>> cost(ranks, std::vector<int64_t>(count, 0));
    int64_t sum = 0;
    for (size_t rank = 0; rank < ranks; ++rank) {
      for (size_t gpu = 0; gpu < count; ++gpu) {
        const Place* place = place_of(drawn.topology, request, static_cast<int>(gpu));
        if (place == nullptr) continue;
        cost[rank][gpu] = request.masks.empty()
                              ? reach(drawn.topology, request.cpus, *place)
                              : distance(drawn.topology, *place, request.masks[rank]);
      }
      const auto chosen = static_cast<size_t>(binding->ranks[rank].gpu);
      sum += cost[rank][chosen];
    }
    // Where each rank has several GPUs, their sum is minimal, and not that of the first ones.
    if (request.gpu.policy == GpuPolicy::kClosest && count / ranks > 1) continue;
    BruteForce force{cost, std::vector<size_t>(count, 0)};
    force.go(0, 0);
    REQUIRE(sum == force.least);
    ++compared;
  }
}

}  // namespace
}  // namespace hvd
