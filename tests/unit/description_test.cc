// SPDX-License-Identifier: Apache-2.0
//
// What a rank says about an operation: encoding, and the words for ranks that differ.
#include "libhvd/control/description.h"

#include <string>
#include <vector>

#include "libhvd/base/codec.h"
#include "tests/unit/catch.h"
#include "tests/unit/control_words.h"
#include "tests/unit/random_cases.h"

using namespace hvd;
using namespace hvd::test;

namespace {

const std::vector<TensorShape> kThree = {
    {DataType::kFloat32, {2}}, {DataType::kInt64, {3, 4}}, {DataType::kFloat32, {}}};

}  // namespace

TEST_CASE("each thing that ranks can disagree about has its words") {
  const Description one = described(OpKind::kAllreduce, std::vector<int64_t>{2, 3});
  const Description three = group(OpKind::kAllreduce, kThree);
  const Description rows = described(OpKind::kAllgather, std::vector<int64_t>{0, 3});
  Description set;
  set.kind = OpKind::kAddSet;
  set.ranks = {0, 1, 2, 5};
  Description removal;
  removal.kind = OpKind::kRemoveSet;
  const struct {
    Description usual;
    void (*change)(Description*);
    const char* words;
  } cases[] = {
      {one, [](Description* x) { x->kind = OpKind::kBroadcast; },
       "allreduce \"t\": ranks disagree about the operation: allreduce on rank 0; broadcast on "
       "rank 1"},
      {one, [](Description* x) { x->grouped = true; },
       "allreduce \"t\": ranks disagree about the operation: allreduce on rank 0; grouped "
       "allreduce on rank 1"},
      {one, [](Description* x) { x->tensors[0].type = DataType::kInt64; },
       "allreduce \"t\": ranks disagree about the type: float32 on rank 0; int64 on rank 1"},
      {one, [](Description* x) { x->tensors[0].shape = {6}; },
       "allreduce \"t\": ranks disagree about the shape: [2,3] on rank 0; [6] on rank 1"},
      {one, [](Description* x) { x->tensors[0].shape = {}; },
       "allreduce \"t\": ranks disagree about the shape: [2,3] on rank 0; [] on rank 1"},
      {one, [](Description* x) { x->op = ReduceOp::kAverage; },
       "allreduce \"t\": ranks disagree about the reduction: sum on rank 0; average on rank 1"},
      {one, [](Description* x) { x->root = 2; },
       "allreduce \"t\": ranks disagree about the root: 0 on rank 0; 2 on rank 1"},
      {one, [](Description* x) { x->prescale = 0.5; },
       "allreduce \"t\": ranks disagree about the prescale factor: 1 on rank 0; 0.5 on rank 1"},
      {one, [](Description* x) { x->postscale = 2; },
       "allreduce \"t\": ranks disagree about the postscale factor: 1 on rank 0; 2 on rank 1"},
      {one, [](Description* x) { x->device = DeviceClass::kGpu; },
       "allreduce \"t\": ranks disagree about the device: host memory on rank 0; GPU memory on "
       "rank 1"},
      {three, [](Description* x) { x->tensors.pop_back(); },
       "grouped allreduce \"t\": ranks disagree about the number of tensors: 3 on rank 0; 2 on "
       "rank 1"},
      {three, [](Description* x) { x->tensors[2].type = DataType::kBool; },
       "grouped allreduce \"t\": ranks disagree about the type of tensor 2: float32 on rank 0; "
       "bool on rank 1"},
      {three,
       [](Description* x) {
         x->tensors[1].shape = {4, 3};
       },
       "grouped allreduce \"t\": ranks disagree about the shape of tensor 1: [3,4] on rank 0; "
       "[4,3] on rank 1"},
      // The first that differs, even if a later one differs in its type.
      {three,
       [](Description* x) {
         x->tensors[0].shape = {9};
         x->tensors[1].type = DataType::kUint8;
         x->prescale = 3;
       },
       "grouped allreduce \"t\": ranks disagree about the shape of tensor 0: [2] on rank 0; [9] "
       "on rank 1"},
      {rows,
       [](Description* x) {
         x->tensors[0].shape = {0, 4};
       },
       "allgather \"t\": ranks disagree about the shape: [*,3] on rank 0; [*,4] on rank 1"},
      {rows, [](Description* x) { x->tensors[0].shape = {0}; },
       "allgather \"t\": ranks disagree about the shape: [*,3] on rank 0; [*] on rank 1"},
      {set,
       [](Description* x) {
         x->ranks = {0, 3};
       },
       "add_process_set \"t\": ranks disagree about the members: ranks 0-2, 5 on rank 0; ranks 0, "
       "3 on rank 1"},
      {set,
       [](Description* x) {
         x->kind = OpKind::kRemoveSet;
         x->ranks.clear();
       },
       "add_process_set \"t\": ranks disagree about the operation: add_process_set on rank 0; "
       "remove_process_set on rank 1"},
      {removal, [](Description* x) { x->root = 2; },
       "remove_process_set \"t\": ranks disagree about the process set: 0 on rank 0; 2 on rank 1"},
  };
  for (const auto& c : cases) {
    const Description other = changed(c.usual, c.change);
    CHECK(disagreement("t", {{c.usual.encode(), {0}}, {other.encode(), {1}}}) == c.words);
    // Whoever was heard first.
    CHECK(disagreement("t", {{other.encode(), {1}}, {c.usual.encode(), {0}}}) == c.words);
  }
}

