// SPDX-License-Identifier: Apache-2.0
//
// hvd-info bind: its command line, and what it prints of a file.
#include <cstdio>

#include "libhvd/tools/info/bind.h"
#include "tests/unit/bind_words.h"
#include "tests/unit/catch.h"
#include "tests/unit/folder.h"

namespace hvd::info {
namespace {

TEST_CASE("hvd-info bind: a wrong argument is a sentence with the way out") {
  const struct {
    std::vector<std::string_view> arguments;
    const char* text;
  } cases[] = {
      {{"--task", "4"}, "unknown argument \"--task\"; did you mean \"--tasks\"?"},
      {{"x"}, "unknown argument \"x\"; \"hvd-info bind --help\" lists all"},
      {{"--tasks"}, "--tasks lacks its value; \"hvd-info bind --help\" says what it is"},
      {{"--tasks", "0"}, "--tasks: \"0\" is not from 1 to 1024; write it as in --tasks 4"},
      {{"--cpus=x"}, "--cpus: \"x\" is no list of CPUs; write it as in --cpus 0-15,32-47"},
      {{"--gpus", "a-b"}, "--gpus: \"a-b\" is no list of GPUs; write it as in --gpus 0-3"},
      {{"--policy", "near"},
       "--policy: \"near\" is none of auto, closest, rank, all, none, map:A:B"},
      {{"--cpu-policy=no"}, "--cpu-policy: \"no\" is none of auto, none"},
      {{"--nic-policy=x"}, "--nic-policy: \"x\" is none of auto, nearest, none"},
  };
  for (const auto& c : cases) {
    const auto options = parse_bind_options(c.arguments);
    REQUIRE_FALSE(options.ok());
    CHECK(options.status().text() == c.text);
  }
  const auto options =
      parse_bind_options({"--tasks=4", "--gpus", "0-1,3,GPU-x,0.1", "--cpus", "0-3", "--policy",
                          "map:1:0", "--json", "--topology=a.xml"});
  REQUIRE(options.ok());
  CHECK(options->tasks == 4);
  CHECK(*options->gpus == "0,1,3,GPU-x,0.1");
  CHECK(options->cpus->list() == "0-3");
  CHECK(options->gpu.map == std::vector<int>{1, 0});
  CHECK(options->json);
  CHECK(options->topology.text == "a.xml");
  CHECK(*parse_bind_options({"--gpus", "none"})->gpus == "");
}

TEST_CASE("hvd-info bind: what a job would get on a node of a file") {
  test::Folder folder;
  const std::string path = folder.path() + "/node.xml";
  FILE* file = fopen(path.c_str(), "w");
  REQUIRE(file != nullptr);
  fputs(R"(<topology version="2.0"><object type="Machine" cpuset="0xf">
<object type="Package" os_index="0" cpuset="0xf"><object type="NUMANode" os_index="0" cpuset="0xf"/>
<object type="Core" cpuset="0x3"><object type="PU" cpuset="0x1"/><object type="PU" cpuset="0x2"/></object>
<object type="Core" cpuset="0xc"><object type="PU" cpuset="0x4"/><object type="PU" cpuset="0x8"/></object>
<object type="PCIDev" pci_busid="0000:01:00.0" pci_type="0302 [10de:1db1]"><object type="OSDev"
 name="nvml0" osdev_type="1"><info name="GPUModel" value="A &amp; B"/></object></object>
</object></object></topology>)",
        file);
  REQUIRE(fclose(file) == 0);
  const auto options = parse_bind_options({"--topology", path, "--tasks", "2"});
  REQUIRE(options.ok());
  CHECK(name_of_node(options->topology, "here") == "node");
  CHECK(name_of_node({}, "here") == "here");
  const auto report = preview(*options, "node0");
  REQUIRE(report.ok());
  CHECK(text_of_preview(*report) ==
        "node   local rank  rank  GPU  PCI id        model  NUMA node  cores: CPUs  NIC\n"
        "node0  0           0     0    0000:01:00.0  A & B  0          1: 0-1       -\n"
        "node0  1           1     0    0000:01:00.0  A & B  0          1: 2-3       -\n"
        "\n"
        "ranks 0, 1: CUDA_VISIBLE_DEVICES=0 CUDA_DEVICE_ORDER=PCI_BUS_ID\n"
        "\n"
        "warning: node0: ranks 0, 1 share GPU 0; srun --gpus-per-node=2, or --ntasks-per-node=1\n"
        "warning: node0: ranks 0, 1 have 1 core beside a GPU, and the threads that move tensors "
        "need one of their own; srun --cpus-per-task=4 (-c4) or more\n"
        "\n"
        "node0\n"
        "+-- package 0 --------------------------+\n"
        "|  NUMA node 0: 2 cores, CPUs 0-3       |\n"
        "|    GPU 0     0000:01:00.0  A & B      |\n"
        "|    rank 0    GPU 0, 1 core, CPUs 0-1  |\n"
        "|    rank 1    GPU 0, 1 core, CPUs 2-3  |\n"
        "+---------------------------------------+\n");
  const Json rank = (*report)["ranks"].items()[1];
  CHECK(rank["environment"]["CUDA_VISIBLE_DEVICES"].text() == "0");
  CHECK(rank["cpus"].text() == "2-3");

  CHECK((*report)["links"].is_null());

  const auto elsewhere = parse_bind_options({"--topology", path, "--cpus", "8"});
  CHECK(preview(*elsewhere, "n").status().text() ==
        "--cpus: the node has none of \"8\"; it has 0-3");
  const auto map = parse_bind_options({"--topology", path, "--policy", "map:1"});
  CHECK(preview(*map, "n").status().text().rfind("gpu-bind=map names GPU 1, but", 0) == 0);
}

TEST_CASE("hvd-info bind: GPUs that are linked, as text and in its JSON") {
  test::Folder folder;
  const std::string path = folder.file("node.xml");
  FILE* file = fopen(path.c_str(), "w");
  REQUIRE(file != nullptr);
  fputs(R"(<topology version="2.0"><object type="Machine" cpuset="0xf">
<object type="Package" os_index="0" cpuset="0xf">
<object type="Core" cpuset="0x3"><object type="PU" cpuset="0x3"/></object>
<object type="PCIDev" gp_index="7" pci_busid="0000:01:00.0" pci_type="0380 [1002:7408]"/>
<object type="PCIDev" gp_index="8" pci_busid="0000:02:00.0" pci_type="0380 [1002:7408]"/>
<object type="PCIDev" gp_index="9" pci_busid="0000:03:00.0" pci_type="0380 [1002:7408]"/>
</object></object>
<distances2 type="PCIDev" nbobjs="3" kind="5" name="XGMIHops" indexing="gp">
<indexes length="6">7 8 9 </indexes><u64values length="18">0 2 1 2 0 0 1 0 0 </u64values>
</distances2></topology>)",
        file);
  REQUIRE(fclose(file) == 0);
  const auto report = preview(*parse_bind_options({"--topology", path}), "n");
  REQUIRE(report.ok());
  CHECK((*report)["links"].dump() ==
        R"([{"gpus": ["0000:01:00.0", "0000:03:00.0"], "mb_per_s": null}])");
  const std::string text = text_of_preview(*report);
  CHECK(text.substr(text.rfind("+\n") + 2) == "linked: 0,2\n");
}

}  // namespace
}  // namespace hvd::info
