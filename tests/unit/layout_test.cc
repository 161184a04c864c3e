// SPDX-License-Identifier: Apache-2.0
//
// Local and cross ranks of every distribution that Slurm can make, and the texts of those that
// it cannot.
#include "libhvd/topo/layout.h"

#include "tests/unit/catch.h"

using hvd::Code;
using hvd::Expected;
using hvd::Layout;

namespace {

struct Case {
  const char* what;
  const char* mapping;
  std::vector<int> node_of;
  std::vector<int> local_rank;
  std::vector<int> local_size;
  std::vector<int> cross_rank;
  std::vector<int> cross_size;
  bool homogeneous;
};

const Case kCases[] = {
    {"one rank", "(vector,(0,1,1))", {0}, {0}, {1}, {0}, {1}, true},
    {"4 nodes of 2, block",
     "(vector,(0,4,2))",
     {0, 0, 1, 1, 2, 2, 3, 3},
     {0, 1, 0, 1, 0, 1, 0, 1},
     {2, 2, 2, 2, 2, 2, 2, 2},
     {0, 0, 1, 1, 2, 2, 3, 3},
     {4, 4, 4, 4, 4, 4, 4, 4},
     true},
    {"4 nodes of 2, cyclic",
     "(vector,(0,4,1),(0,4,1))",
     {0, 1, 2, 3, 0, 1, 2, 3},
     {0, 0, 0, 0, 1, 1, 1, 1},
     {2, 2, 2, 2, 2, 2, 2, 2},
     {0, 1, 2, 3, 0, 1, 2, 3},
     {4, 4, 4, 4, 4, 4, 4, 4},
     true},
    {"5, 1, 1, 1, block",
     "(vector,(0,1,5),(1,3,1))",
     {0, 0, 0, 0, 0, 1, 2, 3},
     {0, 1, 2, 3, 4, 0, 0, 0},
     {5, 5, 5, 5, 5, 1, 1, 1},
     {0, 0, 0, 0, 0, 1, 2, 3},
     {4, 1, 1, 1, 1, 4, 4, 4},
     false},
    {"5, 1, 1, 1, cyclic",
     "(vector,(0,4,1),(0,1,4))",
     {0, 1, 2, 3, 0, 0, 0, 0},
     {0, 0, 0, 0, 1, 2, 3, 4},
     {5, 1, 1, 1, 5, 5, 5, 5},
     {0, 1, 2, 3, 0, 0, 0, 0},
     {4, 4, 4, 4, 1, 1, 1, 1},
     false},
    {"a heterogeneous job of 3 and 2 x 1",
     "(vector,(0,1,3),(1,2,1))",
     {0, 0, 0, 1, 2},
     {0, 1, 2, 0, 0},
     {3, 3, 3, 1, 1},
     {0, 0, 0, 1, 2},
     {3, 1, 1, 3, 3},
     false},
    {"the small node first: cross ranks skip it",
     "(vector,(0,1,1),(1,2,2))",
     {0, 1, 1, 2, 2},
     {0, 0, 1, 0, 1},
     {1, 2, 2, 2, 2},
     {0, 1, 0, 2, 1},
     {3, 3, 2, 3, 2},
     false},
    {"blanks and an empty block",
     " ( vector , ( 1 , 1 , 1 ) , ( 0 , 1 , 1 ) , ( 7 , 0 , 3 ) ) ",
     {1, 0},
     {0, 0},
     {1, 1},
     {1, 0},
     {2, 2},
     true},
};

}  // namespace

TEST_CASE("a mapping gives every rank its node, local rank and cross rank", "[topo]") {
  for (const Case& c : kCases) {
    INFO(c.what);
    const int size = static_cast<int>(c.node_of.size());
    const auto nodes = hvd::nodes_from_mapping(c.mapping, size);
    REQUIRE(nodes.ok());
    CHECK(nodes.value() == c.node_of);
    const auto layout = hvd::layout_from_nodes(nodes.value());
    REQUIRE(layout.ok());
    CHECK(layout->size == size);
    CHECK(layout->local_rank == c.local_rank);
    CHECK(layout->homogeneous() == c.homogeneous);
    for (int rank = 0; rank < size; ++rank) {
      INFO("rank " << rank);
      CHECK(layout->local_size(rank) == c.local_size[rank]);
      CHECK(layout->cross_rank(rank) == c.cross_rank[rank]);
      CHECK(layout->cross_size(rank) == c.cross_size[rank]);
    }
  }
}

