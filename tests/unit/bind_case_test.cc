// SPDX-License-Identifier: Apache-2.0
//
// Binding, case by case: who gets what on nodes made by hand.
#include "spank/bind.h"
#include "tests/unit/bind_words.h"
#include "tests/unit/catch.h"

namespace hvd {
namespace {

using test::kAnywhere;
using test::NodeSpec;

const NodeSpec kTwoSockets = {2, 1, 4, 1, {0, 0, 1, 1}, {}};
const NodeSpec kThreads = {2, 1, 4, 2, {0, 0, 1, 1}, {}};  // CPU 8 is the sibling of CPU 0
const NodeSpec kOneSocket = {2, 1, 4, 1, {0, 0}, {}};      // both GPUs on the first
const NodeSpec kCrossed = {2, 1, 4, 1, {1, 1, 0, 0}, {}};
const NodeSpec kFourNumas = {1, 4, 4, 1, {3, 3, 1, 1, 0, 0, 2, 2}, {}};
const NodeSpec kUneven = {2, 1, 0, 1, {0, 1}, {}, {2, 6}};
const NodeSpec kNoGpu = {2, 1, 4, 1, {}, {}};
const NodeSpec kNowhere = {2, 1, 4, 1, {kAnywhere, kAnywhere}, {}};
const NodeSpec kMixed = {2, 1, 4, 1, {0, kAnywhere}, {}};

struct Case {
  const char* name;
  const NodeSpec& node;
  int ranks;
  const char* gpus;
  const char* cpus;
  const char* policy;
  const char* masks;
  const char* answer;
};

const Case kCases[] = {
#include "tests/unit/bind_cases.def"
};

TEST_CASE("bind: who gets what") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    const Topology topology = test::node_of(c.node);
    BindRequest request = test::request_of(topology, c.ranks, c.gpus, c.cpus, c.policy);
    request.masks = test::masks_of(c.masks);
    const auto binding = bind(topology, request);
    REQUIRE(binding.ok());
    CHECK(test::shown(request, *binding) == c.answer);
    CHECK(binding->sets_cpus == request.masks.empty());
  }
}

TEST_CASE("bind: policies are words, and a wrong one is told") {
  const struct {
    const char* text;
    const char* error;
  } cases[] = {
      {"nearest", "\"nearest\" is none of auto, closest, rank, all, none, map:A:B"},
      {"cloest",
       "\"cloest\" is none of auto, closest, rank, all, none, map:A:B; did you mean \"closest\"?"},
      {"map:", "\"map:\" needs positions in the list of GPUs, from 0, as in map:3:2:1:0"},
      {"map:0:x", "\"map:0:x\" needs positions in the list of GPUs, from 0, as in map:3:2:1:0"},
      {"map:99999999999",
       "\"map:99999999999\" needs positions in the list of GPUs, from 0, as in map:3:2:1:0"},
  };
  for (const auto& c : cases) {
    const auto choice = parse_gpu_choice(c.text);
    REQUIRE_FALSE(choice.ok());
    CHECK(choice.status().text() == c.error);
  }
  REQUIRE(parse_gpu_choice("map:1:0").ok());
  CHECK(parse_gpu_choice("map:1:0")->map == std::vector<int>{1, 0});
  CHECK(parse_gpu_choice("all")->policy == GpuPolicy::kLeave);
  CHECK(parse_cpu_policy("x").status().text() == "\"x\" is none of auto, none");
  CHECK(parse_nic_policy("near").status().text() == "\"near\" is none of auto, nearest, none");
  CHECK(*parse_nic_policy("nearest") == NicPolicy::kNearest);
}

TEST_CASE("bind: a map with a GPU that is not there is an error") {
  const Topology topology = test::node_of(kTwoSockets);
  const auto binding = bind(topology, test::request_of(topology, 2, "2,3", "", "map:0:2"));
  REQUIRE_FALSE(binding.ok());
  CHECK(binding.status().text() ==
        "gpu-bind=map names GPU 2, but the step has 2 on this node; they count from 0 in the order "
        "of its list, whatever their numbers are");
}

TEST_CASE("bind: a list longer than any node's is an error at once") {
  const Topology topology = test::node_of(kTwoSockets);
  std::string list = "0";
  for (int i = 1; i < 256; ++i) list += ",0";
  CHECK(bind(topology, test::request_of(topology, 2, list)).ok());
  list += ",0";
  const auto binding = bind(topology, test::request_of(topology, 2, list));
  REQUIRE_FALSE(binding.ok());
  CHECK(binding.status().text() ==
        "the list of GPUs has 257, more than 256, the most that are bound");
}

