// SPDX-License-Identifier: Apache-2.0
//
// Joins and stalls with ranks as threads: what goes on without a rank, and what is said about one
// that does not come.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/catch.h"
#include "tests/unit/engine_words.h"
#include "tests/unit/processes.h"

using namespace hvd;
using namespace hvd::test;

namespace {

constexpr int64_t kMs = 1000000;

}  // namespace

TEST_CASE("ranks that have joined give zeros to every tensor, and an average is of all ranks",
          "[ranks-as-threads]") {
  const struct {
    const char* what;
    std::vector<int> node_of_rank;
    int64_t fusion_bytes;
    size_t cache_capacity;
  } cases[] = {
      {"1 node", {0, 0, 0}, 64 << 10, 1024},
      {"1 node, one tensor a batch", {0, 0, 0}, 0, 1024},
      {"1 node, no cache", {0, 0, 0}, 64 << 10, 0},
      {"2 nodes", {0, 0, 1, 1}, 64 << 10, 1024},
      {"2 nodes, one tensor a batch, no cache", {0, 0, 1, 1}, 0, 0},
      {"3 nodes, cyclic", {0, 1, 2, 0, 1, 2}, 64 << 10, 3},
      {"a rank alone", {0}, 64 << 10, 1024},
  };
  constexpr int kTensors = 3;
  for (const auto& c : cases) {
    ThreadJob::Options options;
    options.fusion_bytes = c.fusion_bytes;
    options.cache_capacity = c.cache_capacity;
    ThreadJob job(c.node_of_rank, options);
    const int ranks = job.size();
    Complaints complaints;
    std::vector<std::vector<int32_t>> last(static_cast<size_t>(ranks));
    job.run([&](int rank) {
      Engine& engine = job.engine(rank);
      for (int round = 0; round < 3; ++round) {
        // So many steps: of a rank each round another number.
        const auto steps_of = [&](int r) { return 2 + (r * 3 + round) % 5; };
        for (int step = 0; step < steps_of(rank); ++step) {
          std::vector<std::vector<float>> sums(kTensors);
          std::vector<float> average(7, 1.0f);
          std::vector<float> late(5000, 1.0f);  // that name is new in each step
          std::vector<int64_t> handles;
          for (int t = 0; t < kTensors; ++t) {
            auto& data = sums[static_cast<size_t>(t)];
            data.assign(static_cast<size_t>(1 + t * 1500), static_cast<float>(rank + t));
            handles.push_back(
                start(engine, summing(&data, "t" + std::to_string(t)), &complaints, rank));
          }
          handles.push_back(start(engine, averaging(&average, ranks, "a"), &complaints, rank));
          handles.push_back(start(engine, summing(&late, std::to_string(step)), &complaints, rank));
          handles.push_back(start(engine, barrier_of(0, "b"), &complaints, rank));
          for (int64_t handle : handles) finish(engine, handle, &complaints, rank);
          int there = 0;
          for (int t = 0; t < kTensors; ++t) {
            float sum = 0;
            there = 0;
            for (int r = 0; r < ranks; ++r) {
              if (step >= steps_of(r)) continue;
              sum += static_cast<float>(r + t);
              ++there;
            }
            if (!all_are(sums[static_cast<size_t>(t)], sum)) complaints.add(rank, "a wrong sum");
          }
          if (average[6] != Approx(static_cast<float>(there) / static_cast<float>(ranks))) {
            complaints.add(rank, "a wrong average");
          }
          if (!all_are(late, static_cast<float>(there))) complaints.add(rank, "a wrong late sum");
        }
        int32_t joined_last = -1;
        finish(engine, start(engine, joining(&joined_last), &complaints, rank), &complaints, rank);
        last[static_cast<size_t>(rank)].push_back(joined_last);
      }
    });
    INFO(c.what);
    CHECK(complaints.all() == "");
    CHECK(job.said() == "");
    for (const auto& of_rank : last) CHECK(of_rank == last[0]);
    for (int32_t rank : last[0]) CHECK((rank >= 0 && rank < ranks));
  }
}

TEST_CASE("what was submitted before the join goes on with its own tensors", "[ranks-as-threads]") {
  ThreadJob job({0, 0, 1});
  Complaints complaints;
  job.run([&](int rank) {
    Engine& engine = job.engine(rank);
    for (int round = 0; round < 5; ++round) {
      std::vector<float> data(2000, 1.0f);
      const int64_t handle = start(engine, summing(&data, "x"), &complaints, rank);
      int32_t last = -1;
      finish(engine, start(engine, joining(&last), &complaints, rank), &complaints, rank);
      finish(engine, handle, &complaints, rank);
      if (!all_are(data, 3)) complaints.add(rank, "a wrong sum");
    }
  });
  CHECK(complaints.all() == "");
}

