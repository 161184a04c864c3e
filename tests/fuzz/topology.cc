// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the XML of a topology, and binding on what was read (libFuzzer; tests/fuzz/run).
#include <algorithm>
#include <cstdint>
#include <string>

#include "spank/bind_report.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hvd;
  const auto topology =
      read_topology(TopologySource::xml(std::string(reinterpret_cast<const char*>(data), size)));
  if (!topology.ok()) {
    if (topology.status().text().empty()) __builtin_trap();
    return 0;
  }
  const int all = static_cast<int>(topology->gpus.size());
  for (int i = 0; i < all; ++i) {
    for (const GpuLink& link : topology->gpus[i].links.value_or(std::vector<GpuLink>())) {
      if (link.to < 0 || link.to >= all || link.to == i) __builtin_trap();
      if (link_of(*topology, link.to, i) == nullptr) __builtin_trap();
    }
  }
  BindRequest request;
  request.ranks = 4;
  request.cpus = topology->cpus();
  const int gpus = std::min(all, 16);
  for (int i = 0; i < gpus; ++i) request.gpus.push_back({std::to_string(i), i});
  const auto binding = bind(*topology, request);
  if (!binding.ok()) __builtin_trap();
  for (const RankPlace& rank : binding->ranks) {
    if (rank.cpus.empty() || !request.cpus.includes(rank.cpus)) __builtin_trap();
  }
  const Json report = report_of("n", {0, 1, 2, 3}, *topology, request, *binding);
  (void)report_table({report});
  (void)report_drawing(report);
  return 0;
}
