// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes SLURM_PMIX_MAPPING_SERV: a line with the number of tasks, then the mapping (libFuzzer;
// tests/fuzz/run).
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "libhvd/base/parse.h"
#include "libhvd/topo/layout.h"

namespace {

void expect(bool holds) {
  if (!holds) __builtin_trap();
}

void check(const hvd::Layout& layout) {
  for (int rank = 0; rank < layout.size; ++rank) {
    const int node = layout.node_of[static_cast<size_t>(rank)];
    const int local = layout.local_rank[static_cast<size_t>(rank)];
    expect(node >= 0 && node < layout.nodes());
    expect(local >= 0 && local < layout.local_size(rank));
    expect(layout.ranks[static_cast<size_t>(node)][static_cast<size_t>(local)] == rank);
    expect(layout.cross_rank(rank) >= 0 && layout.cross_rank(rank) < layout.cross_size(rank));
  }
  (void)layout.homogeneous();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hvd;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\n'), size);
  // Checking takes the square of the tasks.
  const int64_t tasks = std::min<int64_t>(parse_count(input.substr(0, end)).value_or(4), 200);
  const auto nodes =
      nodes_from_mapping(input.substr(std::min(end + 1, size)), static_cast<int>(tasks));
  if (!nodes.ok()) {
    expect(!nodes.status().text().empty());
    return 0;
  }
  expect(static_cast<int64_t>(nodes->size()) == tasks);
  const auto layout = layout_from_nodes(*nodes);
  if (layout.ok()) {
    expect(layout->size == tasks);
    check(*layout);
  } else {
    expect(!layout.status().text().empty());
  }
  return 0;
}
