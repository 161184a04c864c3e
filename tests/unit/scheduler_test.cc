// SPDX-License-Identifier: Apache-2.0
//
// The root's half of the agreement: batches, tickets, process sets, joins.
#include "libhvd/control/scheduler.h"

#include <string>
#include <vector>

#include "tests/unit/catch.h"
#include "tests/unit/control_words.h"

using namespace hvd;
using namespace hvd::test;

namespace {

std::string from_root(int root) {
  Description d = described(OpKind::kBroadcast, std::vector<int64_t>{1});
  d.root = root;
  return d.encode();
}

const OpKind kData[] = {OpKind::kAllreduce, OpKind::kAllgather, OpKind::kBroadcast,
                        OpKind::kAlltoall, OpKind::kReducescatter};

// A description of one tensor or of a group of two.
Description any(OpKind kind, bool grouped = false) {
  const bool ragged = kind == OpKind::kAllgather || kind == OpKind::kAlltoall;
  const TensorShape tensor = {DataType::kFloat32, {ragged ? 0 : 6, 2}};
  return grouped ? group(kind, {tensor, tensor}) : described(kind, {tensor});
}

Scheduler::Limits many_batches() {
  Scheduler::Limits limits;
  limits.batches_in_flight = 100;
  return limits;
}

// What becomes of names "a" and "b" that are complete together.
std::string both(const OpKey& a, const Description& x, const OpKey& b, const Description& y,
                 Scheduler::Limits limits = many_batches()) {
  Scheduler scheduler(limits, 3);
  scheduler.take(submitted(a, x.encode()), 0);
  scheduler.take(submitted(b, y.encode()), 0);
  scheduler.form(0, 0);
  std::string text = Told()(scheduler.drain());
  return text.substr(text.find("batch"));
}

std::string text_of_failure(const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    if (entry.kind == Entry::Kind::kFail) return entry.text;
  }
  return "";
}

}  // namespace

TEST_CASE("what is complete together is one batch, up to the threshold, of one kind") {
  Scheduler::Limits limits;
  limits.fusion_bytes = 1000;
  limits.batches_in_flight = 100;
  Scheduler scheduler(limits, 3);
  Told told;
  scheduler.take(submitted("a", floats(100)), 0);
  scheduler.take(submitted("big", floats(1000)), 0);
  scheduler.take(
      submitted("double", described(OpKind::kAllreduce, {{DataType::kFloat64, {1}}}).encode()), 0);
  scheduler.take(submitted("b", floats(100)), 0);
  scheduler.take(submitted("c", floats(100)), 0);
  scheduler.take(submitted("r0", from_root(0)), 0);
  scheduler.take(submitted("r1", from_root(1)), 0);
  scheduler.take(submitted("r0'", from_root(0)), 0);
  scheduler.form(0, 0);
  // b is taken past what does not fit; c would be too much.
  CHECK(told(scheduler.drain()) ==
        "define a; define big; define double; define b; define c; define r0; define r1; "
        "define r0'; batch a b; batch big; batch double; batch c; batch r0 r0'; batch r1");
}

TEST_CASE("tensors on different kinds of device are never one batch") {
  Scheduler::Limits limits;
  limits.batches_in_flight = 100;
  Scheduler scheduler(limits, 3);
  Told told;
  Description on_gpu = *Description::decode(floats(1));
  on_gpu.device = DeviceClass::kGpu;
  scheduler.take(submitted("a", floats(1)), 0);
  scheduler.take(submitted("gpu", on_gpu.encode()), 0);
  scheduler.take(submitted("b", floats(1)), 0);
  scheduler.form(0, 0);
  CHECK(told(scheduler.drain()) == "define a; define gpu; define b; batch a b; batch gpu");
}

TEST_CASE("few batches are in flight, so that batches grow while the network is busy") {
  Scheduler scheduler(Scheduler::Limits{}, 3);
  Told told;
  scheduler.take(submitted("a", floats(1)), 0);
  scheduler.form(0, 0);
  scheduler.take(submitted("b", floats(1)), 0);
  scheduler.form(0, 0);
  scheduler.take(submitted("c", floats(1)), 0);
  scheduler.form(0, 0);
  scheduler.take(submitted("d", floats(1)), 0);
  scheduler.form(0, 0);
  CHECK(told(scheduler.drain()) == "define a; batch a; define b; batch b; define c; define d");
  scheduler.form(1, 0);
  CHECK(told(scheduler.drain()) == "batch c d");
}