TEST_CASE("without a joined rank everything but allreduce and barrier is an error, and then is not",
          "[ranks-as-threads]") {
  for (const std::vector<int>& node_of_rank : {std::vector<int>{0, 0, 0}, {0, 0, 1}, {0, 1, 2}}) {
    ThreadJob job(node_of_rank);
    Complaints complaints;
    job.run([&](int rank) {
      Engine& engine = job.engine(rank);
      const int32_t set = add_set(engine, {0, 2}, &complaints, rank);
      const int32_t without = add_set(engine, {0, 1}, &complaints, rank);
      for (int round = 0; round < 2; ++round) {
        int32_t last = -1;
        std::vector<float> data(10, static_cast<float>(rank));
        if (rank != 2) {
          const auto ends = [&](OperationPtr operation, const std::string& what) {
            const Status s = engine.wait(start(engine, operation, &complaints, rank), kDeadlineMs);
            if (s.code() == Code::kMismatch &&
                s.text() == what +
                                ": rank 2 has joined; without it only allreduce and barrier of "
                                "all ranks go on") {
              return;
            }
            complaints.add(rank, "\"" + s.text() + "\"");
          };
          ends(copying(&data, 0, "y"), "broadcast \"y\"");
          int32_t id = -1;
          ends(adding_set({1}, &id, "add"), "add_process_set \"add\"");
          ends(removing_set(set, "remove"), "remove_process_set \"remove\"");
          if (rank == 0) {
            ends(summing(&data, "x", set), "allreduce \"x\" of process set " + std::to_string(set));
          }
          // Of a set without it nobody is missed.
          std::vector<float> good(10, 1.0f);
          finish(engine, start(engine, summing(&good, "x", without), &complaints, rank),
                 &complaints, rank);
          if (!all_are(good, 2)) complaints.add(rank, "a wrong sum");
        }
        finish(engine, start(engine, joining(&last), &complaints, rank), &complaints, rank);
        if (last == 2) complaints.add(rank, "the first was the last");
        data.assign(10, static_cast<float>(rank));
        finish(engine, start(engine, copying(&data, 1, "y"), &complaints, rank), &complaints, rank);
        if (!all_are(data, 1)) complaints.add(rank, "a wrong copy");
      }
    });
    CHECK(complaints.all() == "");
  }
}

TEST_CASE("a rank that has joined can submit nothing until all have", "[ranks-as-threads]") {
  ThreadJob job({0, 0});
  Complaints complaints;
  std::vector<float> data(1, 1.0f);
  int32_t last = -1;
  const int64_t join = start(job.engine(1), joining(&last), &complaints, 1);
  CHECK(job.engine(1).submit(summing(&data, "x")).status().text() ==
        "allreduce: this rank has joined; wait for the join first");
  CHECK(job.engine(1).submit(joining(&last)).status().code() == Code::kInvalid);
  CHECK(job.engine(1).submit(barrier_of(0)).status().code() == Code::kInvalid);
  int32_t same = -1;
  finish(job.engine(0), start(job.engine(0), joining(&same), &complaints, 0), &complaints, 0);
  finish(job.engine(1), join, &complaints, 1);
  CHECK(last >= 0);
  CHECK(last == same);
  job.run([&](int rank) {
    std::vector<float> again(1, 1.0f);
    Engine& engine = job.engine(rank);
    finish(engine, start(engine, summing(&again, "x"), &complaints, rank), &complaints, rank);
  });
  CHECK(complaints.all() == "");
}

TEST_CASE("shutdown and death end a join too", "[ranks-as-threads]") {
  ThreadJob job({0, 0, 1});
  Complaints complaints;
  job.run([&](int rank) {
    Engine& engine = job.engine(rank);
    for (int epoch = 0; epoch < 2; ++epoch) {
      int64_t join = 0;
      if (rank != 0) join = start(engine, joining(nullptr), &complaints, rank);
      (void)engine.shutdown(Deadline::after_ms(kDeadlineMs)).ok();
      if (rank != 0 && engine.wait(join, kDeadlineMs).code() != Code::kShutDown) {
        complaints.add(rank, "the join is not shut down");
      }
      if (Status s = engine.reopen(Deadline::after_ms(kDeadlineMs)); !s.ok()) {
        complaints.add(rank, s.text());
      }
    }
    // None of it is left.
    std::vector<float> data(1, 1.0f);
    finish(engine, start(engine, summing(&data, "x"), &complaints, rank), &complaints, rank);
    if (data[0] != 3.0f) complaints.add(rank, "a wrong sum");
  });
  CHECK(complaints.all() == "");
  const int64_t join = start(job.engine(0), joining(nullptr), &complaints, 0);
  job.kill(2);
  CHECK(job.engine(0).wait(join, kDeadlineMs).code() == Code::kPeerLost);
}

