// SPDX-License-Identifier: Apache-2.0
//
// A leader's half of the agreement: who has to speak, what is passed up, what is remembered.
#include "libhvd/control/aggregator.h"

#include <string>
#include <vector>

#include "tests/unit/catch.h"
#include "tests/unit/control_words.h"

using namespace hvd;
using namespace hvd::test;

namespace {

// An aggregator over ranks 0, 1 and, below another leader, 4 and 5, that knows process set 1.
struct WithSet {
  explicit WithSet(std::vector<int32_t> members) {
    aggregator.apply(defined(1, "add", adding(std::move(members))));
    aggregator.apply(batch({{1, 0, -1}}));
  }
  std::string told() { return test::told(aggregator.drain()); }

  Aggregator aggregator{{{0}, {1}, {4, 5}}};
};

}  // namespace

TEST_CASE("an aggregator speaks once all children have, and once only") {
  Aggregator aggregator({{0}, {1}, {4, 5}});
  aggregator.take(0, submitted("a", floats(1)));
  aggregator.take(0, submitted("a", floats(1)));
  aggregator.take(2, submitted("a", floats(1)));
  CHECK(aggregator.drain().empty());
  CHECK(aggregator.incomplete() == 1);
  aggregator.take(1, submitted("a", floats(1)));
  std::vector<Report> said = aggregator.drain();
  REQUIRE(said.size() == 1);
  CHECK(said[0].opinions.size() == 1);
  CHECK(said[0].opinions[0].ranks.empty());
  CHECK(aggregator.incomplete() == 0);
}

TEST_CASE("an aggregator passes different descriptions up with their ranks") {
  Aggregator aggregator({{0}, {1}, {4, 5}});
  aggregator.take(2, submitted("a", floats(1)));
  aggregator.take(0, submitted("a", floats(2)));
  aggregator.take(1, submitted("a", floats(1)));
  std::vector<Report> said = aggregator.drain();
  REQUIRE(said.size() == 1);
  REQUIRE(said[0].opinions.size() == 2);
  CHECK(said[0].opinions[0].ranks == std::vector<int>{1, 4, 5});
  CHECK(said[0].opinions[1].ranks == std::vector<int>{0});
}

TEST_CASE("a ticket and a description of the same name meet") {
  Aggregator aggregator({{0}, {1}});
  aggregator.apply(defined(9, "a", floats(1)));
  aggregator.take(0, ready(9));
  aggregator.take(1, submitted("a", floats(2)));
  std::vector<Report> said = aggregator.drain();
  REQUIRE(said.size() == 1);
  REQUIRE(said[0].opinions.size() == 2);
}

TEST_CASE("an evicted ticket counts as its description until every child has forgotten it") {
  Aggregator aggregator({{0}, {1}});
  aggregator.apply(defined(9, "a", floats(1)));
  aggregator.take(0, ready(9));
  aggregator.apply(evicted(9));
  CHECK(aggregator.remembered() == 1);
  aggregator.take(1, ready(9));  // said before rank 1 has read the eviction
  std::vector<Report> said = aggregator.drain();
  REQUIRE(said.size() == 2);
  CHECK(said[0].kind == Report::Kind::kForgotten);
  CHECK(said[0].evictions == 1);
  CHECK(said[1].kind == Report::Kind::kSubmit);
  REQUIRE(said[1].opinions.size() == 1);
  CHECK(said[1].opinions[0].description == floats(1));
  CHECK(said[1].opinions[0].ranks.empty());
  for (int child : {0, 1}) {
    CHECK(aggregator.remembered() == 1);
    aggregator.take(child, forgotten(1));
  }
  CHECK(aggregator.remembered() == 0);
  aggregator.take(0, ready(9));
  CHECK(aggregator.incomplete() == 0);
}

TEST_CASE("an eviction that crosses a disagreement leaves nothing behind for the name's next use") {
  Aggregator aggregator({{0}, {1}});
  aggregator.apply(defined(9, "a", floats(1)));
  aggregator.take(0, ready(9));
  aggregator.take(1, submitted("a", floats(2)));
  CHECK(aggregator.drain().size() == 1);
  aggregator.apply(evicted(9));
  aggregator.apply(failed(key("a")));
  aggregator.take(0, submitted("a", floats(3)));
  aggregator.take(1, submitted("a", floats(3)));
  const std::vector<Report> said = aggregator.drain();
  REQUIRE(said.size() == 2);
  REQUIRE(said[1].opinions.size() == 1);
  CHECK(said[1].opinions[0].description == floats(3));
}