TEST_CASE("ranks that are of one mind about what is told are one camp, whatever else they say") {
  const Description a = described(OpKind::kAllreduce, std::vector<int64_t>{2});
  const Description b = changed(a, [](Description* x) { x->tensors[0].shape = {3}; });
  const Description c = changed(b, [](Description* x) { x->prescale = 7; });
  CHECK(disagreement("x", {{c.encode(), {4}}, {a.encode(), {0, 2}}, {b.encode(), {1, 3}}}) ==
        "allreduce \"x\": ranks disagree about the shape: [2] on rank 0, 2; [3] on rank 1, 3, 4");
}

TEST_CASE("the rows of an allgather or alltoall are no part of a description") {
  for (OpKind kind : {OpKind::kAllgather, OpKind::kAlltoall}) {
    const Description d = described(kind, std::vector<int64_t>{0, 5});
    CHECK(d.ragged());
    CHECK(d.bytes() == 0);
    CHECK(Description::decode(d.encode()));
    // Whoever names them is refused, as are rows where there is no dimension.
    CHECK_FALSE(Description::decode(described(kind, std::vector<int64_t>{2, 5}).encode()));
    CHECK_FALSE(Description::decode(described(kind, std::vector<int64_t>{}).encode()));
  }
}

TEST_CASE("what no rank would say is no description") {
  const int64_t huge = int64_t{1} << 62;
  const struct {
    const char* what;
    Description description;
  } cases[] = {
      {"an allreduce of nothing", described(OpKind::kAllreduce, std::vector<TensorShape>())},
      {"a group of nothing", group(OpKind::kBroadcast, {})},
      {"several tensors that are no group", described(OpKind::kAllreduce, kThree)},
      {"a barrier with a tensor", described(OpKind::kBarrier, std::vector<int64_t>{1})},
      {"a join with a tensor", described(OpKind::kJoin, std::vector<int64_t>{1})},
      {"more bytes than numbers", described(OpKind::kAllreduce, std::vector<int64_t>{huge})},
      {"more elements than numbers", described(OpKind::kAllreduce, std::vector<int64_t>{huge, 4})},
      {"more bytes together than numbers",
       group(OpKind::kAllreduce, {{DataType::kUint8, {huge}}, {DataType::kUint8, {huge}}})},
      {"an extent below 0", described(OpKind::kAllreduce, std::vector<int64_t>{-1})},
      {"a root below 0", changed(described(OpKind::kBroadcast, std::vector<int64_t>{1}),
                                 [](Description* d) { d->root = -1; })},
  };
  for (const auto& c : cases) {
    INFO(c.what);
    CHECK_FALSE(Description::decode(c.description.encode()));
  }
  CHECK_FALSE(Description::decode(""));
}

