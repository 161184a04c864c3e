// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes what binding reads of a task's environment: a line each for CUDA_VISIBLE_DEVICES,
// SLURM_STEP_GPUS, the policy and the step's CPUs (libFuzzer; tests/fuzz/run).
#include <algorithm>
#include <cstdint>
#include <string>

#include "libhvd/base/parse.h"
#include "spank/bind_environment.h"
#include "spank/bind_report.h"
#include "tests/unit/bind_words.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hvd;
  if (size == 0) return 0;
  static const Topology topology = test::node_of({2, 2, 2, 2, {3, 1, 0, 2}, {0, 2}});
  std::vector<std::string_view> lines =
      split({reinterpret_cast<const char*>(data) + 1, size - 1}, '\n');
  lines.resize(4);
  BindRequest request;
  request.ranks = 1 + data[0] % 9;
  request.gpus = find_gpus(topology, lines[0], lines[1]);
  // A list is as long as a variable can be; an assignment of thousands takes its time.
  request.gpus.resize(std::min<size_t>(request.gpus.size(), 40));
  if (const auto choice = parse_gpu_choice(lines[2]); choice.ok()) request.gpu = *choice;
  request.cpus = CpuSet::parse(lines[3]).value_or(topology.cpus());
  if (data[0] > 127) request.masks.resize(static_cast<size_t>(request.ranks), request.cpus);
  const auto binding = bind(topology, request);
  if (!binding.ok()) return 0;
  for (const RankPlace& rank : binding->ranks) {
    if (binding->sets_cpus && !request.cpus.includes(rank.cpus)) __builtin_trap();
  }
  const auto set = [](const char*) { return "x"; };
  (void)environment_of(topology, request, *binding, request.ranks - 1, set);
  const Json report = report_of("n", {0}, topology, request, *binding);
  (void)report_table({report});
  (void)report_warnings({report});
  (void)report_drawing(report);
  return 0;
}
