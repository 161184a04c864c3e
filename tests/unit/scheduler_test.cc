// SPDX-License-Identifier: Apache-2.0
//
// The root's half of the agreement: what becomes a batch, tickets and blocks.
#include "libhvd/control/scheduler.h"

#include <string>
#include <vector>

#include "tests/unit/catch.h"
#include "tests/unit/control_words.h"
#include "tests/unit/scheduler_words.h"

using namespace hvd;
using namespace hvd::test;

namespace {

std::string from_root(int root) {
  Description d = described(OpKind::kBroadcast, std::vector<int64_t>{1});
  d.root = root;
  return d.encode();
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
