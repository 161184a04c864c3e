// SPDX-License-Identifier: Apache-2.0
//
// env=torch: what torch.distributed finds, from what Slurm tells each task.
#include "spank/torch_variables.h"

#include <map>
#include <set>
#include <string>

#include "tests/unit/catch.h"

using hvd::Handoff;
using hvd::Layout;

namespace {

using Environment = std::map<std::string, std::string>;

// Where each rank's node is in the list, and what each task of the step has.
struct Step {
  std::vector<int> node_of;
  std::vector<std::string> nodes;  // names, in the order of the list
  Environment environment;
  std::string id = "12.0";
};

hvd::Expected<hvd::Variables> variables_of(const Step& step, int rank) {
  const Layout layout = *hvd::layout_from_nodes(step.node_of);
  Handoff handoff;
  handoff.step = step.id;
  handoff.node = layout.node_of[rank];
  handoff.placement = {rank,
                       layout.size,
                       layout.local_rank[rank],
                       layout.local_size(rank),
                       layout.cross_rank(rank),
                       layout.cross_size(rank)};
  return torch_variables(layout, handoff, step.nodes[handoff.node], [&](const char* name) {
    const auto found = step.environment.find(name);
    return found == step.environment.end() ? nullptr : found->second.c_str();
  });
}

Environment found(const Step& step, int rank) {
  const auto variables = variables_of(step, rank);
  INFO(variables.status().text());
  REQUIRE(variables.ok());
  return Environment(variables->begin(), variables->end());
}

const Step kBlock = {{0, 0, 1, 1}, {"node0", "node1"}, {{"SLURM_STEP_NODELIST", "node[0-1]"}}};

}  // namespace

TEST_CASE("a task finds torchrun's variables", "[spank]") {
  CHECK(found(kBlock, 3) == Environment{{"RANK", "3"},
                                        {"WORLD_SIZE", "4"},
                                        {"LOCAL_RANK", "1"},
                                        {"LOCAL_WORLD_SIZE", "2"},
                                        {"GROUP_RANK", "1"},
                                        {"NODE_RANK", "1"},
                                        {"MASTER_ADDR", "node0"},
                                        {"MASTER_PORT", "20732"}});
}

TEST_CASE("all ranks have one address and port, the node of rank 0, which is number 0", "[spank]") {
  const struct {
    const char* what;
    Step step;
    const char* address;
  } cases[] = {
      {"block", kBlock, "node0"},
      {"cyclic", {{0, 1, 2, 0, 1}, {"a3", "a4", "b"}, {{"SLURM_STEP_NODELIST", "a[3-4],b"}}}, "a3"},
      // As seen with SLURM_HOSTFILE and --distribution=arbitrary.
      {"arbitrary",
       {{1, 0, 1}, {"node0", "node2"}, {{"SLURM_STEP_NODELIST", "node[0,2]"}}},
       "node2"},
      // As seen of `srun -w node3 -n1 : -w node0 -n2`.
      {"heterogeneous",
       {{1, 0, 0},
        {"node0", "node3"},
        {{"SLURM_STEP_NODELIST", "node[0,3]"}, {"SLURM_HET_SIZE", "2"}}},
       "node3"},
  };
  for (const auto& c : cases) {
    std::set<std::string> ports;
    for (int rank = 0; rank < static_cast<int>(c.step.node_of.size()); ++rank) {
      CAPTURE(c.what, rank);
      const Environment all = found(c.step, rank);
      CHECK(all.at("MASTER_ADDR") == c.address);
      const bool with_first = c.step.node_of[rank] == c.step.node_of[0];
      CHECK((all.at("GROUP_RANK") == "0") == with_first);
      ports.insert(all.at("MASTER_PORT"));
    }
    CHECK(ports.size() == 1);
  }
}

TEST_CASE("the user's address and port stay, an empty one is none", "[spank]") {
  Step step = kBlock;
  step.environment["MASTER_ADDR"] = "10.0.0.1";
  CHECK(found(step, 0).count("MASTER_ADDR") == 0);
  CHECK(found(step, 0).at("MASTER_PORT") == "20732");
  step.environment.erase("SLURM_STEP_NODELIST");  // not needed then
  CHECK(found(step, 0).count("MASTER_ADDR") == 0);
  step = kBlock;
  step.environment["MASTER_ADDR"] = "";
  step.environment["MASTER_PORT"] = "4711";
  CHECK(found(step, 0).at("MASTER_ADDR") == "node0");
  CHECK(found(step, 0).count("MASTER_PORT") == 0);
}

TEST_CASE("a port that Slurm has reserved for the step comes first", "[spank]") {
  const struct {
    const char* reserved;
    const char* components;
    const char* port;
  } cases[] = {
      {"12000", "", "12000"},        {"12000-12003", "", "12000"}, {"12007,12009", "", "12007"},
      {"12007,12009", "2", "20732"},  // other ports for each component
      {"(null)", "", "20732"},       {"-3", "", "20732"},          {"0", "", "20732"},
      {"65536", "", "20732"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.reserved, c.components);
    Step step = kBlock;
    step.environment["SLURM_STEP_RESV_PORTS"] = c.reserved;
    step.environment["SLURM_HET_SIZE"] = c.components;
    CHECK(found(step, 1).at("MASTER_PORT") == c.port);
  }
}

TEST_CASE("jobs and steps that run beside each other have ports of their own", "[spank]") {
  std::set<int> ports;
  for (int job = 4000000; job < 4000134; ++job) {
    for (int step = 0; step < 61; ++step) {
      const int port = hvd::port_of_step(std::to_string(job) + "." + std::to_string(step));
      // Below what Linux gives away, above Slurm's own and those of its examples.
      CHECK((port >= 20000 && port < 28192));
      CHECK(ports.insert(port).second);
    }
  }
  CHECK(hvd::port_of_step("4294967295.4294967279") >= 20000);
}

TEST_CASE("an address that cannot be found is said, with the way out", "[spank]") {
  const struct {
    const char* list;
    const char* text;
  } cases[] = {
      {"", "env=torch: Slurm has not set SLURM_STEP_NODELIST"},
      {"node[0", "env=torch: SLURM_STEP_NODELIST: \"node[0\" is not a list of nodes"},
      {"node0",
       "env=torch: SLURM_STEP_NODELIST: \"node0\" has 1 nodes, and number 1 is none of them"},
      {"node[0,2]",
       "env=torch: node 1 of SLURM_STEP_NODELIST \"node[0,2]\" is node2, but this is node1"},
  };
  for (const auto& c : cases) {
    Step step = kBlock;
    step.environment["SLURM_STEP_NODELIST"] = c.list;
    const auto variables = variables_of(step, 2);
    REQUIRE_FALSE(variables.ok());
    CHECK(variables.status().text() ==
          std::string(c.text) + ". Set MASTER_ADDR to the host of rank 0");
  }
}