TEST_CASE("of a process set those children speak that have members below") {
  const struct {
    const char* what;
    std::vector<int32_t> members;
    std::vector<int> children;  // that have any
  } cases[] = {
      {"a rank of the node", {1}, {1}},
      {"two ranks of the node", {0, 1}, {0, 1}},
      {"one of two below", {0, 5}, {0, 2}},
      {"both below", {4, 5}, {2}},
      {"others elsewhere too", {1, 3, 4, 9}, {1, 2}},
      {"all", {0, 1, 4, 5}, {0, 1, 2}},
  };
  for (const auto& c : cases) {
    for (bool by_ticket : {false, true}) {
      WithSet with(c.members);
      Aggregator& aggregator = with.aggregator;
      if (by_ticket) aggregator.apply(defined(2, key("x", 1), floats(1)));
      const Report word = by_ticket ? ready(2) : submitted(key("x", 1), floats(1));
      for (size_t i = 0; i < c.children.size(); ++i) {
        INFO(c.what << (by_ticket ? ", by ticket" : ", by name"));
        CHECK(aggregator.take(c.children[i], word));
        const bool last = i + 1 == c.children.size();
        CHECK(with.told() == (!last ? "" : by_ticket ? "ready 2" : "submit 1:x"));
        CHECK(aggregator.incomplete() == (last ? 0 : 1));
      }
    }
  }
}

TEST_CASE("who has no member below has nothing to say about a set") {
  WithSet with({1, 4});
  with.aggregator.take(0, submitted(key("x", 1), floats(1)));
  with.aggregator.take(0, submitted(key("x", 1), floats(2)));
  CHECK(with.aggregator.incomplete() == 0);
  with.aggregator.take(1, submitted(key("x", 1), floats(1)));
  CHECK(with.told() == "");
  with.aggregator.take(2, submitted(key("x", 1), floats(1)));
  CHECK(with.told() == "submit 1:x");
}

TEST_CASE("a name means another thing in each process set") {
  WithSet with({0, 1});
  Aggregator& aggregator = with.aggregator;
  aggregator.take(0, submitted("x", floats(1)));
  aggregator.take(0, submitted(key("x", 1), floats(2)));
  CHECK(aggregator.incomplete() == 2);
  aggregator.take(1, submitted(key("x", 1), floats(2)));
  CHECK(with.told() == "submit 1:x");
  aggregator.take(2, submitted("x", floats(1)));
  aggregator.take(1, submitted("x", floats(3)));
  const std::vector<Report> said = aggregator.drain();
  REQUIRE(said.size() == 1);
  REQUIRE(said[0].opinions.size() == 2);
  CHECK(said[0].opinions[0].ranks == std::vector<int>{0, 4, 5});
}

TEST_CASE("members of a set that differ are told without those below that are none") {
  WithSet with({0, 1, 5});
  with.aggregator.apply(defined(2, key("x", 1), floats(1)));
  with.aggregator.take(2, ready(2));
  with.aggregator.take(0, submitted(key("x", 1), floats(2)));
  with.aggregator.take(1, submitted(key("x", 1), floats(2)));
  const std::vector<Report> said = with.aggregator.drain();
  REQUIRE(said.size() == 1);
  REQUIRE(said[0].opinions.size() == 2);
  CHECK(said[0].opinions[0].ranks == std::vector<int>{0, 1});
  CHECK(said[0].opinions[1].ranks == std::vector<int>{5});
}

TEST_CASE("what is said of a removed set is dropped, be it early, late or by ticket") {
  WithSet with({0, 1});
  Aggregator& aggregator = with.aggregator;
  aggregator.apply(defined(2, key("x", 1), floats(1)));
  aggregator.apply(defined(3, "remove", removing(1)));
  aggregator.take(0, ready(2));
  aggregator.take(0, submitted(key("y", 1), floats(1)));
  aggregator.take(0, submitted("x", floats(1)));
  CHECK(aggregator.incomplete() == 3);
  aggregator.apply(evicted(2));
  aggregator.apply(batch({{3, 0, -1}}));
  CHECK(aggregator.sets() == 1);
  CHECK(aggregator.incomplete() == 1);
  const size_t names = aggregator.names();
  aggregator.take(1, ready(2));
  CHECK(aggregator.take(1, submitted(key("y", 1), floats(1))));
  CHECK(aggregator.take(1, stalled(key("y", 1), 1)));
  CHECK(with.told() == "");
  CHECK(aggregator.incomplete() == 1);
  CHECK(aggregator.names() == names);
  // The next set has another number.
  aggregator.apply(batch({{1, 0, -1}}));
  aggregator.take(1, submitted(key("y", 1), floats(1)));
  CHECK(with.told() == "");
  for (int child : {0, 1}) aggregator.take(child, submitted(key("y", 2), floats(1)));
  CHECK(with.told() == "forgotten 1; submit 2:y");
}

