// SPDX-License-Identifier: Apache-2.0
//
// The rest of the agreement's thinking, without any rank: announcers, messages, the tree.
#include <optional>
#include <string>
#include <vector>

#include "libhvd/control/announcer.h"
#include "libhvd/control/tree.h"
#include "tests/unit/catch.h"
#include "tests/unit/control_words.h"

using namespace hvd;
using namespace hvd::test;

TEST_CASE("a rank says before its next announcement which evictions it has read") {
  Announcer announcer(7);
  CHECK(announcer.announce(key("a"), floats(1)).kind == Report::Kind::kSubmit);
  announcer.apply(defined(3, "a", floats(1)));
  CHECK(told({announcer.announce(key("a"), floats(1))}) == "ready 3");
  CHECK(announcer.announce(key("a"), floats(2)).kind == Report::Kind::kSubmit);
  CHECK_FALSE(announcer.forgotten());
  announcer.apply(evicted(3));
  REQUIRE(announcer.find(3) == nullptr);
  const std::optional<Report> said = announcer.forgotten();
  REQUIRE(said);
  CHECK(said->kind == Report::Kind::kForgotten);
  CHECK(said->evictions == 1);
  CHECK_FALSE(announcer.forgotten());
  CHECK(announcer.announce(key("a"), floats(1)).kind == Report::Kind::kSubmit);
}

TEST_CASE(
    "a rank says that it was the last, for it knows of no other, and that nobody has joined") {
  Announcer announcer(7);
  CHECK(announcer.announce(key("a"), floats(1)).last == 7);
  CHECK(announcer.announce(key("a"), floats(1)).joined == -1);
  announcer.apply(defined(3, "a", floats(1)));
  const Report report = announcer.announce(key("a"), floats(1));
  REQUIRE(report.tickets.size() == 1);
  CHECK(report.tickets[0].last == 7);
  CHECK(report.tickets[0].joined == -1);
}

TEST_CASE("a ticket is for a name in its process set") {
  Announcer announcer(0);
  announcer.apply(defined(3, key("a"), floats(1)));
  announcer.apply(defined(4, key("a", 2), floats(1)));
  CHECK(told({announcer.announce(key("a"), floats(1))}) == "ready 3");
  CHECK(told({announcer.announce(key("a", 2), floats(1))}) == "ready 4");
  CHECK(told({announcer.announce(key("a", 1), floats(1))}) == "submit 1:a");
  REQUIRE(announcer.find(4) != nullptr);
  CHECK(announcer.find(4)->key == key("a", 2));
  CHECK(announcer.find(4)->description == floats(1));
  // In place of an older one.
  announcer.apply(defined(5, key("a", 2), floats(9)));
  CHECK(announcer.find(4) == nullptr);
  CHECK(told({announcer.announce(key("a", 2), floats(9))}) == "ready 5");
  CHECK(announcer.size() == 2);
  announcer.apply(of_kind(Entry::Kind::kEpochEnd));
  CHECK(announcer.find(3) == nullptr);
  CHECK(announcer.size() == 0);
}

TEST_CASE("messages come back as they were, and no part of one is taken for a whole") {
  Report report = submitted(key("name", 300), floats(7), 4);
  report.opinions.push_back({floats(8), {1, 2, 3}});
  const std::string bytes = report.encode();
  REQUIRE(Report::decode(bytes));
  CHECK(Report::decode(bytes)->encode() == bytes);
  for (size_t n = 0; n < bytes.size(); ++n) CHECK_FALSE(Report::decode(bytes.substr(0, n)));
  CHECK_FALSE(Report::decode(bytes + "x"));
  std::string huge = ready(1).encode();
  huge[1] = huge[2] = huge[3] = '\xff';  // a count that nothing is behind
  CHECK_FALSE(Report::decode(huge));
}

TEST_CASE("every node but the root is the child of exactly one node") {
  for (int nodes : {1, 2, 16, 17, 18, 300, 5000}) {
    std::vector<int> parents(static_cast<size_t>(nodes), 0);
    for (int node = 0; node < nodes; ++node) {
      for (int child : tree_children(node, nodes)) {
        CHECK(tree_parent(child) == node);
        ++parents[static_cast<size_t>(child)];
      }
    }
    CHECK(parents[0] == 0);
    for (int node = 1; node < nodes; ++node) REQUIRE(parents[static_cast<size_t>(node)] == 1);
  }
}
