// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads that agree and disagree: what differs is told to all, names and runtime work
// afterwards, tickets are retired and evicted, and results do not depend on any order. What must
// come of it is computed by tests/ranks/rounds_model, which the rank and cluster tests use too.
#include <stdio.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/ranks/rounds_model.h"
#include "tests/unit/catch.h"
#include "tests/unit/random_cases.h"
#include "tests/unit/thread_job.h"

using namespace hvd;
using namespace hvd::test;

namespace {

constexpr int64_t kDeadlineMs = 60000;

struct Shape {
  const char* name;
  std::vector<int> node_of_rank;
};

// One operation of one rank, from submit to the comparison with what must come of it.
class Use {
 public:
  Use(Engine* engine, int rank, int ranks, std::string name, const std::vector<Says>& by_rank,
      uint64_t salt)
      : engine_(engine), trial_(std::move(name), by_rank, rank, salt) {
    const Says& says = trial_.says;
    Description d;
    d.kind = says.broadcast ? OpKind::kBroadcast : OpKind::kAllreduce;
    d.op = static_cast<ReduceOp>(says.op);
    d.root = says.root;
    d.prescale = says.prescale;
    d.postscale = says.postscale;
    d.device = says.gpu ? DeviceClass::kGpu : DeviceClass::kHost;
    d.tensors.push_back({static_cast<DataType>(says.type), says.shape});
    Segment s;
    s.input = s.output = trial_.data.data();
    s.elements = says.broadcast ? says.bytes() : says.elements();
    s.before.multiply = says.prescale;
    s.after.multiply = says.postscale;
    if (!says.broadcast && d.op == ReduceOp::kAverage) s.after.divide = ranks;
    auto operation = std::make_shared<Operation>();
    operation->key.name = trial_.name;
    operation->description = std::move(d);
    operation->segments.push_back(s);
    submitted_ = engine_->submit(std::move(operation));
  }

  // "" if all went as it must.
  std::string wait() {
    if (!submitted_.ok()) return trial_.name + " was refused: " + submitted_.status().text();
    const Status s = engine_->wait(*submitted_, kDeadlineMs);
    const Trial::End end = s.ok()                        ? Trial::End::kWell
                           : s.code() == Code::kMismatch ? Trial::End::kMismatch
                                                         : Trial::End::kOtherwise;
    return trial_.verdict(end, s.text());
  }

 private:
  Engine* engine_;
  Trial trial_;
  Expected<int64_t> submitted_ = int64_t{0};
};

Says floats(std::vector<int64_t> shape) {
  Says says;
  says.shape = std::move(shape);
  return says;
}

// Uses one name as the list says, one after the other, and complains of what is not as it must be.
void use(ThreadJob* job, int rank, const std::vector<std::vector<Says>>& uses,
         Complaints* complaints) {
  uint64_t salt = 0;
  for (const auto& by_rank : uses) {
    Use one(&job->engine(rank), rank, job->size(), "grad", by_rank, ++salt);
    if (std::string wrong = one.wait(); !wrong.empty()) {
      complaints->add(rank, "use " + std::to_string(salt) + ": " + wrong);
    }
  }
}

}  // namespace

TEST_CASE("ranks that differ in anything are told who and how, and the name works again",
          "[ranks-as-threads]") {
  const Shape shapes[] = {
      {"1 node, 2 ranks", {0, 0}},
      {"1 node, 3 ranks", {0, 0, 0}},
      {"2 nodes, 4 ranks", {0, 0, 1, 1}},
      {"4 nodes, 8 ranks", {0, 0, 1, 1, 2, 2, 3, 3}},
  };
  Random random(1);
  for (const Shape& shape : shapes) {
    ThreadJob job(shape.node_of_rank);
    const int ranks = job.size();
    // The root of the tree, the leader of another node, a rank that leads nothing.
    std::vector<std::vector<Says>> uses;
    for (int dissenter : {0, ranks / 2, ranks - 1}) {
      for (int i = 0; i < kAspects; ++i) {
        Says usual = floats({5, 7});
        usual.broadcast = static_cast<Aspect>(i) == Aspect::kRoot;
        std::vector<Says> by_rank = all_say(usual, ranks);
        Says& other = by_rank[static_cast<size_t>(dissenter)];
        REQUIRE(change(&other, static_cast<Aspect>(i), ranks, &random));
        const std::string text = expected_error("grad", by_rank);
        CHECK(text.find(std::string("ranks disagree about ") + words_for(static_cast<Aspect>(i))) !=
              std::string::npos);
        uses.push_back(by_rank);
        uses.push_back(all_say(usual, ranks));
      }
    }
    Complaints complaints;
    job.run([&](int rank) { use(&job, rank, uses, &complaints); });
    INFO(shape.name);
    CHECK(complaints.all() == "");
    CHECK(job.said() == "");
  }
}