TEST_CASE("a set comes with its batch, and all are gone with the epoch") {
  Aggregator aggregator({{0}, {1}});
  aggregator.apply(defined(7, "add", adding({0})));
  aggregator.take(0, submitted(key("x", 1), floats(1)));
  CHECK(aggregator.drain().empty());
  CHECK(aggregator.sets() == 1);
  for (int32_t set : {1, 2, 3}) {
    aggregator.apply(batch({{7, 0, -1}}));
    aggregator.take(0, submitted(key("x", set), floats(1)));
    CHECK(told(aggregator.drain()) == "submit " + std::to_string(set) + ":x");
  }
  aggregator.apply(of_kind(Entry::Kind::kEpochEnd));
  CHECK(aggregator.sets() == 1);
  CHECK(aggregator.names() == 0);
  aggregator.apply(defined(8, "add", adding({1})));
  aggregator.apply(batch({{8, 0, -1}}));
  aggregator.take(1, submitted(key("x", 1), floats(1)));
  CHECK(told(aggregator.drain()) == "submit 1:x");
}

TEST_CASE("a joined rank counts as one that has spoken, for every name of every set") {
  WithSet with({0, 1});
  Aggregator& aggregator = with.aggregator;
  aggregator.apply(defined(2, "cached", floats(1)));
  CHECK(aggregator.take(1, joins(1)));
  CHECK(with.told() == "join 1");
  aggregator.take(0, ready(2));
  aggregator.take(0, submitted("new", floats(1)));
  aggregator.take(0, submitted(key("x", 1), floats(1)));
  CHECK(with.told() == "submit 1:x, 1 joined");
  aggregator.take(2, submitted("new", floats(1)));
  aggregator.take(2, ready(2));
  CHECK(with.told() == "submit new, 1 joined; submit cached, 1 joined");
}

TEST_CASE("a joined rank has no opinion, even of what has a ticket") {
  Aggregator aggregator({{0}, {1}, {4, 5}});
  aggregator.apply(defined(2, "x", floats(1)));
  aggregator.take(1, joins(1));
  aggregator.take(0, ready(2));
  aggregator.take(2, submitted("x", floats(3)));
  std::vector<Report> said = aggregator.drain();
  REQUIRE(said.size() == 2);
  REQUIRE(said[1].opinions.size() == 2);
  CHECK(said[1].opinions[0].ranks == std::vector<int>{4, 5});
  CHECK(said[1].opinions[1].ranks == std::vector<int>{0});
  // Who hears it from a leader below does not count it either.
  Aggregator above({{8}, {0, 1, 4, 5}});
  above.apply(defined(2, "x", floats(1)));
  Report all_say_so = submitted(key("x"), floats(1), 1);
  all_say_so.opinions[0].ranks = {0, 4, 5};
  above.take(1, all_say_so);
  above.take(0, submitted("x", floats(3)));
  said = above.drain();
  REQUIRE(said.size() == 1);
  REQUIRE(said[0].opinions.size() == 2);
  CHECK(said[0].opinions[0].ranks == std::vector<int>{0, 4, 5});
  CHECK(said[0].opinions[1].ranks == std::vector<int>{8});
}

TEST_CASE("what waits for the joined rank alone is said before its join") {
  WithSet with({0, 1});
  Aggregator& aggregator = with.aggregator;
  aggregator.take(0, submitted("all", floats(1)));
  aggregator.take(0, submitted(key("x", 1), floats(1)));
  aggregator.take(2, submitted("all", floats(1)));
  aggregator.take(2, submitted("for 0 too", floats(1)));
  aggregator.take(1, submitted("for 0 too", floats(1)));
  CHECK(with.told() == "");
  aggregator.take(1, joins(1));
  const std::string told = with.told();
  const bool as_said = told == "submit all, 1 joined; submit 1:x, 1 joined; join 1" ||
                       told == "submit 1:x, 1 joined; submit all, 1 joined; join 1";
  INFO(told);
  CHECK(as_said);
  // What it said before it joined is its own.
  aggregator.take(0, submitted("for 0 too", floats(1)));
  CHECK(with.told() == "submit for 0 too");
  CHECK(aggregator.incomplete() == 0);
}