TEST_CASE("blocks of batches follow each other without a gap") {
  Scheduler::Limits limits;
  limits.block_bytes = 1024;
  limits.fusion_bytes = 0;
  limits.batches_in_flight = 100;
  Scheduler scheduler(limits, 3);
  for (int64_t n : {1, 256, 257, 0, 1000}) {
    scheduler.take(submitted("t" + std::to_string(n), floats(n)), 0);
  }
  scheduler.form(0, 0);
  std::vector<uint64_t> begins;
  for (const Entry& entry : scheduler.drain()) {
    if (entry.kind == Entry::Kind::kBatch) begins.push_back(entry.first_block);
  }
  CHECK(begins == std::vector<uint64_t>{0, 1, 2, 4, 4});
}

TEST_CASE("a cycle time waits for more, and no longer") {
  Scheduler::Limits limits;
  limits.cycle_ns = 100;
  Scheduler scheduler(limits, 3);
  Told told;
  CHECK(scheduler.due_ns() == INT64_MAX);
  scheduler.take(submitted("a", floats(1)), 1000);
  scheduler.form(0, 1050);
  scheduler.take(submitted("b", floats(1)), 1060);
  CHECK(scheduler.due_ns() == 1100);
  scheduler.form(0, 1100);
  CHECK(told(scheduler.drain()) == "define a; define b; batch a b");
}

TEST_CASE("the tickets used last are kept") {
  Scheduler::Limits limits;
  limits.cache_capacity = 2;
  limits.batches_in_flight = 100;
  Scheduler scheduler(limits, 3);
  Told told;
  for (const char* name : {"a", "b"}) scheduler.take(submitted(name, floats(1)), 0);
  scheduler.form(0, 0);
  CHECK(told(scheduler.drain()) == "define a; define b; batch a b");
  scheduler.take(ready(1), 0);
  scheduler.take(submitted("c", floats(1)), 0);
  scheduler.form(0, 0);
  CHECK(told(scheduler.drain()) == "define c; batch a c; evict b");
}

TEST_CASE("a new description takes the place of the old one; different ones fail the name") {
  Scheduler::Limits limits;
  limits.batches_in_flight = 100;
  Scheduler scheduler(limits, 3);
  Told told;
  scheduler.take(submitted("a", floats(1)), 0);
  scheduler.take(submitted("a", floats(2)), 0);
  Report both = submitted("x", floats(1));
  both.opinions = {{floats(1), {0, 2}}, {floats(2), {1}}};
  scheduler.take(both, 0);
  const std::vector<Entry> entries = scheduler.drain();
  CHECK(told(entries) == "define a; define a; fail x");
  CHECK(entries[2].text ==
        "allreduce \"x\": ranks disagree about the shape: [1] on rank 0, 2; [2] on rank 1");
}

TEST_CASE("what runs alike is one batch, and nothing else is") {
  const auto with = [](OpKind kind, void (*change)(Description*)) {
    return changed(any(kind), change);
  };
  const struct {
    const char* what;
    Description x;
    Description y;
    bool together;
  } cases[] = {
      {"sum and average", any(OpKind::kAllreduce),
       with(OpKind::kAllreduce, [](Description* d) { d->op = ReduceOp::kAverage; }), true},
      {"sum and min", any(OpKind::kAllreduce),
       with(OpKind::kAllreduce, [](Description* d) { d->op = ReduceOp::kMin; }), false},
      {"min and max", with(OpKind::kAllreduce, [](Description* d) { d->op = ReduceOp::kMin; }),
       with(OpKind::kAllreduce, [](Description* d) { d->op = ReduceOp::kMax; }), false},
      {"sum and adasum", any(OpKind::kAllreduce),
       with(OpKind::kAllreduce, [](Description* d) { d->op = ReduceOp::kAdasum; }), false},
      {"sum and product of a reducescatter", any(OpKind::kReducescatter),
       with(OpKind::kReducescatter, [](Description* d) { d->op = ReduceOp::kProduct; }), false},
      {"scale factors", any(OpKind::kAllreduce),
       with(OpKind::kAllreduce, [](Description* d) { d->prescale = 0.5; }), true},
      {"types that are summed", any(OpKind::kAllreduce),
       with(OpKind::kAllreduce, [](Description* d) { d->tensors[0].type = DataType::kInt64; }),
       false},
      {"types that are moved", any(OpKind::kBroadcast),
       with(OpKind::kBroadcast, [](Description* d) { d->tensors[0].type = DataType::kInt64; }),
       true},
      {"types that are gathered", any(OpKind::kAllgather),
       with(OpKind::kAllgather, [](Description* d) { d->tensors[0].type = DataType::kBool; }),
       true},
      {"roots", any(OpKind::kBroadcast),
       with(OpKind::kBroadcast, [](Description* d) { d->root = 1; }), false},
      {"rows of other sizes", any(OpKind::kAlltoall),
       with(OpKind::kAlltoall, [](Description* d) { d->tensors[0].shape = {0}; }), true},
  };
  for (const auto& c : cases) {
    INFO(c.what);
    CHECK(both(key("a"), c.x, key("b"), c.y) == (c.together ? "batch a b" : "batch a; batch b"));
  }
  for (OpKind x : kData) {
    for (OpKind y : kData) {
      INFO(name_of(x) << " and " << name_of(y));
      CHECK(both(key("a"), any(x), key("b"), any(y)) ==
            (x == y ? "batch a b" : "batch a; batch b"));
      // Of process sets each has its own.
      CHECK(both(key("a", 1), any(x), key("b", 2), any(y)) == "batch 1:a; batch 2:b");
      CHECK(both(key("a", 1), any(x), key("b"), any(y)) == "batch 1:a; batch b");
    }
  }
}

