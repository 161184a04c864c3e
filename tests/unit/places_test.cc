// SPDX-License-Identifier: Apache-2.0
//
// What is printed of the places of a job's ranks, whoever has told of them.
#include "libhvd/topo/places.h"

#include "tests/unit/catch.h"

namespace hvd {
namespace {

Json node(const std::string& text) { return *Json::parse(text); }

const char* const kNode0 =
    "{\"node\": \"node0\", \"ranks\": [{\"rank\": 0, \"local_rank\": 0, \"gpus\": [\"1\"], "
    "\"gpu\": {\"token\": \"1\"}, "
    "\"numa\": [0], \"cores\": 2, \"cpus\": \"0-1\", \"nics\": [\"ib0\"]}], "
    "\"warnings\": [{\"ranks\": [0], \"text\": \"has one core\", \"remedy\": \"srun -c2\"}], "
    "\"packages\": [{\"package\": 0, \"parts\": [{\"numa\": 0, \"cores\": 4, \"cpus\": "
    "\"0-3\"}]}]}";
const char* const kNode0Again =
    "{\"node\": \"node0\", \"ranks\": [{\"rank\": 2, \"local_rank\": 1, \"gpu\": {\"token\": "
    "\"0\"}, \"numa\": [0], "
    "\"cores\": 2, \"cpus\": \"2-3\"}], \"warnings\": [], \"packages\": []}";
const char* const kNode1 =
    "{\"node\": \"node1\", \"ranks\": [{\"rank\": 1, \"local_rank\": 0, \"numa\": [], \"cores\": "
    "0, \"cpus\": \"\"}], "
    "\"warnings\": []}";

TEST_CASE("places: ranks that told of themselves one by one are of one node") {
  const auto nodes = merged_nodes({node(kNode0), node(kNode1), node(kNode0Again)});
  REQUIRE(nodes.size() == 2);
  CHECK(nodes[0]["node"].text() == "node0");
  CHECK(nodes[0]["ranks"].items().size() == 2);
  CHECK(nodes[0]["packages"].items().size() == 1);
  CHECK(nodes[1]["node"].text() == "node1");
}

TEST_CASE("places: table in the order of ranks, a drawing for each node, warnings") {
  const auto nodes = merged_nodes({node(kNode0), node(kNode1), node(kNode0Again)});
  CHECK(places_text(nodes) ==
        "node   local rank  rank  GPU  PCI id  model  NUMA node  cores: CPUs  NIC\n"
        "node0  0           0     1    -       -      0          2: 0-1       ib0\n"
        "node1  0           1     -    -       -      -          0: -         -\n"
        "node0  1           2     0    -       -      0          2: 2-3       -\n"
        "\n"
        "node0\n"
        "+-- package 0 ---------------------------+\n"
        "|  NUMA node 0: 4 cores, CPUs 0-3        |\n"
        "|    rank 0    GPU 1, 2 cores, CPUs 0-1  |\n"
        "|    rank 2    GPU 0, 2 cores, CPUs 2-3  |\n"
        "+----------------------------------------+\n"
        "\n"
        "node1\n"
        "\n"
        "horovod: node0: rank 0 has one core; srun -c2\n");
  CHECK(places_json(nodes)["nodes"].items().size() == 2);
}

TEST_CASE("places: whatever is sent, a line stays a line") {
  for (const char* sent :
       {"{}", "[]", "1", "{\"node\": 7, \"ranks\": [1, {}], \"warnings\": [[]]}",
        "{\"node\": \"a\\nb\\u001b\", \"ranks\": [{\"rank\": 0, \"cpus\": \"\\n\"}]}"}) {
    CAPTURE(sent);
    const std::string text = places_text(merged_nodes({node(sent)}));
    CHECK(text.find('\x1b') == std::string::npos);
    CHECK(text.find("a\nb") == std::string::npos);
  }
}

}  // namespace
}  // namespace hvd
