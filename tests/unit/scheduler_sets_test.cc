// SPDX-License-Identifier: Apache-2.0
//
// The root's half of the agreement: process sets that come and go, and joins.
#include <string>
#include <vector>

#include "libhvd/control/scheduler.h"
#include "tests/unit/catch.h"
#include "tests/unit/control_words.h"
#include "tests/unit/scheduler_words.h"

using namespace hvd;
using namespace hvd::test;

namespace {

std::string text_of_failure(const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    if (entry.kind == Entry::Kind::kFail) return entry.text;
  }
  return "";
}

}  // namespace

TEST_CASE("process sets are numbered as they are added, and no number comes twice in an epoch") {
  Scheduler scheduler(many_batches(), 4);
  Told told;
  const auto change = [&](const std::string& name, const std::string& description) {
    scheduler.take(submitted(name, description), 0);
    scheduler.form(scheduler.formed(), 0);
    return told(scheduler.drain());
  };
  CHECK(scheduler.members(0) == std::vector<int>{0, 1, 2, 3});
  CHECK(scheduler.members(1).empty());
  CHECK(change("a", adding({1, 3})) == "define a; batch a");
  CHECK(scheduler.members(1) == std::vector<int>{1, 3});
  CHECK(change("b", adding({0})) == "define b; batch b");
  CHECK(scheduler.members(2) == std::vector<int>{0});
  CHECK(change("r", removing(1)) == "define r; batch r");
  CHECK(scheduler.members(1).empty());
  CHECK(change("a", adding({1, 3})) == "batch a");
  CHECK(scheduler.members(3) == std::vector<int>{1, 3});
  CHECK(scheduler.sets() == 2);
  Report gone;
  gone.kind = Report::Kind::kAllGone;
  scheduler.take(gone, 0);
  CHECK(told(scheduler.drain()) == "epoch");
  CHECK(scheduler.sets() == 0);
  CHECK(scheduler.known() == 0);
  CHECK(change("a", adding({2})) == "define a; batch a");
  CHECK(scheduler.members(1) == std::vector<int>{2});
}

TEST_CASE("a set that is there already, or is not, fails its change and nothing else") {
  Scheduler scheduler(many_batches(), 4);
  const auto change = [&](const std::string& name, const std::string& description) {
    scheduler.take(submitted(name, description), 0);
    scheduler.form(scheduler.formed(), 0);
    return text_of_failure(scheduler.drain());
  };
  CHECK(change("a", adding({1, 3})) == "");
  CHECK(change("b", adding({1, 3})) ==
        "add_process_set \"b\": process set 1 has these ranks already");
  CHECK(change("c", adding({1, 2, 3})) == "");
  CHECK(change("r", removing(7)) == "remove_process_set \"r\": there is no process set 7 any more");
  CHECK(change("r", removing(1)) == "");
  CHECK(change("r2", removing(1)) ==
        "remove_process_set \"r2\": there is no process set 1 any more");
  CHECK(change("d", adding({0, 1, 2, 3})) ==
        "add_process_set \"d\": process set 0 has these ranks already");
  CHECK(change("b", adding({1, 3})) == "");
  CHECK(scheduler.members(3) == std::vector<int>{1, 3});
}

TEST_CASE("changes of sets that are complete together are checked one after the other") {
  Scheduler scheduler(many_batches(), 4);
  Told told;
  scheduler.take(submitted("a", adding({1})), 0);
  scheduler.take(submitted("b", adding({1})), 0);
  scheduler.form(0, 0);
  std::vector<Entry> entries = scheduler.drain();
  CHECK(told(entries) == "define a; define b; batch a; fail b");
  CHECK(text_of_failure(entries) == "add_process_set \"b\": process set 1 has these ranks already");
  scheduler.take(submitted("r", removing(1)), 0);
  scheduler.take(submitted("s", removing(1)), 0);
  scheduler.take(submitted("b", adding({1})), 0);
  scheduler.form(0, 0);
  entries = scheduler.drain();
  CHECK(told(entries) == "define r; define s; batch r; fail s; batch b");
  CHECK(scheduler.sets() == 1);
}

TEST_CASE("with a set go all its tickets, those that are complete too, before it is gone") {
  Scheduler::Limits limits;
  limits.batches_in_flight = 1;
  Scheduler scheduler(limits, 4);
  Told told;
  scheduler.take(submitted("add", adding({0, 1})), 0);
  scheduler.form(0, 0);
  scheduler.take(submitted(key("x", 1), floats(1)), 0);
  scheduler.take(submitted("x", floats(1)), 0);
  scheduler.form(1, 0);
  scheduler.form(2, 0);
  CHECK(told(scheduler.drain()) ==
        "define add; batch add; define 1:x; define x; batch 1:x; batch x");
  CHECK(scheduler.known() == 3);
  // One is in flight, so that the rest gathers: "x" of the set is behind the removal.
  scheduler.take(submitted("remove", removing(1)), 0);
  scheduler.take(ready(2), 0);
  scheduler.take(ready(3), 0);
  CHECK(told(scheduler.drain()) == "define remove");
  scheduler.form(3, 0);
  CHECK(told(scheduler.drain()) == "evict 1:x; batch remove");
  scheduler.form(4, 0);
  CHECK(told(scheduler.drain()) == "batch x");
  CHECK(scheduler.known() == 3);  // "add", "x", "remove"
  scheduler.take(ready(2), 0);    // said before its removal was read
  scheduler.form(5, 0);
  CHECK(told(scheduler.drain()) == "");
}

