// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes what a task is told of its step's GPUs and CPUs, from the variables to what is bound:
// SLURM_*, lists of GPUs, masks, /proc/self/cgroup, the task's affinity and the option. With what
// must be so whatever they say (libFuzzer; tests/fuzz/run).
#include <set>

#include "spank/bind_environment.h"
#include "spank/bind_report.h"
#include "spank/options.h"
#include "spank/step_facts.h"
#include "tests/fuzz/lines.h"
#include "tests/unit/bind_words.h"

namespace hvd {
namespace {

void expect(bool holds) {
  if (!holds) __builtin_trap();
}

const Topology& node(int which) {
  static const Topology nodes[] = {
      test::node_of({2, 2, 2, 2, {3, 1, 0, 2}, {0, 2}}),
      test::node_of({1, 4, 2, 1, {3, 3, 1, 1, 0, 0, 2, 2}, {3, 1, 0, 2}, {}, Vendor::kAmd}),
      test::node_of({2, 1, 3, 2, {0, test::kAnywhere, 1}, {}, {}, Vendor::kIntel}),
  };
  return nodes[which];
}

void check_facts(const StepFacts& facts) {
  expect(facts.masks.empty() || facts.masks.size() == static_cast<size_t>(facts.ranks));
  expect(facts.cpus.empty() || facts.cpus.includes(facts.own));
  for (const CpuSet& mask : facts.masks) expect(facts.cpus.includes(mask));
  for (const int rank : facts.sharing) expect(rank >= 0 && rank < facts.ranks);
}

void check_binding(const StepFacts& facts, const BindRequest& request, const Binding& binding) {
  expect(binding.ranks.size() == static_cast<size_t>(request.ranks));
  // What is explicit stays.
  expect(!binding.sets_cpus || !(facts.cpus_bound || facts.gpus_bound));
  expect(!binding.sets_gpus || !facts.gpus_bound);
  const int gpus = static_cast<int>(request.gpus.size());
  for (const RankPlace& rank : binding.ranks) {
    expect(!binding.sets_cpus || (!rank.cpus.empty() && request.cpus.includes(rank.cpus)));
    for (const int position : rank.visible) expect(position >= 0 && position < gpus);
    expect(rank.gpu < gpus && (rank.gpu >= 0) == !rank.visible.empty());
  }
}

// Nobody sees a GPU that Slurm has not named.
void check_environment(const StepFacts& facts, const EnvironmentChange& change) {
  std::set<std::string> tokens;
  for (const std::string_view token : split(facts.tokens, ',')) tokens.emplace(trim(token));
  for (const auto& [name, list] : change.set) {
    if (name != "CUDA_VISIBLE_DEVICES" && name != "ROCR_VISIBLE_DEVICES" &&
        name != "ZE_AFFINITY_MASK") {
      continue;
    }
    for (const std::string_view token : split(list, ',')) {
      expect(tokens.count(std::string(token)) != 0);
    }
  }
}

void check_report(const Json& report) {
  const std::optional<Json> read = Json::parse(report.dump());
  expect(read && read->dump() == report.dump());
  (void)places_text({*read});
}

}  // namespace
}  // namespace hvd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hvd;
  const test::Lines lines(data, size);
  const Topology& topology = node(lines.number("node", 0, 2));
  const int ranks = lines.number("ranks", 1, 16);
  const int local_rank = lines.number("local", 0, ranks - 1);
  CpuSet own = topology.cpus();
  if (lines.has("affinity")) own = CpuSet::parse(lines.text("affinity")).value_or(own);
  const auto option = parse_request(lines.get("option"));
  const Settings settings = option.ok() ? option->settings : Settings();

  const StepFacts facts =
      step_facts(lines.getter(), ranks, local_rank, own, lines.has("cpus-bound"),
                 lines.text("cgroup"), lines.has("denied"));
  check_facts(facts);
  (void)has_work(facts, settings);
  const auto request = request_of(facts, topology, settings);
  if (!request.ok()) {
    expect(!request.status().text().empty());
    return 0;
  }
  const auto binding = bind(topology, *request);
  if (!binding.ok()) {
    // Not kInternal: what was asked for must have been possible.
    expect(binding.status().code() == Code::kInvalid && !binding.status().text().empty());
    return 0;
  }
  check_binding(facts, *request, *binding);
  const int rank = request->ranks == 1 ? 0 : local_rank;
  check_environment(facts, environment_of(topology, *request, *binding, rank, lines.getter()));
  if (!lines.has("report")) return 0;  // which takes longer than all the rest
  std::vector<int> numbers;
  for (int i = 0; i < ranks; ++i) numbers.push_back(i);
  check_report(report_of("n", numbers, topology, *request, *binding));
  return 0;
}
