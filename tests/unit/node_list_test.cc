// SPDX-License-Identifier: Apache-2.0
//
// Slurm's short form of a list of nodes.
#include "spank/node_list.h"

#include "tests/unit/catch.h"

using hvd::name_in_list;

TEST_CASE("a name is found at its place in the list", "[spank]") {
  const struct {
    const char* list;
    int index;
    const char* name;
  } cases[] = {
      {"node0", 0, "node0"},
      {"login,gpu,big-mem", 2, "big-mem"},
      {"node[0-3]", 0, "node0"},
      {"node[0-3]", 3, "node3"},
      {"node[0,2]", 1, "node2"},
      {"node[0-1,7,9-10]", 2, "node7"},
      {"node[0-1,7,9-10]", 4, "node10"},
      {"node[9-11]", 1, "node10"},
      {"node[08-11]", 0, "node08"},
      {"node[08-11]", 2, "node10"},
      {"node[098-101]", 3, "node101"},
      {"gpu07,node[1-2],x", 0, "gpu07"},
      {"gpu07,node[1-2],x", 2, "node2"},
      {"gpu07,node[1-2],x", 3, "x"},
      {"n[0-1]-ib", 1, "n1-ib"},
      {"rack[0-1]node[0-2]", 2, "rack0node2"},
      {"rack[0-1]node[0-2]", 4, "rack1node1"},
      {"a[1-2],b[1-2]", 2, "b1"},
      {"node[0-2147483645]", 2000000000, "node2000000000"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.list, c.index);
    const auto name = name_in_list(c.list, c.index);
    REQUIRE(name.ok());
    CHECK(*name == c.name);
  }
}

TEST_CASE("what is no list, or too short a one, is told", "[spank]") {
  for (const char* list :
       {"", ",", "a,", ",a", "a,,b", "node[", "node]", "node[]", "node[1", "node[1-]", "node[-1]",
        "node[3-1]", "node[x]", "node[0,,1]", "node[[0]]", "node[0]]",
        "node[0-99999999999999999999]", "node[0-2147483647]", "n[0-99999]m[0-99999]"}) {
    CAPTURE(list);
    const auto name = name_in_list(list, 5);
    REQUIRE_FALSE(name.ok());
    CHECK(name.status().text() == "\"" + std::string(list) + "\" is not a list of nodes");
  }
  CHECK(name_in_list("gpu07,node[1-2]", 3).status().text() ==
        "\"gpu07,node[1-2]\" has 3 nodes, and number 3 is none of them");
}