TEST_CASE("bind: GPUs of one rank are rather linked, where they are equally far") {
  const NodeSpec one = {1, 1, 8, 1, {0, 0, 0, 0}, {}};
  const NodeSpec two = {2, 1, 4, 1, {0, 1, 0, 1}, {}};
  const struct {
    const char* name;
    const NodeSpec& node;
    const char* links;
    int ranks;
    const char* policy;
    const char* answer;
  } cases[] = {
      {"no link", one, "", 2, "closest", "0(0,1) 0-3; 2(2,3) 4-7"},
      {"as they come", one, "0-1 2-3", 2, "closest", "0(0,1) 0-3; 2(2,3) 4-7"},
      {"crosswise", one, "0-3 1-2", 2, "closest", "0(0,3) 0-3; 1(1,2) 4-7"},
      {"every second", one, "0-2 1-3", 2, "closest", "0(0,2) 0-3; 1(1,3) 4-7"},
      {"all", one, "0-1 0-2 0-3 1-2 1-3 2-3", 2, "closest", "0(0,1) 0-3; 2(2,3) 4-7"},
      {"not for another one's links", one, "0-3 2-3", 2, "closest", "0(0,1) 0-3; 2(2,3) 4-7"},
      {"all of one rank", one, "0-3", 1, "closest", "0(0,1,2,3) 0-7"},
      {"one for each", one, "0-3 1-2", 4, "closest", "0(0) 0-1; 1(1) 2-3; 2(2) 4-5; 3(3) 6-7"},
      {"one list for all", one, "0-3 1-2", 2, "auto", "0* 0-3; 1* 4-7"},
      {"never farther", two, "0-1 2-3", 2, "closest", "0(0,2) 0-3; 1(1,3) 4-7"},
  };
  for (const auto& c : cases) {
    Topology topology = test::node_of(c.node);
    test::link_gpus(&topology, c.links);
    const BindRequest request = test::request_of(topology, c.ranks, "0,1,2,3", "", c.policy);
    const auto binding = bind(topology, request);
    REQUIRE(binding.ok());
    CAPTURE(c.name);
    CHECK(test::shown(request, *binding) == c.answer);
  }
}

TEST_CASE("bind: more ranks than any node has are an error at once") {
  const Topology topology = test::node_of(kTwoSockets);
  CHECK(bind(topology, test::request_of(topology, 1024, "0,1")).ok());
  CHECK(bind(topology, test::request_of(topology, 1025, "0,1")).status().text() ==
        "the node has 1025 ranks, more than 1024, the most that are bound");
}

TEST_CASE("bind: what Slurm has bound stays, and cores follow it") {
  const Topology topology = test::node_of(kTwoSockets);
  BindRequest request = test::request_of(topology, 2, "0,1,2,3");
  request.rank_gpus = {{3}, {0, 1}};
  const auto binding = bind(topology, request);
  REQUIRE(binding.ok());
  CHECK(test::shown(request, *binding) == "3(3) 4-7; 1(0,1) 0-3");
  CHECK_FALSE(binding->sets_gpus);
  CHECK(binding->sets_cpus);
}

TEST_CASE("bind: cpu-bind=none leaves the CPUs") {
  const Topology topology = test::node_of(kTwoSockets);
  BindRequest request = test::request_of(topology, 2, "0,1,2,3");
  request.cpu = CpuPolicy::kNone;
  const auto binding = bind(topology, request);
  REQUIRE(binding.ok());
  CHECK_FALSE(binding->sets_cpus);
  CHECK(binding->ranks[0].cpus == topology.cpus());
}

TEST_CASE("bind: CPUs that the topology does not know are left alone") {
  const Topology topology = test::node_of(kTwoSockets);
  const auto binding = bind(topology, test::request_of(topology, 2, "0,1,2,3", "100-103"));
  REQUIRE(binding.ok());
  CHECK_FALSE(binding->sets_cpus);
  CHECK(binding->ranks[0].cpus.list() == "100-103");
}

TEST_CASE("bind: tokens are found by number, UUID, and Slurm's numbers behind a cgroup") {
  const Topology topology = test::node_of(kTwoSockets);
  const auto found = [&](const char* tokens, const char* step) {
    std::string text;
    for (const StepGpu& gpu : find_gpus(topology, tokens, step)) {
      text += gpu.token + "=" + std::to_string(gpu.gpu) + " ";
    }
    return text;
  };
  CHECK(found("2,0", "") == "2=2 0=0 ");
  CHECK(found("0,1", "2,3") == "0=2 1=3 ");
  CHECK(found("0,1", "2") == "0=0 1=1 ");
  CHECK(found("GPU-02,GPU-04", "") == "GPU-02=1 GPU-04=3 ");
  CHECK(found("GPU-0,GPU-x", "") == "GPU-0=-1 GPU-x=-1 ");  // ambiguous; unknown
  CHECK(found("MIG-a,MIG-b", "") == "MIG-a=-1 MIG-b=-1 ");
  CHECK(found("MIG-a,MIG-b", "1,1") == "MIG-a=1 MIG-b=1 ");
  CHECK(found("0.1,1.0", "") == "0.1=0 1.0=1 ");
  CHECK(found("7", "") == "7=-1 ");
  CHECK(found("", "0,1") == "");
  CHECK(found(" 0 , 1 ", "") == "0=0 1=1 ");
  CHECK(found(",", "") == "=-1 =-1 ");
}

TEST_CASE("bind: arguments that contradict each other are an error and not a crash") {
  const Topology topology = test::node_of(kTwoSockets);
  BindRequest request = test::request_of(topology, 2, "0,1");
  request.masks = test::masks_of("0-1");
  CHECK_FALSE(bind(topology, request).ok());
  request.masks.clear();
  request.rank_gpus = {{0}, {2}};
  CHECK_FALSE(bind(topology, request).ok());
  request.rank_gpus.clear();
  request.ranks = 0;
  CHECK_FALSE(bind(topology, request).ok());
  request.ranks = 3;
  CHECK(bind(Topology(), request).ok());
}

}  // namespace
}  // namespace hvd
