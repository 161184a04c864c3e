// SPDX-License-Identifier: Apache-2.0
//
// The root's part of the stall watch: whom it asks, when it knows enough, and what it says.
#include "libhvd/control/stall_watch.h"

#include <string>
#include <vector>

#include "tests/unit/catch.h"
#include "tests/unit/control_words.h"

using namespace hvd;
using namespace hvd::test;

namespace {

constexpr int64_t kSecond = 1000000000;

Report answer(const Entry& question, int rank, bool submitted, const std::string& waits_in = "") {
  Report report;
  report.kind = Report::Kind::kAnswer;
  report.question = question.ticket;
  report.rank = rank;
  report.submitted = submitted;
  report.text = waits_in;
  return report;
}

std::string place(int rank) {
  return "rank " + std::to_string(rank) + " on node" + std::to_string(rank / 2);
}

std::string told(const std::vector<Stall>& stalls) {
  std::string text;
  for (const Stall& stall : stalls) {
    text += (text.empty() ? "" : "\n") + stall_text(stall, 60, place);
  }
  return text;
}

}  // namespace

TEST_CASE("the root asks the members once, and tells once all have answered") {
  StallWatch watch;
  CHECK(watch.due_ns() == INT64_MAX);
  const Entry question = watch.ask(stalled(key("grad"), 0), {0, 1, 2, 3}, {}, kSecond);
  CHECK(question.kind == Entry::Kind::kAsk);
  CHECK(question.key == key("grad"));
  CHECK(watch.due_ns() > kSecond);
  CHECK(watch.due_ns() < INT64_MAX);
  watch.take(answer(question, 0, true));
  watch.take(answer(question, 1, false, "allreduce \"other\""));
  watch.take(answer(question, 2, false));
  watch.take(answer(question, 2, false));
  CHECK(watch.finished(kSecond).empty());
  watch.take(answer(question, 3, true));
  const std::vector<Stall> stalls = watch.finished(kSecond);
  CHECK(told(stalls) ==
        "allreduce \"grad\" is not submitted by all ranks after 60 s: missing rank 1 on node0 "
        "(waits in allreduce \"other\"), rank 2 on node1 (waits in no operation); submitted by "
        "rank 0 on node0, rank 3 on node1");
  REQUIRE(stalls.size() == 1);
  CHECK_FALSE(stalls[0].final);
  CHECK(watch.finished(kSecond).empty());
  CHECK(watch.due_ns() == INT64_MAX);
}

TEST_CASE("who does not answer in time is told to be stopped, and no earlier") {
  StallWatch watch;
  const Entry question = watch.ask(stalled(key("x", 4), 2, true), {0, 2}, {}, 0);
  watch.take(answer(question, 2, true));
  const int64_t due = watch.due_ns();
  CHECK(watch.finished(due - 1).empty());
  const std::vector<Stall> stalls = watch.finished(due);
  REQUIRE(stalls.size() == 1);
  CHECK(stalls[0].final);
  CHECK(told(stalls) ==
        "allreduce \"x\" of process set 4 is not submitted by all ranks after 60 s: missing rank 0 "
        "on node0 (does not answer: is it stopped?); submitted by rank 2 on node1");
  watch.take(answer(question, 0, true));  // too late, and no harm
  CHECK(watch.finished(due).empty());
}

TEST_CASE("what is there by now, is the reporter's no more, or is nobody's, is not told") {
  StallWatch watch;
  const Entry all_there = watch.ask(stalled(key("a"), 0), {0, 1}, {}, 0);
  watch.take(answer(all_there, 0, true));
  watch.take(answer(all_there, 1, true));
  CHECK(watch.finished(0).empty());

  const Entry gone_by = watch.ask(stalled(key("b"), 0), {0, 1}, {}, 0);
  watch.take(answer(gone_by, 0, false));
  watch.take(answer(gone_by, 1, false));
  CHECK(watch.finished(0).empty());

  watch.ask(stalled(key("c", 9), 0), {}, {}, 0);  // its set was removed meanwhile
  CHECK(watch.finished(0).empty());

  watch.ask(stalled(key("d"), 0), {0, 1}, {}, 0);
  watch.clear();
  CHECK(watch.due_ns() == INT64_MAX);
  CHECK(watch.finished(INT64_MAX).empty());
}

TEST_CASE("a joined rank is not asked and not missed, and its word does not stand for another's") {
  StallWatch watch;
  const Entry question = watch.ask(stalled(key("x"), 0), {0, 1, 2}, {1, 7}, 0);
  watch.take(answer(question, 0, true));
  watch.take(answer(question, 1, true));
  watch.take(answer(question, 7, true));
  CHECK(watch.finished(0).empty());
  watch.take(answer(question, 2, false, "join"));
  CHECK(told(watch.finished(0)) ==
        "allreduce \"x\" is not submitted by all ranks after 60 s: missing rank 2 on node1 (waits "
        "in join); submitted by rank 0 on node0, rank 1 on node0");
}

TEST_CASE("several questions are open at a time, each with its own answers, told as asked") {
  StallWatch watch;
  const Entry first = watch.ask(stalled(key("a"), 0), {0, 1}, {}, 0);
  const Entry second = watch.ask(stalled(key("a", 3), 1), {0, 1}, {}, 0);
  CHECK(first.ticket != second.ticket);
  for (int rank : {0, 1}) watch.take(answer(second, rank, rank == 1));
  watch.take(answer(first, 0, true));
  std::vector<Stall> stalls = watch.finished(0);
  REQUIRE(stalls.size() == 1);
  CHECK(stalls[0].key == key("a", 3));
  watch.take(answer(first, 1, false));
  stalls = watch.finished(0);
  REQUIRE(stalls.size() == 1);
  CHECK(stalls[0].key == key("a"));
}

TEST_CASE("of many ranks a few are told with their hosts, the rest by numbers") {
  Stall stall;
  stall.key = key("x");
  stall.kind = "grouped allgather";
  for (int rank = 0; rank < 12; ++rank) stall.missing.push_back({rank, true, ""});
  for (int rank = 12; rank < 40; ++rank) stall.ready.push_back(rank);
  const std::string text = stall_text(stall, 0.5, place);
  CHECK(text.find("grouped allgather \"x\" is not submitted by all ranks after 0.5 s: missing rank "
                  "0 on node0 (waits in no operation), rank 1 on node0 ") == 0);
  CHECK(text.find("rank 7 on node3 (waits in no operation) and rank 8-11; submitted by rank "
                  "12-39") != std::string::npos);
  CHECK(text.find("node4") == std::string::npos);
}
