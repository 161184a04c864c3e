// SPDX-License-Identifier: Apache-2.0
//
// The report of a binding: table, warnings with their remedies, drawing, JSON.
#include "spank/bind_report.h"

#include "tests/unit/bind_words.h"
#include "tests/unit/catch.h"

namespace hvd {
namespace {

Json report(const std::string& node, const std::vector<int>& ranks, const Topology& topology,
            const BindRequest& request) {
  const auto binding = bind(topology, request);
  REQUIRE(binding.ok());
  return report_of(node, ranks, topology, request, *binding);
}

std::vector<std::string> warnings(const test::NodeSpec& node, int ranks, const char* gpus,
                                  const char* cpus, const char* policy = "auto",
                                  const char* masks = "") {
  const Topology topology = test::node_of(node);
  BindRequest request = test::request_of(topology, ranks, gpus, cpus, policy);
  request.masks = test::masks_of(masks);
  std::vector<int> numbers;
  for (int rank = 0; rank < ranks; ++rank) numbers.push_back(10 + rank);
  return report_warnings({report("n1", numbers, topology, request)});
}

using Lines = std::vector<std::string>;

TEST_CASE("report: a table in the order of ranks") {
  const Topology topology = test::node_of({2, 1, 4, 1, {0, 1}, {0, 1}});
  const BindRequest request = test::request_of(topology, 2, "0,1");
  const Json first = report("node0", {0, 2}, topology, request);
  const Json second = report("node1", {1, 3}, topology, request);
  CHECK(report_table({first, second}) ==
        "node   local rank  rank  GPU  PCI id        model  NUMA node  cores: CPUs  NIC\n"
        "node0  0           0     0    0000:01:00.0  Test   0          4: 0-3       mlx5_0\n"
        "node1  0           1     0    0000:01:00.0  Test   0          4: 0-3       mlx5_0\n"
        "node0  1           2     1    0000:02:00.0  Test   1          4: 4-7       mlx5_1\n"
        "node1  1           3     1    0000:02:00.0  Test   1          4: 4-7       mlx5_1\n");
  CHECK(report_warnings({first, second}).empty());
}

TEST_CASE("report: a rank that is bound alone keeps its local rank") {
  const Topology topology = test::node_of({2, 1, 4, 1, {0, 1}, {}});
  BindRequest request = test::request_of(topology, 1, "1");
  request.first_rank = 3;
  CHECK(report_table({report("n", {4, 5, 6, 7}, topology, request)}) ==
        "node  local rank  rank  GPU  PCI id        model  NUMA node  cores: CPUs  NIC\n"
        "n     3           7     1    0000:02:00.0  Test   1          4: 4-7       -\n");
}

TEST_CASE("report: a GPU that a cgroup hides the number of is not called lost") {
  const Topology topology = test::node_of({2, 1, 4, 1, {0, 1}, {}});
  BindRequest request = test::request_of(topology, 1, "0");
  request.gpus[0].gpu = -1;
  request.gpus_hidden = true;
  CHECK(report_warnings({report("n1", {0}, topology, request)}) ==
        Lines{"n1: the ranks see GPUs of their own alone, because Slurm keeps the others from "
              "them; --gpus-per-node=N, or --gpu-bind=none beside --gpus-per-task, lets them "
              "reach each other directly"});
}

TEST_CASE("report: a node without GPU and NIC") {
  const Topology topology = test::node_of({1, 1, 2, 2, {}, {}});
  CHECK(report_table({report("n", {0}, topology, test::request_of(topology, 1, ""))}) ==
        "node  local rank  rank  GPU  PCI id  model  NUMA node  cores: CPUs  NIC\n"
        "n     0           0     -    -       -      0          2: 0-3       -\n");
}

TEST_CASE("report: each warning names ranks and remedy") {
  const test::NodeSpec node = {2, 1, 4, 1, {0, 0, 1, 1}, {}};
  CHECK(warnings(node, 4, "0,1,2,3", "").empty());
  CHECK(
      warnings(node, 4, "0,1,2,3", "0,1,4,5") ==
      Lines{"n1: ranks 10-13 have 1 core beside a GPU, and the threads that move tensors need one "
            "of their own; srun --cpus-per-task=2 (-c2) or more"});
  CHECK(warnings({2, 1, 4, 2, {0, 1}, {}}, 2, "0,1", "0,8,4-6") ==
        Lines{"n1: rank 10 has 1 core beside a GPU, and the threads that move tensors need one of "
              "their own; srun --cpus-per-task=4 (-c4) or more"});
  CHECK(warnings(node, 3, "0,2", "", "closest") ==
        Lines{"n1: ranks 10, 11 share GPU 0; srun --gpus-per-node=3, or --ntasks-per-node=2"});
  CHECK(warnings(node, 2, "0,2", "0-3") ==
        Lines{"n1: rank 11 runs on another socket than its GPU; the step has no CPUs near it: srun "
              "--exclusive, or sbatch --gres-flags=enforce-binding"});
  CHECK(
      warnings(node, 2, "0,1", "", "auto", "0-1;4-5") ==
      Lines{"n1: rank 11 runs on another socket than its GPU; without --cpu-bind the cores follow "
            "the GPUs"});
  CHECK(warnings(node, 3, "", "0-1") ==
        Lines{"n1: ranks 10-12 share 2 cores (CPUs 0-1); fewer tasks on the node "
              "(--ntasks-per-node), or more CPUs for each (--cpus-per-task, -c; --exclusive gets "
              "all)"});
  CHECK(
      warnings(node, 2, "0,9", "") ==
      Lines{"n1: GPU 9 cannot be found among the 4 of the node's topology, so nothing is bound to "
            "it; administrators can name a topology with topology=FILE.xml in plugstack.conf"});
  CHECK(warnings(node, 2, "MIG-a,MIG-b", "") ==
        Lines{"n1: instances of MIG do not see each other: tensors go through the host, and NCCL "
              "refuses two instances of one GPU; whole GPUs, as in srun --gpus-per-node=2, are "
              "faster"});
}

TEST_CASE("report: a drawing in plain characters") {
  const Topology topology = test::node_of({2, 2, 2, 1, {1, 2, test::kAnywhere}, {1}});
  const BindRequest request = test::request_of(topology, 2, "0,1");
  CHECK(report_drawing(report("node0", {4, 5}, topology, request)) ==
        "node0\n"
        "+-- package 0 ---------------------------+\n"
        "|  NUMA node 0: 2 cores, CPUs 0-1        |\n"
        "|  NUMA node 1: 2 cores, CPUs 2-3        |\n"
        "|    GPU 0     0000:01:00.0  Test        |\n"
        "|    NIC       mlx5_0 ib0  InfiniBand    |\n"
        "|    rank 4    GPU 0, 2 cores, CPUs 2-3  |\n"
        "+----------------------------------------+\n"
        "+-- package 1 ---------------------------+\n"
        "|  NUMA node 2: 2 cores, CPUs 4-5        |\n"
        "|    GPU 1     0000:02:00.0  Test        |\n"
        "|    rank 5    GPU 1, 2 cores, CPUs 4-5  |\n"
        "|  NUMA node 3: 2 cores, CPUs 6-7        |\n"
        "+----------------------------------------+\n"
        "+-- elsewhere ---------------------+\n"
        "|    (GPU)     0000:03:00.0  Test  |\n"
        "+----------------------------------+\n");
}

TEST_CASE("report: GPUs that are linked, as JSON and below the drawing") {
  Topology topology = test::node_of({2, 1, 4, 1, {0, 0, 1, 1}, {}});
  const BindRequest request = test::request_of(topology, 2, "0,1,2,3");
  const Json unknown = report("n", {0, 1}, topology, request);
  CHECK(unknown["links"].is_null());
  CHECK(report_drawing(unknown).find("linked") == std::string::npos);

  Topology none = topology;
  test::link_gpus(&none, "");
  CHECK(report("n", {0, 1}, none, request)["links"].dump() == "[]");
  const std::string drawing = report_drawing(report("n", {0, 1}, none, request));
  CHECK(drawing.substr(drawing.rfind('+') + 1) == "\nlinked: none\n");

  Topology pairs = topology;
  test::link_gpus(&pairs, "0-1 2-3", 50000);
  const Json told = report("n", {0, 1}, pairs, request);
  CHECK(told["links"].dump() ==
        R"([{"gpus": ["0000:01:00.0", "0000:02:00.0"], "mb_per_s": 50000}, )"
        R"({"gpus": ["0000:03:00.0", "0000:04:00.0"], "mb_per_s": 50000}])");
  CHECK(report_drawing(told) ==
        "n\n"
        "+-- package 0 ---------------------------+\n"
        "|  NUMA node 0: 4 cores, CPUs 0-3        |\n"
        "|    GPU 0     0000:01:00.0  Test        |\n"
        "|    GPU 1     0000:02:00.0  Test        |\n"
        "|    rank 0    GPU 0, 4 cores, CPUs 0-3  |\n"
        "+----------------------------------------+\n"
        "+-- package 1 ---------------------------+\n"
        "|  NUMA node 1: 4 cores, CPUs 4-7        |\n"
        "|    GPU 2     0000:03:00.0  Test        |\n"
        "|    GPU 3     0000:04:00.0  Test        |\n"
        "|    rank 1    GPU 2, 4 cores, CPUs 4-7  |\n"
        "+----------------------------------------+\n"
        "linked: 0-1 2-3\n");

  // Two speeds are two groups; what is unknown of one is null.
  Topology mixed = topology;
  test::link_gpus(&mixed, "0-1");
  test::link_gpus(&mixed, "0-2 1-2", 100);
  const Json both = report("n", {0, 1}, mixed, request);
  CHECK(both["links"].dump() == R"([{"gpus": ["0000:01:00.0", "0000:03:00.0"], "mb_per_s": 100}, )"
                                R"({"gpus": ["0000:02:00.0", "0000:03:00.0"], "mb_per_s": 100}, )"
                                R"({"gpus": ["0000:01:00.0", "0000:02:00.0"], "mb_per_s": null}])");
  CHECK(report_drawing(both).find("\nlinked: 0-2\n") != std::string::npos);
}

TEST_CASE("report: what another node sends cannot break lines or crash") {
  const Json odd = Json::object()
                       .set("node", "n\x1b[31m\n")
                       .set("ranks", Json::array().add(Json::object().set("rank", "x")).add(7))
                       .set("warnings", Json::array().add(Json::object().set("text", "a\nb")))
                       .set("packages", Json::array().add(1).add(Json::object().set("parts", 3)))
                       .set("links", Json::array().add(1).add(Json::object().set("gpus", "x")));
  const std::string table = report_table({odd, Json(), Json(3)});
  CHECK(table.find('\x1b') == std::string::npos);
  CHECK(std::count(table.begin(), table.end(), '\n') == 3);
  CHECK(report_warnings({odd}) == Lines{"n?[31m?: a?b; "});
  CHECK(report_drawing(odd).find('\x1b') == std::string::npos);
}

}  // namespace
}  // namespace hvd