TEST_CASE("an operation that does not come is told once, with who is missing and where that waits",
          "[ranks-as-threads]") {
  for (const std::vector<int>& node_of_rank : {std::vector<int>{0, 0, 0}, {0, 0, 1}, {0, 1, 2}}) {
    ThreadJob::Options options;
    options.stalls.warn_ns = 100 * kMs;
    ThreadJob job(node_of_rank, options);
    Complaints complaints;
    const auto place = [&](int rank) {
      return "rank " + std::to_string(rank) + " on node" +
             std::to_string(node_of_rank[static_cast<size_t>(rank)]);
    };
    const std::string warning =
        "allreduce \"x\" is not submitted by all ranks after 0.1 s: missing " + place(1) +
        " (waits in no operation), " + place(2) + " (waits in barrier \"z\"); submitted by " +
        place(0) + "\n";
    // Of what they wait in the others hear first.
    std::vector<float> data(1, 1.0f);
    const int64_t other = start(job.engine(2), barrier_of(0, "z"), &complaints, 2);
    std::thread waiter([&] { finish(job.engine(2), other, &complaints, 2); });
    REQUIRE(hvd_test::eventually(
        [&] { return job.warned().find("barrier \"z\"") != std::string::npos; }));
    const int64_t first = start(job.engine(0), summing(&data, "x"), &complaints, 0);
    CHECK(hvd_test::eventually(
        [&] { return job.warned().find("allreduce \"x\"") != std::string::npos; }));
    const std::string warned = job.warned();
    CHECK(warned.substr(warned.find('\n') + 1) == warning);
    std::vector<float> more[2] = {{1.0f}, {1.0f}};
    std::vector<int64_t> handles = {first};
    for (int rank : {1, 2}) {
      handles.push_back(start(job.engine(rank), summing(&more[rank - 1], "x"), &complaints, rank));
    }
    std::vector<int64_t> barriers;
    for (int rank : {0, 1}) {
      barriers.push_back(start(job.engine(rank), barrier_of(0, "z"), &complaints, rank));
    }
    for (int rank : {0, 1}) {
      finish(job.engine(rank), barriers[static_cast<size_t>(rank)], &complaints, rank);
    }
    for (int rank : {0, 1, 2}) {
      finish(job.engine(rank), handles[static_cast<size_t>(rank)], &complaints, rank);
    }
    waiter.join();
    CHECK(data[0] == 3.0f);
    CHECK(complaints.all() == "");
    CHECK(job.warned() == warned);  // nothing stalled any more, and nothing was told twice
    CHECK(job.said() == "");
  }
}

TEST_CASE("an operation of a set that does not come is told by its members, the root not being one",
          "[ranks-as-threads]") {
  ThreadJob::Options options;
  options.stalls.warn_ns = 100 * kMs;
  ThreadJob job({0, 0, 1}, options);
  Complaints complaints;
  job.run([&](int rank) { add_set(job.engine(rank), {1, 2}, &complaints, rank); });
  const std::string before = job.warned();  // on a busy machine the addition itself may take long
  std::vector<float> data(1, 1.0f);
  const int64_t handle = start(job.engine(2), summing(&data, "x", 1), &complaints, 2);
  CHECK(hvd_test::eventually([&] { return job.warned() != before; }));
  CHECK(
      job.warned().substr(before.size()) ==
      "allreduce \"x\" of process set 1 is not submitted by all ranks after 0.1 s: missing rank 1 "
      "on node0 (waits in no operation); submitted by rank 2 on node1\n");
  std::vector<float> more(1, 1.0f);
  const int64_t late = start(job.engine(1), summing(&more, "x", 1), &complaints, 1);
  finish(job.engine(1), late, &complaints, 1);
  finish(job.engine(2), handle, &complaints, 2);
  CHECK(complaints.all() == "");
}

TEST_CASE("an operation that waits too long ends the job for all ranks, with the same text",
          "[ranks-as-threads]") {
  ThreadJob::Options options;
  options.stalls.stop_ns = 200 * kMs;
  ThreadJob job({0, 0, 1, 1}, options);
  Complaints complaints;
  std::vector<std::string> texts(4);
  job.run([&](int rank) {
    Engine& engine = job.engine(rank);
    std::vector<float> data(1, 1.0f);
    // Rank 1 waits in another one; all the rest waits for it.
    const int64_t handle =
        start(engine, summing(&data, rank == 1 ? "other" : "x"), &complaints, rank);
    const Status s = engine.wait(handle, kDeadlineMs);
    if (s.code() != Code::kStalled) complaints.add(rank, "ended with " + s.text());
    texts[static_cast<size_t>(rank)] = s.text();
    const auto later = engine.submit(barrier_of(0));
    if (later.status().text() != s.text()) complaints.add(rank, "later: " + later.status().text());
  });
  CHECK(complaints.all() == "");
  for (const std::string& text : texts) {
    CHECK(text == texts[0]);
    CHECK(text.find("is not submitted by all ranks after 0.2 s: missing rank ") !=
          std::string::npos);
  }
  CHECK(job.warned() == "");
}
