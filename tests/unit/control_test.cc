// SPDX-License-Identifier: Apache-2.0
//
// The thinking of the agreement, without any rank: descriptions, aggregator, scheduler, messages.
#include <string>
#include <vector>

#include "libhvd/control/aggregator.h"
#include "libhvd/control/announcer.h"
#include "libhvd/control/scheduler.h"
#include "libhvd/control/tree.h"
#include "tests/unit/catch.h"

using namespace hvd;

namespace {

std::string describe(OpKind kind, DataType type, std::vector<int64_t> shape, int root = 0) {
  Description d;
  d.kind = kind;
  d.type = type;
  d.shape = std::move(shape);
  d.root = root;
  return d.encode();
}

std::string floats(int64_t n) { return describe(OpKind::kAllreduce, DataType::kFloat32, {n}); }

Report submit(const std::string& name, const std::string& description) {
  Report report;
  report.kind = Report::Kind::kSubmit;
  report.name = name;
  report.opinions.push_back({description, {}});
  return report;
}

Report ready(std::vector<Ticket> tickets) {
  Report report;
  report.tickets = std::move(tickets);
  return report;
}

Entry defined(Ticket ticket, const std::string& name, const std::string& description) {
  Entry entry;
  entry.kind = Entry::Kind::kDefine;
  entry.ticket = ticket;
  entry.name = name;
  entry.description = description;
  return entry;
}

Entry evicted(Ticket ticket) {
  Entry entry;
  entry.kind = Entry::Kind::kEvict;
  entry.ticket = ticket;
  return entry;
}

// "define a; batch a b" for entries, with names for tickets.
std::string told(const std::vector<Entry>& entries, std::vector<std::string>* names) {
  std::string text;
  for (const Entry& entry : entries) {
    if (!text.empty()) text += "; ";
    switch (entry.kind) {
      case Entry::Kind::kDefine:
        names->resize(std::max<size_t>(names->size(), entry.ticket + 1));
        (*names)[entry.ticket] = entry.name;
        text += "define " + entry.name;
        break;
      case Entry::Kind::kBatch:
        text += "batch";
        for (Ticket t : entry.tickets) text += " " + (*names)[t];
        break;
      case Entry::Kind::kEvict:
        text += "evict " + (*names)[entry.ticket];
        break;
      case Entry::Kind::kFail:
        text += "fail " + entry.name;
        break;
      case Entry::Kind::kLeft:
        text += "left " + std::to_string(entry.rank);
        break;
      case Entry::Kind::kEpochEnd:
        text += "epoch";
        break;
      default:
        text += "other";
    }
  }
  return text;
}

}  // namespace

TEST_CASE("what is complete together is one batch, up to the threshold, of one kind") {
  Scheduler::Limits limits;
  limits.fusion_bytes = 1000;
  limits.batches_in_flight = 100;
  Scheduler scheduler(limits);
  std::vector<std::string> names;
  scheduler.take(submit("a", floats(100)), 0);
  scheduler.take(submit("big", floats(1000)), 0);
  scheduler.take(submit("double", describe(OpKind::kAllreduce, DataType::kFloat64, {1})), 0);
  scheduler.take(submit("b", floats(100)), 0);
  scheduler.take(submit("c", floats(100)), 0);
  scheduler.take(submit("r0", describe(OpKind::kBroadcast, DataType::kFloat32, {1}, 0)), 0);
  scheduler.take(submit("r1", describe(OpKind::kBroadcast, DataType::kFloat32, {1}, 1)), 0);
  scheduler.take(submit("r0'", describe(OpKind::kBroadcast, DataType::kFloat32, {1}, 0)), 0);
  scheduler.form(0, 0);
  // b is taken past what does not fit; c would be too much.
  CHECK(told(scheduler.drain(), &names) ==
        "define a; define big; define double; define b; define c; define r0; define r1; "
        "define r0'; batch a b; batch big; batch double; batch c; batch r0 r0'; batch r1");
}

TEST_CASE("tensors on different kinds of device are never one batch") {
  Scheduler::Limits limits;
  limits.batches_in_flight = 100;
  Scheduler scheduler(limits);
  std::vector<std::string> names;
  Description on_gpu = *Description::decode(floats(1));
  on_gpu.device = DeviceClass::kGpu;
  scheduler.take(submit("a", floats(1)), 0);
  scheduler.take(submit("gpu", on_gpu.encode()), 0);
  scheduler.take(submit("b", floats(1)), 0);
  scheduler.form(0, 0);
  CHECK(told(scheduler.drain(), &names) == "define a; define gpu; define b; batch a b; batch gpu");
}