TEST_CASE("the first rank of a node leads it", "[topo]") {
  const auto layout = hvd::layout_from_nodes({1, 0, 1, 0, 2});
  REQUIRE(layout.ok());
  CHECK(layout->nodes() == 3);
  CHECK(layout->leader(0) == 1);
  CHECK(layout->leader(1) == 0);
  CHECK(layout->leader(2) == 4);
}

TEST_CASE("names give the same layout as the node numbers they stand for", "[topo]") {
  const Layout layout = hvd::layout_from_names({"b", "a", "b", "c", "a"});
  CHECK(layout.size == 5);
  CHECK(layout.node_of == std::vector<int>{0, 1, 0, 2, 1});
  CHECK(layout.local_rank == std::vector<int>{0, 0, 1, 0, 1});
  CHECK(layout.ranks == std::vector<std::vector<int>>{{0, 2}, {1, 4}, {3}});
}

TEST_CASE("a mapping that is not one is refused with its text", "[topo]") {
  const struct {
    const char* mapping;
    int size;
    const char* text;
  } cases[] = {
      {"", 1, "the mapping \"\" is not \"(vector,...)\""},
      {"vector,(0,1,1)", 1, "the mapping \"vector,(0,1,1)\" is not \"(vector,...)\""},
      {"(vector,(0,2,2))", 5, "the mapping \"(vector,(0,2,2))\" places 4 ranks, not 5"},
      {"(vector,(0,2,2))", 3, "the mapping \"(vector,(0,2,2))\" places more than 3 ranks"},
      {"(vector,(0,2147483647,2147483647))", 3,
       "the mapping \"(vector,(0,2147483647,2147483647))\" places more than 3 ranks"},
      {"(vector,(2147483647,2,1))", 2,
       "the mapping \"(vector,(2147483647,2,1))\" has a node number that is too large"},
      {"(vector,(0,1,99999999999999999999))", 1,
       "the mapping \"(vector,(0,1,99999999999999999999))\" has a block that is not "
       "\"(first node,nodes,ranks per node)\""},
      {"(vector,(0,-1,1))", 1,
       "the mapping \"(vector,(0,-1,1))\" has a block that is not "
       "\"(first node,nodes,ranks per node)\""},
      {"(vector,(0,1))", 1,
       "the mapping \"(vector,(0,1))\" has a block that is not "
       "\"(first node,nodes,ranks per node)\""},
      {"(vector,(0,1,1)", 1, "the mapping \"(vector,(0,1,1)\" does not end with one \")\""},
      {"(vector,(0,1,1)))", 1, "the mapping \"(vector,(0,1,1)))\" does not end with one \")\""},
      {"(vector)", 1, "the mapping \"(vector)\" places 0 ranks, not 1"},
      {"(vector,(0,1,2147483647))", 2147483647,
       "the mapping \"(vector,(0,1,2147483647))\" is of 2147483647 ranks; a job can have 16777216"},
  };
  for (const auto& c : cases) {
    INFO(c.mapping);
    const auto nodes = hvd::nodes_from_mapping(c.mapping, c.size);
    REQUIRE_FALSE(nodes.ok());
    CHECK(nodes.status().code() == Code::kInvalid);
    CHECK(nodes.status().text() == c.text);
  }
}

TEST_CASE("node numbers with a hole, below 0 or above the ranks are refused", "[topo]") {
  CHECK(hvd::layout_from_nodes({}).status().text() == "a job has no ranks");
  CHECK(hvd::layout_from_nodes({0, 2, 2}).status().text() == "node 1 has no rank");
  CHECK(hvd::layout_from_nodes({0, -1}).status().text() ==
        "rank 1 is on node -1, and 2 ranks can fill nodes 0 to 1 only");
  CHECK(hvd::layout_from_nodes({0, 2000000000}).status().text() ==
        "rank 1 is on node 2000000000, and 2 ranks can fill nodes 0 to 1 only");
}