TEST_CASE("ranks of a set are told in runs, and other runs than these are refused") {
  // Of random sets, from a few ranks to all but a few.
  for_random_cases("sets of ranks", 300, [](Random* random) -> std::string {
    Description d;
    d.kind = OpKind::kAddSet;
    const int size = static_cast<int>(random->from(1, 3000));
    const int density = static_cast<int>(random->from(1, 50));
    const bool most = random->one_in(2);
    for (int rank = 0; rank < size; ++rank) {
      if (random->one_in(density) != most) d.ranks.push_back(rank);
    }
    const std::string bytes = d.encode();
    const auto back = Description::decode(bytes);
    if (!back || back->ranks != d.ranks) return "another set came back";
    size_t runs = 0;
    for (size_t i = 0; i < d.ranks.size(); ++i) {
      if (i == 0 || d.ranks[i] != d.ranks[i - 1] + 1) ++runs;
    }
    if (bytes.size() > 30 + runs * 4) return "more bytes than the runs need";
    return "";
  });

  Description empty;
  empty.kind = OpKind::kAddSet;
  const std::string head = empty.encode().substr(0, empty.encode().size() - 1);  // less "no runs"
  const auto with_runs = [&](const std::vector<uint64_t>& numbers) {
    Writer w;
    for (uint64_t n : numbers) w.varint(n);
    return Description::decode(head + w.bytes());
  };
  REQUIRE(with_runs({2, 0, 2, 3, 1}));
  CHECK(with_runs({2, 0, 2, 3, 1})->ranks == std::vector<int32_t>{0, 1, 5});
  CHECK_FALSE(with_runs({2, 0, 2, 0, 1}));            // that is one run
  CHECK_FALSE(with_runs({1, 0, 0}));                  // that is none
  CHECK_FALSE(with_runs({3, 0, 1, 1, 1}));            // one is missing
  CHECK_FALSE(with_runs({1, 0, uint64_t{1} << 40}));  // more ranks than any job
  CHECK_FALSE(with_runs({1, uint64_t{1} << 40, 1}));
  CHECK_FALSE(with_runs({1, UINT64_MAX, 2}));
  CHECK_FALSE(with_runs({UINT64_MAX}));
}

TEST_CASE("a number has one encoding") {
  const struct {
    std::string bytes;
    bool good;
  } cases[] = {
      {std::string("\x00", 1), true},
      {"\x7f", true},
      {"\x80\x01", true},
      {std::string("\x80\x00", 2), false},
      {std::string("\x81\x80\x00", 3), false},
      {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", true},
      {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", false},
      {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x01", false},
      {"\x80", false},
  };
  for (const auto& c : cases) {
    Reader reader(c.bytes);
    const uint64_t number = reader.varint();
    CHECK((reader.ok() && reader.at_end()) == c.good);
    if (!c.good) continue;
    Writer writer;
    writer.varint(number);
    CHECK(writer.bytes() == c.bytes);
  }
}

TEST_CASE("the largest group that a message has room for has thousands of tensors") {
  Description d = group(OpKind::kAllreduce, {});
  while (d.encode().size() <= kMaxDescription)
    d.tensors.push_back({DataType::kFloat32, {1000, 1000}});
  CHECK(d.tensors.size() > 4000);
  d.tensors.pop_back();
  const auto back = Description::decode(d.encode());
  REQUIRE(back);
  CHECK(back->tensors == d.tensors);
  CHECK(back->bytes() == static_cast<int64_t>(d.tensors.size()) * 4000000);
}