TEST_CASE("few batches are in flight, so that batches grow while the network is busy") {
  Scheduler scheduler(Scheduler::Limits{});
  std::vector<std::string> names;
  scheduler.take(submit("a", floats(1)), 0);
  scheduler.form(0, 0);
  scheduler.take(submit("b", floats(1)), 0);
  scheduler.form(0, 0);
  scheduler.take(submit("c", floats(1)), 0);
  scheduler.form(0, 0);
  scheduler.take(submit("d", floats(1)), 0);
  scheduler.form(0, 0);
  CHECK(told(scheduler.drain(), &names) ==
        "define a; batch a; define b; batch b; define c; define d");
  scheduler.form(1, 0);
  CHECK(told(scheduler.drain(), &names) == "batch c d");
}

TEST_CASE("blocks of batches follow each other without a gap") {
  Scheduler::Limits limits;
  limits.block_bytes = 1024;
  limits.fusion_bytes = 0;
  limits.batches_in_flight = 100;
  Scheduler scheduler(limits);
  for (int64_t n : {1, 256, 257, 0, 1000}) {
    scheduler.take(submit("t" + std::to_string(n), floats(n)), 0);
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
  Scheduler scheduler(limits);
  std::vector<std::string> names;
  CHECK(scheduler.due_ns() == INT64_MAX);
  scheduler.take(submit("a", floats(1)), 1000);
  scheduler.form(0, 1050);
  scheduler.take(submit("b", floats(1)), 1060);
  CHECK(scheduler.due_ns() == 1100);
  scheduler.form(0, 1100);
  CHECK(told(scheduler.drain(), &names) == "define a; define b; batch a b");
}

TEST_CASE("the tickets used last are kept") {
  Scheduler::Limits limits;
  limits.cache_capacity = 2;
  limits.batches_in_flight = 100;
  Scheduler scheduler(limits);
  std::vector<std::string> names;
  for (const char* name : {"a", "b"}) scheduler.take(submit(name, floats(1)), 0);
  scheduler.form(0, 0);
  CHECK(told(scheduler.drain(), &names) == "define a; define b; batch a b");
  scheduler.take(ready({1}), 0);
  scheduler.take(submit("c", floats(1)), 0);
  scheduler.form(0, 0);
  CHECK(told(scheduler.drain(), &names) == "define c; batch a c; evict b");
}

TEST_CASE("a new description takes the place of the old one; different ones fail the name") {
  Scheduler::Limits limits;
  limits.batches_in_flight = 100;
  Scheduler scheduler(limits);
  std::vector<std::string> names;
  scheduler.take(submit("a", floats(1)), 0);
  scheduler.take(submit("a", floats(2)), 0);
  Report both = submit("x", floats(1));
  both.opinions = {{floats(1), {0, 2}}, {floats(2), {1}}};
  scheduler.take(both, 0);
  const std::vector<Entry> entries = scheduler.drain();
  CHECK(told(entries, &names) == "define a; define a; fail x");
  CHECK(entries[2].text ==
        "allreduce \"x\": ranks disagree about the shape: [1] on rank 0, 2; [2] on rank 1");
}

TEST_CASE("each thing that ranks can disagree about has its words") {
  Description d;
  d.kind = OpKind::kAllreduce;
  d.type = DataType::kFloat32;
  d.shape = {2, 3};
  const struct {
    void (*change)(Description*);
    const char* words;
  } cases[] = {
      {[](Description* x) { x->kind = OpKind::kBroadcast; },
       "the operation: allreduce on rank 0; broadcast on rank 1"},
      {[](Description* x) { x->type = DataType::kInt64; },
       "the type: float32 on rank 0; int64 on rank 1"},
      {[](Description* x) { x->shape = {6}; }, "the shape: [2,3] on rank 0; [6] on rank 1"},
      {[](Description* x) { x->op = ReduceOp::kAverage; },
       "the reduction: sum on rank 0; average on rank 1"},
      {[](Description* x) { x->root = 2; }, "the root: 0 on rank 0; 2 on rank 1"},
      {[](Description* x) { x->prescale = 0.5; },
       "the prescale factor: 1 on rank 0; 0.5 on rank 1"},
      {[](Description* x) { x->device = DeviceClass::kGpu; },
       "the device: host memory on rank 0; GPU memory on rank 1"},
      {[](Description* x) { x->postscale = 2; }, "the postscale factor: 1 on rank 0; 2 on rank 1"},
  };
  for (const auto& c : cases) {
    Description other = d;
    c.change(&other);
    const std::string text = std::string("allreduce \"t\": ranks disagree about ") + c.words;
    CHECK(disagreement("t", {{d.encode(), {0}}, {other.encode(), {1}}}) == text);
    // Whoever was heard first.
    CHECK(disagreement("t", {{other.encode(), {1}}, {d.encode(), {0}}}) == text);
  }
}

TEST_CASE("an aggregator speaks once all children have, and once only") {
  Aggregator aggregator({{0}, {1}, {4, 5}});
  aggregator.take(0, submit("a", floats(1)));
  aggregator.take(0, submit("a", floats(1)));
  aggregator.take(2, submit("a", floats(1)));
  CHECK(aggregator.drain().empty());
  CHECK(aggregator.incomplete() == 1);
  aggregator.take(1, submit("a", floats(1)));
  std::vector<Report> said = aggregator.drain();
  REQUIRE(said.size() == 1);
  CHECK(said[0].opinions.size() == 1);
  CHECK(said[0].opinions[0].ranks.empty());
  CHECK(aggregator.incomplete() == 0);
}

TEST_CASE("an aggregator passes different descriptions up with their ranks") {
  Aggregator aggregator({{0}, {1}, {4, 5}});
  aggregator.take(2, submit("a", floats(1)));
  aggregator.take(0, submit("a", floats(2)));
  aggregator.take(1, submit("a", floats(1)));
  std::vector<Report> said = aggregator.drain();
  REQUIRE(said.size() == 1);
  REQUIRE(said[0].opinions.size() == 2);
  CHECK(said[0].opinions[0].ranks == std::vector<int>{1, 4, 5});
  CHECK(said[0].opinions[1].ranks == std::vector<int>{0});
}

TEST_CASE("a ticket and a description of the same name meet") {
  Aggregator aggregator({{0}, {1}});
  aggregator.apply(defined(9, "a", floats(1)));
  aggregator.take(0, ready({9}));
  aggregator.take(1, submit("a", floats(2)));
  std::vector<Report> said = aggregator.drain();
  REQUIRE(said.size() == 1);
  REQUIRE(said[0].opinions.size() == 2);
}

TEST_CASE("an evicted ticket counts as its description until every child has forgotten it") {
  Aggregator aggregator({{0}, {1}});
  aggregator.apply(defined(9, "a", floats(1)));
  aggregator.take(0, ready({9}));
  aggregator.apply(evicted(9));
  CHECK(aggregator.remembered() == 1);
  aggregator.take(1, ready({9}));  // said before rank 1 has read the eviction
  std::vector<Report> said = aggregator.drain();
  REQUIRE(said.size() == 2);
  CHECK(said[0].kind == Report::Kind::kForgotten);
  CHECK(said[0].evictions == 1);
  CHECK(said[1].kind == Report::Kind::kSubmit);
  REQUIRE(said[1].opinions.size() == 1);
  CHECK(said[1].opinions[0].description == floats(1));
  CHECK(said[1].opinions[0].ranks.empty());
  for (int child : {0, 1}) {
    Report forgotten;
    forgotten.kind = Report::Kind::kForgotten;
    forgotten.evictions = 1;
    CHECK(aggregator.remembered() == 1);
    aggregator.take(child, forgotten);
  }
  CHECK(aggregator.remembered() == 0);
  aggregator.take(0, ready({9}));
  CHECK(aggregator.incomplete() == 0);
}

TEST_CASE("an eviction that crosses a disagreement leaves nothing behind for the name's next use") {
  Aggregator aggregator({{0}, {1}});
  aggregator.apply(defined(9, "a", floats(1)));
  aggregator.take(0, ready({9}));
  aggregator.take(1, submit("a", floats(2)));
  CHECK(aggregator.drain().size() == 1);
  aggregator.apply(evicted(9));
  Entry fail;
  fail.kind = Entry::Kind::kFail;
  fail.name = "a";
  aggregator.apply(fail);
  aggregator.take(0, submit("a", floats(3)));
  aggregator.take(1, submit("a", floats(3)));
  const std::vector<Report> said = aggregator.drain();
  REQUIRE(said.size() == 2);
  REQUIRE(said[1].opinions.size() == 1);
  CHECK(said[1].opinions[0].description == floats(3));
}

TEST_CASE("a rank says before its next announcement which evictions it has read") {
  Announcer announcer;
  CHECK(announcer.announce("a", floats(1)).kind == Report::Kind::kSubmit);
  announcer.apply(defined(3, "a", floats(1)));
  CHECK(announcer.announce("a", floats(1)).tickets == std::vector<Ticket>{3});
  CHECK(announcer.announce("a", floats(2)).kind == Report::Kind::kSubmit);
  CHECK_FALSE(announcer.forgotten());
  announcer.apply(evicted(3));
  REQUIRE(announcer.name_of(3) == nullptr);
  const std::optional<Report> forgotten = announcer.forgotten();
  REQUIRE(forgotten);
  CHECK(forgotten->kind == Report::Kind::kForgotten);
  CHECK(forgotten->evictions == 1);
  CHECK_FALSE(announcer.forgotten());
  CHECK(announcer.announce("a", floats(1)).kind == Report::Kind::kSubmit);
}

TEST_CASE("messages come back as they were, and no part of one is taken for a whole") {
  Report report = submit("name", floats(7));
  report.opinions.push_back({floats(8), {1, 2, 3}});
  const std::string bytes = report.encode();
  REQUIRE(Report::decode(bytes));
  CHECK(Report::decode(bytes)->encode() == bytes);
  for (size_t n = 0; n < bytes.size(); ++n) CHECK_FALSE(Report::decode(bytes.substr(0, n)));
  CHECK_FALSE(Report::decode(bytes + "x"));
  std::string huge = ready({1}).encode();
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