TEST_CASE("a ticket is retired when all ranks change a description, and kept when some do",
          "[ranks-as-threads]") {
  const Says old_one = floats({10});
  const Says new_one = floats({3, 4});
  const struct {
    const char* what;
    std::vector<int> changed;
    std::vector<int> node_of_rank;
  } cases[] = {
      {"rank 0", {0}, {0, 0, 1, 1}},
      {"a leader", {2}, {0, 0, 1, 1}},
      {"a rank that leads nothing", {3}, {0, 0, 1, 1}},
      {"a whole node", {2, 3}, {0, 0, 1, 1}},
      {"all but one", {0, 1, 3}, {0, 0, 1, 1}},
      {"all", {0, 1, 2, 3}, {0, 0, 1, 1}},
      {"one of one node", {1}, {0, 0, 0}},
      {"all of one node", {0, 1, 2}, {0, 0, 0}},
      {"one of 4 nodes", {5}, {0, 0, 1, 1, 2, 2, 3, 3}},
      {"all of 4 nodes", {0, 1, 2, 3, 4, 5, 6, 7}, {0, 0, 1, 1, 2, 2, 3, 3}},
  };
  for (const auto& c : cases) {
    for (bool with_new : {false, true}) {
      ThreadJob job(c.node_of_rank);
      const auto before = all_say(old_one, job.size());
      auto changed = before;
      for (int rank : c.changed) changed[static_cast<size_t>(rank)] = new_one;
      // Afterwards the name works with either description.
      const auto after = all_say(with_new ? new_one : old_one, job.size());
      Complaints complaints;
      job.run([&](int rank) {
        use(&job, rank, {before, before, changed, after, after, changed, before}, &complaints);
      });
      INFO(c.what << (with_new ? ", then the new description" : ", then the old description"));
      CHECK(complaints.all() == "");
    }
  }
}

namespace {

// Rounds of the model; nothing if all went as it says.
std::string play_rounds(const std::vector<int>& node_of_rank, ThreadJob::Options options,
                        uint64_t seed, int rounds, int names) {
  ThreadJob job(node_of_rank, options);
  Complaints complaints;
  job.run([&](int rank) {
    Rounds model(seed, job.size(), names, true);
    for (int round = 0; round < rounds; ++round) {
      model.next();
      std::vector<Use> uses;
      for (int name : model.order(rank)) {
        uses.emplace_back(&job.engine(rank), rank, job.size(), model.name(name), model.says(name),
                          model.salt(name));
      }
      for (Use& use : uses) {
        const std::string wrong = use.wait();
        if (wrong.empty()) continue;
        return complaints.add(rank, "round " + std::to_string(round) + ": " + wrong);
      }
    }
  });
  return complaints.all() + job.said();
}

}  // namespace

TEST_CASE("rounds of names in random orders, some of them changed, end as the model says",
          "[ranks-as-threads]") {
  const int rounds = count_from("HVD_ROUNDS", 100);
  const std::vector<int> node_of_rank = {0, 0, 1, 1, 2, 2, 3, 3};
  printf("rounds: %d rounds (HVD_ROUNDS), HVD_SEED=%llu\n", rounds,
         static_cast<unsigned long long>(run_seed()));
  fflush(stdout);
  int part = 0;
  for (size_t capacity : {size_t{1024}, size_t{7}}) {
    ThreadJob::Options options;
    options.cache_capacity = capacity;
    options.fusion_bytes = capacity == 7 ? 4096 : 64 << 10;
    INFO("capacity " << capacity << ", HVD_SEED=" << run_seed());
    CHECK(play_rounds(node_of_rank, options, run_seed() + static_cast<uint64_t>(part++),
                      (rounds + 1) / 2, 20) == "");
  }
}

TEST_CASE("a cache of no, one or two tickets and one smaller than the names change no result",
          "[ranks-as-threads]") {
  const Shape shapes[] = {{"1 node, 3 ranks", {0, 0, 0}}, {"2 nodes, 4 ranks", {0, 1, 0, 1}}};
  for (const Shape& shape : shapes) {
    for (size_t capacity : {0, 1, 2, 5}) {
      ThreadJob::Options options;
      options.cache_capacity = capacity;
      INFO(shape.name << ", capacity " << capacity << ", HVD_SEED=" << run_seed());
      CHECK(play_rounds(shape.node_of_rank, options, run_seed(), 25, 6) == "");
    }
  }
}

