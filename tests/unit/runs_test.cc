// SPDX-License-Identifier: Apache-2.0
//
// How the tensors of a batch are laid out in blocks.
#include "libhvd/control/runs.h"

#include <string>
#include <vector>

#include "libhvd/control/message.h"
#include "tests/unit/catch.h"
#include "tests/unit/control_words.h"
#include "tests/unit/random_cases.h"

using namespace hvd;
using namespace hvd::test;

namespace {

// "float32 5 [0,2) 0 2" a run: type, elements, blocks, tensors.
std::string laid_out(const std::vector<Description>& batch, uint64_t first_block,
                     uint64_t block_bytes) {
  std::vector<const Description*> pointers;
  for (const Description& description : batch) pointers.push_back(&description);
  std::string text;
  for (const Run& run : plan_runs(pointers, first_block, block_bytes)) {
    if (!text.empty()) text += "; ";
    text += std::string(name_of(run.type)) + " " + std::to_string(run.elements) + " [" +
            std::to_string(run.first_block) + "," + std::to_string(run.end_block) + ")";
    for (size_t tensor : run.tensors) text += " " + std::to_string(tensor);
  }
  return text;
}

Description of(OpKind kind, DataType type, int64_t n) { return described(kind, {{type, {n}}}); }

}  // namespace

TEST_CASE("a batch has a run for each type that it computes with, in order of appearance") {
  const auto floats_of = [](int64_t n) { return of(OpKind::kAllreduce, DataType::kFloat32, n); };
  const Description mixed = group(OpKind::kAllreduce, {{DataType::kFloat32, {10}},
                                                       {DataType::kFloat64, {3}},
                                                       {DataType::kFloat32, {0}},
                                                       {DataType::kFloat64, {2, 2}},
                                                       {DataType::kUint8, {1}}});
  const struct {
    const char* what;
    std::vector<Description> batch;
    std::string runs;
  } cases[] = {
      {"one tensor", {floats_of(16)}, "float32 16 [100,101) 0"},
      {"one byte more", {floats_of(17)}, "float32 17 [100,102) 0"},
      {"none of it", {floats_of(0)}, "float32 0 [100,100) 0"},
      {"two tensors", {floats_of(8), floats_of(9)}, "float32 17 [100,102) 0 1"},
      {"a group of several types",
       {mixed},
       "float32 10 [100,101) 0 2; float64 7 [101,102) 1 3; uint8 1 [102,103) 4"},
      {"such a group between others",
       {floats_of(7), mixed, floats_of(1)},
       "float32 18 [100,102) 0 1 3 6; float64 7 [102,103) 2 4; uint8 1 [103,104) 5"},
      {"what is only moved is bytes",
       {of(OpKind::kBroadcast, DataType::kFloat64, 3), of(OpKind::kBroadcast, DataType::kInt32, 5)},
       "uint8 44 [100,101) 0 1"},
      {"a reducescatter computes",
       {of(OpKind::kReducescatter, DataType::kInt32, 17)},
       "int32 17 [100,102) 0"},
      {"a barrier moves nothing", {described(OpKind::kBarrier, std::vector<TensorShape>())}, ""},
  };
  for (const auto& c : cases) {
    INFO(c.what);
    CHECK(laid_out(c.batch, 100, 64) == c.runs);
  }
}

TEST_CASE("where the size is known only later, each run has room for any") {
  const std::string room = std::to_string(kUnknownBlocks);
  const Description rows = of(OpKind::kAllgather, DataType::kFloat32, 0);
  const Description split = of(OpKind::kAlltoall, DataType::kInt64, 0);
  const Description adasum = changed(of(OpKind::kAllreduce, DataType::kFloat16, 4),
                                     [](Description* d) { d->op = ReduceOp::kAdasum; });
  CHECK_FALSE(size_known(rows));
  CHECK_FALSE(size_known(split));
  CHECK_FALSE(size_known(adasum));
  CHECK(size_known(of(OpKind::kAllreduce, DataType::kFloat16, 4)));
  CHECK(size_known(of(OpKind::kReducescatter, DataType::kFloat16, 4)));
  CHECK(size_known(of(OpKind::kBroadcast, DataType::kFloat16, 4)));
  CHECK(laid_out({rows, rows}, 0, 64) == "uint8 0 [0," + room + ") 0 1");
  CHECK(laid_out({split}, 0, 64) == "uint8 0 [0," + room + ") 0");
  CHECK(laid_out({adasum}, 0, 64) == "float16 4 [0," + room + ") 0");
}

TEST_CASE("runs have every tensor once, and blocks without a gap that hold all its bytes") {
  for_random_cases("runs", 2000, [](Random* random) -> std::string {
    std::vector<Description> batch;
    size_t tensors = 0;
    uint64_t bytes = 0;
    for (int64_t n = random->from(1, 5); n > 0; --n) {
      Description d = group(OpKind::kAllreduce, {});
      for (int64_t k = random->from(1, 4); k > 0; --k) {
        d.tensors.push_back({static_cast<DataType>(random->below(11)), {random->from(0, 99)}});
      }
      tensors += d.tensors.size();
      bytes += static_cast<uint64_t>(d.bytes());
      batch.push_back(d);
    }
    std::vector<const Description*> pointers;
    for (const Description& d : batch) pointers.push_back(&d);
    const uint64_t block_bytes = 64 * static_cast<uint64_t>(random->from(1, 4));
    std::vector<int> seen(tensors, 0);
    uint64_t block = 7;
    uint64_t held = 0;
    for (const Run& run : plan_runs(pointers, 7, block_bytes)) {
      if (run.first_block != block) return "a gap between blocks";
      block = run.end_block;
      const uint64_t size = run.elements * size_of(run.type);
      const uint64_t room = (run.end_block - run.first_block) * block_bytes;
      if (room < size || room >= size + block_bytes) return "too few or too many blocks";
      held += size;
      for (size_t i = 1; i < run.tensors.size(); ++i) {
        if (run.tensors[i] <= run.tensors[i - 1]) return "tensors out of order";
      }
      for (size_t tensor : run.tensors) ++seen.at(tensor);
    }
    if (held != bytes) return "other bytes than the tensors have";
    for (int times : seen) {
      if (times != 1) return "a tensor that is not in one run";
    }
    return "";
  });
}