TEST_CASE("a group is one ticket, and shares a batch only where that is allowed") {
  for (OpKind kind : kData) {
    Scheduler::Limits limits = many_batches();
    INFO(name_of(kind));
    CHECK(both(key("a"), any(kind, true), key("b"), any(kind, false), limits) == "batch a b");
    limits.fuse_groups = false;
    CHECK(both(key("a"), any(kind, true), key("b"), any(kind, false), limits) ==
          "batch a; batch b");
    CHECK(both(key("a"), any(kind, false), key("b"), any(kind, true), limits) ==
          "batch a; batch b");
    CHECK(both(key("a"), any(kind, true), key("b"), any(kind, true), limits) == "batch a; batch b");
    CHECK(both(key("a"), any(kind, false), key("b"), any(kind, false), limits) == "batch a b");
    // However big it is it is not parted.
    limits.fusion_bytes = 1;
    CHECK(both(key("a"), any(kind, true), key("b"), any(kind, true), limits) == "batch a; batch b");
  }
}

TEST_CASE("a batch of several tickets has so many tensors at most") {
  Scheduler scheduler(many_batches(), 3);
  const std::vector<TensorShape> tensors(kMaxBatchTensors / 2, {DataType::kUint8, {1}});
  const std::string half = group(OpKind::kAllreduce, tensors).encode();
  const std::string one = described(OpKind::kAllreduce, {{DataType::kUint8, {1}}}).encode();
  for (const char* name : {"a", "b"}) scheduler.take(submitted(name, half), 0);
  scheduler.take(submitted("c", one), 0);
  scheduler.form(0, 0);
  CHECK(Told()(scheduler.drain()) == "define a; define b; define c; batch a b; batch c");
}

TEST_CASE("blocks of batches of several types, and of unknown size, follow each other") {
  Scheduler::Limits limits = many_batches();
  limits.block_bytes = 64;
  Scheduler scheduler(limits, 3);
  const struct {
    Description description;
    uint64_t blocks;
  } batches[] = {
      {group(OpKind::kAllreduce, {{DataType::kFloat64, {9}}, {DataType::kUint8, {1}}}), 3},
      {any(OpKind::kAllgather), kUnknownBlocks},
      {any(OpKind::kAlltoall), kUnknownBlocks},
      {described(OpKind::kBarrier, std::vector<TensorShape>()), 0},
      {changed(group(OpKind::kAllreduce, {{DataType::kFloat64, {1}}, {DataType::kFloat32, {1}}}),
               [](Description* d) { d->op = ReduceOp::kAdasum; }),
       2 * kUnknownBlocks},
      {any(OpKind::kReducescatter), 1},
  };
  int number = 0;
  for (const auto& b : batches) {
    scheduler.take(submitted("t" + std::to_string(number++), b.description.encode()), 0);
  }
  scheduler.form(0, 0);
  uint64_t block = 0;
  size_t seen = 0;
  for (const Entry& entry : scheduler.drain()) {
    if (entry.kind != Entry::Kind::kBatch) continue;
    CHECK(entry.first_block == block);
    CHECK(entry.end_block == block + batches[seen++].blocks);
    block = entry.end_block;
  }
  CHECK(seen == 6);
}

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