TEST_CASE("a subtree has joined for a name once all its members have") {
  Aggregator aggregator({{0}, {1, 2, 3}});
  aggregator.apply(defined(1, "add", adding({0, 2, 3})));
  aggregator.apply(batch({{1, 0, -1}}));
  aggregator.take(0, submitted("all", floats(1)));
  aggregator.take(0, submitted(key("x", 1), floats(1)));
  aggregator.take(1, joins(2));
  CHECK(told(aggregator.drain()) == "join 2");
  aggregator.take(1, joins(3));
  CHECK(told(aggregator.drain()) == "submit 1:x, 2 joined; join 3");
  aggregator.take(1, joins(1));
  CHECK(told(aggregator.drain()) == "submit all, 1 joined; join 1");
  // Of a subtree where some have, its leader speaks.
  Aggregator part({{0}, {1, 2, 3}});
  part.take(1, joins(2));
  part.take(0, submitted("x", floats(1)));
  CHECK(told(part.drain()) == "join 2");
  part.take(1, submitted(key("x"), floats(1), 2));
  CHECK(told(part.drain()) == "submit x, 2 joined");
}

TEST_CASE("a set that is added finds those of its members joined that have") {
  Aggregator aggregator({{0}, {1}});
  aggregator.apply(defined(1, "add", adding({0, 1})));
  aggregator.take(1, joins(1));
  aggregator.apply(batch({{1, 0, -1}}));
  aggregator.take(0, submitted(key("x", 1), floats(1)));
  CHECK(told(aggregator.drain()) == "join 1; submit 1:x, 1 joined");
}

TEST_CASE("the end of the join is its end: every rank has to speak again") {
  Aggregator aggregator({{0}, {1}});
  for (int round = 0; round < 2; ++round) {
    aggregator.take(1, joins(1));
    CHECK_FALSE(aggregator.take(1, joins(1)));  // nobody joins twice
    aggregator.take(0, submitted("x", floats(1)));
    CHECK(told(aggregator.drain()) == "join 1; submit x, 1 joined");
    aggregator.take(0, joins(0));
    aggregator.apply(of_kind(Entry::Kind::kJoined));
    aggregator.take(0, submitted("x", floats(1)));
    CHECK(told(aggregator.drain()) == "join 0");
    aggregator.take(1, submitted("x", floats(1)));
    CHECK(told(aggregator.drain()) == "submit x");
  }
  CHECK_FALSE(aggregator.take(0, joins(1)));  // that is another child's rank
}

TEST_CASE("of several that have joined the lowest is told, with who was the last to submit") {
  Aggregator aggregator({{0}, {1}, {4, 5}, {6}});
  aggregator.take(3, joins(6));
  aggregator.take(1, joins(1));
  aggregator.drain();
  Report report = submitted(key("x"), floats(1), 5);
  report.last = 4;
  aggregator.take(2, report);
  report = submitted("x", floats(1));
  report.last = 0;
  aggregator.take(0, report);
  const std::vector<Report> said = aggregator.drain();
  CHECK(told(said) == "submit x, 1 joined");
  CHECK(said[0].last == 0);
}

TEST_CASE("a name that stalls is asked about once until it runs or fails") {
  Aggregator aggregator({{0}, {1}, {4, 5}});
  aggregator.apply(defined(2, "x", floats(1)));
  aggregator.take(0, ready(2));
  const OpKey x = key("x");
  for (int time = 0; time < 3; ++time) {
    aggregator.take(0, stalled(x, 0));
    aggregator.take(2, stalled(x, 5));
    CHECK(told(aggregator.drain()) == "stalled x");
    // That it has waited too long is another thing.
    aggregator.take(2, stalled(x, 5, true));
    aggregator.take(0, stalled(x, 0, true));
    aggregator.take(0, stalled(x, 0));
    CHECK(told(aggregator.drain()) == "given up x");
    aggregator.apply(time == 0 ? failed(x) : batch({{2, 0, -1}}));
  }
}

TEST_CASE("a stalled name is asked about although its ticket is forgotten") {
  Aggregator aggregator({{0}, {1}});
  aggregator.apply(defined(2, "x", floats(1)));
  for (int child : {0, 1}) aggregator.take(child, ready(2));  // others are late
  CHECK(told(aggregator.drain()) == "ready 2");
  aggregator.apply(evicted(2));
  aggregator.take(1, stalled(key("x"), 1));
  aggregator.take(0, stalled(key("x"), 0));
  CHECK(told(aggregator.drain()) == "stalled x");
}

TEST_CASE("an answer for the root, and who leaves, is passed on as it is") {
  Aggregator aggregator({{0}, {1}});
  Report answer;
  answer.kind = Report::Kind::kAnswer;
  answer.question = 5;
  answer.rank = 1;
  answer.submitted = true;
  answer.text = "barrier";
  aggregator.take(1, answer);
  const std::vector<Report> said = aggregator.drain();
  REQUIRE(said.size() == 1);
  CHECK(said[0].encode() == answer.encode());
  CHECK_FALSE(aggregator.take(2, answer));  // there is no such child
  CHECK_FALSE(aggregator.take(-1, answer));
}
