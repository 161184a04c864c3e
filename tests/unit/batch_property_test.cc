// SPDX-License-Identifier: Apache-2.0
//
// What holds for every batch, asked of ten thousand random ones.
#include <string>
#include <vector>

#include "libhvd/coll/batch.h"
#include "libhvd/coll/plan.h"
#include "tests/unit/catch.h"
#include "tests/unit/random_cases.h"

using namespace hvd;
using namespace hvd::test;

namespace {

constexpr int kCases = 10000;

// A batch of random tensors of int32, and its elements as one.
struct RandomBatch {
  std::vector<std::vector<int32_t>> inputs;
  std::vector<std::vector<int32_t>> outputs;  // one guard element at each end
  std::vector<int32_t> all;
  BatchPlan plan;
  std::vector<Segment> segments;
};

constexpr int32_t kGuard = 0x5a5a5a5a;

RandomBatch random_batch(Random* random) {
  RandomBatch b;
  size_t sizes = static_cast<size_t>(random->from(1, 6));
  for (size_t i = 0; i < sizes; ++i) {
    const size_t n = random->one_in(4) ? 0 : random->below(random->one_in(5) ? 300 : 20);
    b.inputs.emplace_back();
    for (size_t k = 0; k < n; ++k) b.inputs[i].push_back(static_cast<int32_t>(random->next()));
    b.outputs.emplace_back(n + 2, kGuard);
    b.all.insert(b.all.end(), b.inputs[i].begin(), b.inputs[i].end());
  }
  for (size_t i = 0; i < sizes; ++i) {
    Segment segment;
    segment.input = reinterpret_cast<const char*>(b.inputs[i].data());
    segment.output = reinterpret_cast<char*>(b.outputs[i].data() + 1);
    segment.elements = b.inputs[i].size();
    b.segments.push_back(segment);
  }
  b.plan.type = DataType::kInt32;
  b.plan.elements = b.all.size();
  b.plan.first_block = random->below(1000);
  b.plan.block_elements = static_cast<size_t>(random->from(1, 70));
  b.plan.blocks = (b.all.size() + b.plan.block_elements - 1) / b.plan.block_elements;
  return b;
}

// The outputs are `want` as one, and nothing beside them was written.
std::string outputs_unlike(const RandomBatch& b, const std::vector<int32_t>& want) {
  size_t at = 0;
  for (const auto& output : b.outputs) {
    if (output.front() != kGuard || output.back() != kGuard) return "a write beside an output";
    for (size_t i = 1; i + 1 < output.size(); ++i, ++at) {
      if (output[i] != want[at]) return "element " + std::to_string(at) + " is wrong";
    }
  }
  return "";
}

}  // namespace

TEST_CASE("blocks carry every element of a batch once, in order, there and back") {
  for_random_cases("batches", kCases, [](Random* random) -> std::string {
    RandomBatch b = random_batch(random);
    const Batch batch(nullptr, b.plan, b.segments);
    size_t at = 0;
    for (uint64_t block = b.plan.first_block; block < b.plan.first_block + b.plan.blocks; ++block) {
      const size_t n = b.plan.elements_of(block);
      if (n == 0 || n > b.plan.block_elements) return "a block without elements, or too many";
      std::vector<int32_t> slot(n + 1, kGuard);
      Range skip;
      skip.begin = random->below(n + 1);
      skip.end = skip.begin + random->below(n + 1 - skip.begin);
      batch.pack(block, skip, reinterpret_cast<char*>(slot.data()));
      for (size_t i = 0; i < n; ++i) {
        const bool skipped = i >= skip.begin && i < skip.end;
        if (slot[i] != (skipped ? kGuard : b.all[at + i])) return "a wrong element in the slot";
        slot[i] = b.all[at + i];
      }
      if (slot[n] != kGuard) return "a write behind the block";
      batch.unpack(block, reinterpret_cast<char*>(slot.data()), false);
      at += n;
    }
    if (at != b.all.size()) return "blocks do not cover the batch";
    return outputs_unlike(b, b.all);
  });
}

TEST_CASE("sums of any batch are those of its elements, by shards or directly") {
  for_random_cases("sums", kCases, [](Random* random) -> std::string {
    RandomBatch b = random_batch(random);
    const int count = static_cast<int>(random->from(1, 6));
    const int me = static_cast<int>(random->below(static_cast<size_t>(count)));
    const int shards = static_cast<int>(random->from(1, count));
    const bool direct = random->one_in(2);
    const Batch batch(nullptr, b.plan, b.segments);
    std::vector<int32_t> want = b.all;
    size_t at = 0;
    for (uint64_t block = b.plan.first_block; block < b.plan.first_block + b.plan.blocks; ++block) {
      const size_t n = b.plan.elements_of(block);
      std::vector<std::vector<int32_t>> slots(static_cast<size_t>(count));
      std::vector<char*> bytes;
      for (int i = 0; i < count; ++i) {
        for (size_t k = 0; k < n; ++k) {
          const int32_t x = static_cast<int32_t>(random->below(1 << 20));
          slots[i].push_back(i == me ? b.all[at + k] : x);
          if (i != me) {
            want[at + k] = static_cast<int32_t>(static_cast<uint32_t>(want[at + k]) +
                                                static_cast<uint32_t>(x));
          }
        }
        bytes.push_back(reinterpret_cast<char*>(slots[i].data()));
      }
      if (direct) {
        batch.reduce_out(block, bytes.data(), count, me);
      } else {
        std::vector<int32_t> result(n, kGuard);
        for (int shard = 0; shard < shards; ++shard) {
          batch.reduce(block, shard_range(n, shards, shard), bytes.data(), count, me,
                       reinterpret_cast<char*>(result.data()));
        }
        batch.unpack(block, reinterpret_cast<char*>(result.data()), false);
      }
      at += n;
    }
    return outputs_unlike(b, want);
  });
}