TEST_CASE("evictions that cross with announcements change no result", "[ranks-as-threads]") {
  // Each rank has at most one name in flight and goes on at once, so that ranks are up to a use
  // apart, and every use of a name evicts another one.
  for (size_t capacity : {0, 1, 2}) {
    ThreadJob::Options options;
    options.cache_capacity = capacity;
    ThreadJob job({0, 0, 1, 1, 2}, options);
    Complaints complaints;
    job.run([&](int rank) {
      Random random(7);
      for (int i = 0; i < 300; ++i) {
        std::vector<Says> by_rank = all_say(floats({1 + (i % 2)}), job.size());
        if (random.one_in(3)) by_rank[random.below(by_rank.size())] = floats({9});
        const std::string name = "n" + std::to_string(random.below(4));
        Use use(&job.engine(rank), rank, job.size(), name, by_rank, static_cast<uint64_t>(i));
        const std::string wrong = use.wait();
        if (!wrong.empty()) return complaints.add(rank, std::to_string(i) + ": " + wrong);
      }
    });
    INFO("capacity " << capacity);
    CHECK(complaints.all() == "");
  }
}

namespace {

// Floats of all magnitudes: any other order of summation gives other bits.
float awkward(int rank, size_t tensor, size_t i) {
  Random random((static_cast<uint64_t>(rank) << 48) + (tensor << 32) + i);
  const float fraction = static_cast<float>(random.next() >> 40) / 16777216.0f + 0.5f;
  const float x = fraction * static_cast<float>(uint64_t{1} << random.below(40));
  return random.one_in(2) ? x : -x;
}

using Tensors = std::vector<std::vector<float>>;

// The results of one submission order as bits, of every rank.
std::vector<std::vector<float>> sums_in_some_order(ThreadJob* job,
                                                   const std::vector<Tensors>& inputs,
                                                   uint64_t order, Complaints* complaints) {
  std::vector<std::vector<float>> results(static_cast<size_t>(job->size()));
  job->run([&](int rank) {
    Tensors data = inputs[static_cast<size_t>(rank)];
    std::vector<size_t> tensors;
    for (size_t t = 0; t < data.size(); ++t) tensors.push_back(t);
    Random random(order * 1000 + static_cast<uint64_t>(rank));
    random.shuffle(&tensors);
    std::vector<int64_t> handles;
    for (size_t t : tensors) {
      auto handle = allreduce(job->engine(rank), "t" + std::to_string(t), &data[t], ReduceOp::kSum,
                              job->size());
      if (!handle.ok()) return complaints->add(rank, handle.status().text());
      handles.push_back(*handle);
    }
    for (int64_t handle : handles) {
      Status s = job->engine(rank).wait(handle, kDeadlineMs);
      if (!s.ok()) return complaints->add(rank, s.text());
    }
    auto& result = results[static_cast<size_t>(rank)];
    for (const auto& d : data) result.insert(result.end(), d.begin(), d.end());
  });
  return results;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("20 submission orders and 3 fusion thresholds give the same bits on every layout",
          "[ranks-as-threads]") {
  const Shape shapes[] = {
      {"1 node, 3 ranks", {0, 0, 0}},
      {"1 node, 5 ranks", {0, 0, 0, 0, 0}},
      {"2 nodes, 4 ranks", {0, 0, 1, 1}},
      {"2 nodes, uneven", {0, 0, 0, 1}},
      {"3 nodes, cyclic", {0, 1, 2, 0, 1, 2}},
      {"3 nodes, uneven", {0, 0, 1, 1, 2}},
      {"4 nodes, 8 ranks", {0, 0, 1, 1, 2, 2, 3, 3}},
      {"4 nodes, cyclic and uneven", {0, 1, 2, 3, 0, 1, 0}},
  };
  // Around the sizes where plans change: a shard's cache lines, direct and doubling, a block.
  const std::vector<size_t> sizes = {1, 3, 63, 64, 65, 500, 1000, 1024, 1025, 2048, 2049, 5000};
  std::vector<Tensors> inputs;  // by rank
  for (int rank = 0; rank < 8; ++rank) {
    inputs.emplace_back(sizes.size());
    for (size_t t = 0; t < sizes.size(); ++t) {
      for (size_t i = 0; i < sizes[t]; ++i) inputs.back()[t].push_back(awkward(rank, t, i));
    }
  }
  for (const Shape& shape : shapes) {
    std::vector<float> first;
    for (int64_t threshold : {int64_t{0}, int64_t{64} << 10, int64_t{128} << 20}) {
      ThreadJob::Options options;
      options.fusion_bytes = threshold;
      options.block_bytes = 16384;
      ThreadJob job(shape.node_of_rank, options);
      Complaints complaints;
      for (uint64_t order = 0; order < 20; ++order) {
        const auto results = sums_in_some_order(&job, inputs, order, &complaints);
        if (first.empty()) first = results[0];
        for (int rank = 0; rank < job.size(); ++rank) {
          if (same_bits(results[static_cast<size_t>(rank)], first)) continue;
          complaints.add(rank, "other bits in order " + std::to_string(order));
        }
      }
      INFO(shape.name << ", threshold " << threshold);
      CHECK(complaints.all() == "");
    }
  }
}