TEST_CASE("without a rank that has joined allreduces and barriers of all ranks go on, no others") {
  for (OpKind kind : kData) {
    for (bool grouped : {false, true}) {
      Scheduler scheduler(many_batches(), 3);
      const std::string description = any(kind, grouped).encode();
      scheduler.take(submitted(key("x"), description, 2), 0);
      scheduler.take(submitted(key("x", 1), description, 1), 0);
      scheduler.take(submitted("y", description), 0);
      scheduler.form(0, 0);
      const std::vector<Entry> entries = scheduler.drain();
      const std::string what = std::string(grouped ? "grouped " : "") + name_of(kind);
      INFO(what);
      if (kind == OpKind::kAllreduce) {
        CHECK(Told()(entries) == "define x; define 1:x; fail 1:x; define y; batch x y");
        CHECK(text_of_failure(entries) ==
              what +
                  " \"x\" of process set 1: rank 1 has joined; without it only allreduce and "
                  "barrier of all ranks go on");
      } else {
        CHECK(Told()(entries) == "define x; fail x; define 1:x; fail 1:x; define y; batch y");
        CHECK(text_of_failure(entries) ==
              what +
                  " \"x\": rank 2 has joined; without it only allreduce and barrier of all ranks "
                  "go on");
      }
    }
  }
  Scheduler scheduler(many_batches(), 3);
  scheduler.take(submitted(key("b"), barrier_text(), 1), 0);
  scheduler.take(submitted(key("a"), adding({1}), 1), 0);
  scheduler.form(0, 0);
  CHECK(Told()(scheduler.drain()) == "define b; define a; fail a; batch b");
}

TEST_CASE("a ticket is refused while a rank has joined, and good again afterwards") {
  Scheduler scheduler(many_batches(), 3);
  Told told;
  scheduler.take(submitted("x", any(OpKind::kAllgather).encode()), 0);
  scheduler.form(0, 0);
  CHECK(told(scheduler.drain()) == "define x; batch x");
  scheduler.take(ready({{1, 0, 2}}), 0);
  scheduler.form(1, 0);
  CHECK(told(scheduler.drain()) == "fail x");
  scheduler.take(ready(1), 0);
  scheduler.form(1, 0);
  CHECK(told(scheduler.drain()) == "batch x");
}

TEST_CASE("the join ends with its last rank, behind what joined ranks still take part in") {
  Scheduler::Limits limits;
  limits.batches_in_flight = 1;
  Scheduler scheduler(limits, 3);
  Told told;
  const Description double_sum = described(OpKind::kAllreduce, {{DataType::kFloat64, {1}}});
  scheduler.take(joins(2), 0);
  CHECK(scheduler.joined() == std::vector<int>{2});
  scheduler.take(submitted(key("x"), floats(1), 2), 0);
  scheduler.take(submitted(key("y"), double_sum.encode(), 2), 0);
  scheduler.take(joins(0), 0);
  scheduler.take(joins(1), 0);
  scheduler.form(0, 0);
  CHECK(told(scheduler.drain()) == "define x; define y; batch x");
  scheduler.form(0, 0);
  CHECK(told(scheduler.drain()) == "");
  scheduler.form(1, 0);
  CHECK(told(scheduler.drain()) == "batch y; joined 1");
  CHECK(scheduler.joined().empty());
  scheduler.form(2, 0);
  CHECK(told(scheduler.drain()) == "");
  // And again, another one the last.
  for (int rank : {1, 2, 0}) scheduler.take(joins(rank), 0);
  scheduler.form(2, 0);
  CHECK(told(scheduler.drain()) == "joined 0");
}

TEST_CASE("an epoch that ends within a join begins without it") {
  Scheduler scheduler(many_batches(), 2);
  Told told;
  scheduler.take(joins(1), 0);
  Report gone;
  gone.kind = Report::Kind::kAllGone;
  scheduler.take(gone, 0);
  scheduler.take(joins(0), 0);
  scheduler.form(0, 0);
  CHECK(told(scheduler.drain()) == "epoch");
  scheduler.take(joins(1), 0);
  scheduler.form(0, 0);
  CHECK(told(scheduler.drain()) == "joined 1");
}
