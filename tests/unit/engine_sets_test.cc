// SPDX-License-Identifier: Apache-2.0
//
// Process sets with ranks as threads, on all kinds of layouts: who waits for whom, and what is left
// when a set is gone. Groups are here too. Joins and stalls are in engine_joins_test.cc.
#include <numeric>
#include <string>
#include <vector>

#include "tests/unit/catch.h"
#include "tests/unit/engine_words.h"

using namespace hvd;
using namespace hvd::test;

TEST_CASE("sets run at the same time, whoever is a member, and agree on their numbers",
          "[ranks-as-threads]") {
  const struct {
    const char* what;
    std::vector<int> node_of_rank;
    std::vector<std::vector<int32_t>> sets;
  } cases[] = {
      {"1 node", {0, 0, 0}, {{1, 2}, {0, 2}, {1}, {0, 1}}},
      {"2 nodes", {0, 0, 1, 1}, {{1, 2}, {3}, {0, 3}, {2, 3}, {1, 2, 3}}},
      {"3 nodes, of which some have no member", {0, 0, 1, 1, 2}, {{1, 4}, {2, 3}, {4}, {1, 2}}},
      {"3 nodes, cyclic", {0, 1, 2, 0, 1, 2}, {{1, 2, 4, 5}, {0, 3}, {1, 5}, {2, 3, 4}}},
  };
  for (const auto& c : cases) {
    ThreadJob job(c.node_of_rank);
    Complaints complaints;
    std::vector<std::vector<int32_t>> ids(c.node_of_rank.size());
    job.run([&](int rank) {
      Engine& engine = job.engine(rank);
      std::vector<int32_t>& mine = ids[static_cast<size_t>(rank)];
      for (const auto& members : c.sets)
        mine.push_back(add_set(engine, members, &complaints, rank));
      for (int round = 0; round < 20; ++round) {
        std::vector<std::vector<float>> sums(c.sets.size());
        std::vector<std::vector<float>> copies(c.sets.size());
        std::vector<int64_t> handles;
        for (size_t k = 0; k < c.sets.size(); ++k) {
          const size_t s = (k + static_cast<size_t>(rank + round)) % c.sets.size();
          if (!has(c.sets[s], rank)) continue;
          const size_t n = 1 + s * 3000;
          sums[s].assign(n, static_cast<float>(rank + 1));
          copies[s].assign(n, static_cast<float>(rank + 1));
          handles.push_back(start(engine, summing(&sums[s], "x", mine[s]), &complaints, rank));
          handles.push_back(start(engine, copying(&copies[s], c.sets[s].back(), "y", mine[s]),
                                  &complaints, rank));
        }
        for (int64_t handle : handles) finish(engine, handle, &complaints, rank);
        for (size_t s = 0; s < c.sets.size(); ++s) {
          if (!has(c.sets[s], rank)) continue;
          float sum = 0;
          for (int32_t member : c.sets[s]) sum += static_cast<float>(member + 1);
          if (!all_are(sums[s], sum)) complaints.add(rank, "a wrong sum");
          if (!all_are(copies[s], static_cast<float>(c.sets[s].back() + 1))) {
            complaints.add(rank, "a wrong copy");
          }
        }
      }
    });
    INFO(c.what);
    CHECK(complaints.all() == "");
    CHECK(job.said() == "");
    std::vector<int32_t> numbers(c.sets.size());
    std::iota(numbers.begin(), numbers.end(), 1);
    for (const auto& of_rank : ids) CHECK(of_rank == numbers);
  }
}

TEST_CASE("an operation of a set waits for its members only", "[ranks-as-threads]") {
  for (const std::vector<int>& node_of_rank : {std::vector<int>{0, 0, 0, 0}, {0, 0, 1, 1}}) {
    ThreadJob job(node_of_rank);
    Complaints complaints;
    std::vector<float> early(1, 1.0f);
    int64_t outstanding = 0;
    job.run([&](int rank) {
      Engine& engine = job.engine(rank);
      const int32_t set = add_set(engine, {1, 2}, &complaints, rank);
      if (rank == 1) outstanding = start(engine, summing(&early, "x"), &complaints, rank);
      if (rank != 1 && rank != 2) return;  // the root is not there
      for (int i = 0; i < 20; ++i) {
        std::vector<float> data(5000, 1.0f);
        finish(engine, start(engine, summing(&data, "x", set), &complaints, rank), &complaints,
               rank);
        if (!all_are(data, 2)) complaints.add(rank, "a wrong sum");
        finish(engine, start(engine, barrier_of(set), &complaints, rank), &complaints, rank);
      }
    });
    CHECK(complaints.all() == "");
    CHECK_FALSE(job.engine(1).poll(outstanding));
    job.run([&](int rank) {
      std::vector<float> data(1, 1.0f);
      int64_t handle = outstanding;
      if (rank != 1) handle = start(job.engine(rank), summing(&data, "x"), &complaints, rank);
      finish(job.engine(rank), handle, &complaints, rank);
    });
    CHECK(complaints.all() == "");
    CHECK(early[0] == 4.0f);
  }
}

TEST_CASE("the removal of a set fails what is outstanding in it, and nothing else",
          "[ranks-as-threads]") {
  ThreadJob job({0, 0, 1, 1});
  Complaints complaints;
  job.run([&](int rank) {
    Engine& engine = job.engine(rank);
    const int32_t kept = add_set(engine, {0, 1, 2}, &complaints, rank);
    const int32_t set = add_set(engine, {1, 3}, &complaints, rank);
    std::vector<float> never(1, 1.0f);
    std::vector<float> late(1, 1.0f);
    int64_t outstanding = 0;
    int64_t other = 0;
    if (rank == 1) outstanding = start(engine, summing(&never, "x", set), &complaints, rank);
    if (rank == 1) other = start(engine, summing(&late, "x", kept), &complaints, rank);
    finish(engine, start(engine, removing_set(set), &complaints, rank), &complaints, rank);
    if (rank == 1) {
      const Status s = engine.wait(outstanding, kDeadlineMs);
      if (s.text() != "process set 2 was removed") complaints.add(rank, "x: " + s.text());
      if (engine.poll(other)) complaints.add(rank, "the other set's has ended");
      const auto again = engine.submit(summing(&never, "x", set));
      const Status gone = again.ok() ? engine.wait(*again, kDeadlineMs) : again.status();
      if (gone.code() != Code::kInvalid) complaints.add(rank, "again: " + gone.text());
    }
    if (rank == 0 || rank == 2) other = start(engine, summing(&late, "x", kept), &complaints, rank);
    if (rank != 3) finish(engine, other, &complaints, rank);
    if (rank != 3 && late[0] != 3.0f) complaints.add(rank, "a wrong sum");
    // The same members again are another set.
    if (add_set(engine, {1, 3}, &complaints, rank) != 3) complaints.add(rank, "another number");
  });
  CHECK(complaints.all() == "");
}

TEST_CASE("a set that is there already, or is not, fails on every rank", "[ranks-as-threads]") {
  ThreadJob job({0, 0, 1});
  Complaints complaints;
  job.run([&](int rank) {
    Engine& engine = job.engine(rank);
    add_set(engine, {0, 2}, &complaints, rank);
    const auto ends = [&](OperationPtr operation, const std::string& text) {
      const Status s = engine.wait(start(engine, operation, &complaints, rank), kDeadlineMs);
      if (s.text() != text) complaints.add(rank, s.text());
    };
    int32_t id = -1;
    ends(adding_set({0, 2}, &id, "a"),
         "add_process_set \"a\": process set 1 has these ranks already");
    ends(adding_set(rank == 0 ? std::vector<int32_t>{0} : std::vector<int32_t>{1, 2}, &id, "a"),
         "add_process_set \"a\": ranks disagree about the members: ranks 0 on rank 0; ranks 1, 2 "
         "on rank 1, 2");
    if (id != -1) complaints.add(rank, "an id of no set");
    ends(removing_set(7, "r"), "remove_process_set \"r\": there is no process set 7 any more");
    ends(removing_set(1, "r"), "");
  });
  CHECK(complaints.all() == "");
}

TEST_CASE("sets that come and go by the thousand leave nothing behind", "[ranks-as-threads]") {
  ThreadJob::Options options;
  options.cache_capacity = 8;
  ThreadJob job({0, 0, 1}, options);
  Complaints complaints;
  std::vector<std::string> before(3);
  std::vector<std::string> after(3);
  const int cycles = count_from("HVD_SET_CYCLES", 2000);
  job.run([&](int rank) {
    Engine& engine = job.engine(rank);
    for (int cycle = 1; cycle <= cycles; ++cycle) {
      int32_t id = 0;
      const std::vector<int32_t> members = {cycle % 2, 2};
      finish(engine, start(engine, adding_set(members, &id, "add"), &complaints, rank), &complaints,
             rank);
      if (id != cycle) return complaints.add(rank, "set " + std::to_string(id));
      if (has(members, rank)) {
        // Unnamed: every set counts its own.
        std::vector<float> data(3, 1.0f);
        finish(engine, start(engine, summing(&data, "", id), &complaints, rank), &complaints, rank);
        if (!all_are(data, 2)) return complaints.add(rank, "a wrong sum");
      }
      finish(engine, start(engine, removing_set(id, "remove"), &complaints, rank), &complaints,
             rank);
      if (cycle == 50) {
        finish(engine, start(engine, barrier_of(0, "quiet"), &complaints, rank), &complaints, rank);
        before[static_cast<size_t>(rank)] = text_of(engine.sizes());
      }
    }
    finish(engine, start(engine, barrier_of(0, "quiet"), &complaints, rank), &complaints, rank);
    after[static_cast<size_t>(rank)] = text_of(engine.sizes());
  });
  CHECK(complaints.all() == "");
  CHECK(after == before);
}

TEST_CASE("a new epoch has no sets and begins to count anew", "[ranks-as-threads]") {
  ThreadJob job({0, 0, 1});
  Complaints complaints;
  job.run([&](int rank) {
    Engine& engine = job.engine(rank);
    for (int epoch = 0; epoch < 3; ++epoch) {
      if (engine.sets().ids() != std::vector<int32_t>{0}) complaints.add(rank, "sets are there");
      const int32_t set = add_set(engine, {1, 2}, &complaints, rank);
      if (set != 1) complaints.add(rank, "set " + std::to_string(set));
      std::vector<float> data(3, 1.0f);
      int64_t outstanding = 0;
      if (rank == 1) outstanding = start(engine, summing(&data, "x", set), &complaints, rank);
      if (Status s = engine.shutdown(Deadline::after_ms(kDeadlineMs)); !s.ok()) {
        complaints.add(rank, s.text());
      }
      if (rank == 1 && engine.wait(outstanding, kDeadlineMs).code() != Code::kShutDown) {
        complaints.add(rank, "x is not shut down");
      }
      if (Status s = engine.reopen(Deadline::after_ms(kDeadlineMs)); !s.ok()) {
        complaints.add(rank, s.text());
      }
    }
  });
  CHECK(complaints.all() == "");
}

TEST_CASE("a group of several types is done as a whole or not at all", "[ranks-as-threads]") {
  for (bool fuse_groups : {true, false}) {
    for (const std::vector<int>& node_of_rank : {std::vector<int>{0, 0, 0}, {0, 0, 1, 1}}) {
      ThreadJob::Options options;
      options.fuse_groups = fuse_groups;
      ThreadJob job(node_of_rank, options);
      const int ranks = job.size();
      Complaints complaints;
      job.run([&](int rank) {
        Engine& engine = job.engine(rank);
        for (int round = 0; round < 10; ++round) {
          std::vector<float> a(2000, static_cast<float>(rank));
          std::vector<int64_t> b(3, rank);
          std::vector<float> c(1, 1.0f);
          std::vector<float> single(10, 2.0f);
          const int64_t alone = start(engine, summing(&single, "s"), &complaints, rank);
          // In some rounds the last rank says another thing about the second.
          const bool agreed = round % 3 != 1;
          if (!agreed && rank == ranks - 1) b.push_back(rank);
          const std::vector<int64_t> b_before = b;
          const int64_t group = start(engine, grouped(&a, &b, &c, "g"), &complaints, rank);
          finish(engine, alone, &complaints, rank);
          const Status s = engine.wait(group, kDeadlineMs);
          if (!all_are(single, static_cast<float>(2 * ranks))) complaints.add(rank, "single");
          const int sum = ranks * (ranks - 1) / 2;
          if (agreed) {
            if (!s.ok()) complaints.add(rank, s.text());
            if (!all_are(a, static_cast<float>(sum)) || b != std::vector<int64_t>(3, sum) ||
                c[0] != static_cast<float>(ranks)) {
              complaints.add(rank, "a wrong sum");
            }
          } else {
            const std::string others = ranks == 3 ? "0, 1" : "0-2";
            if (s.text() !=
                "grouped allreduce \"g\": ranks disagree about the shape of tensor 1: "
                "[3] on rank " +
                    others + "; [4] on rank " + std::to_string(ranks - 1)) {
              complaints.add(rank, s.text());
            }
            if (!all_are(a, static_cast<float>(rank)) || b != b_before || c[0] != 1.0f) {
              complaints.add(rank, "it was touched");
            }
          }
        }
      });
      CHECK(complaints.all() == "");
    }
  }
}

TEST_CASE("no member of a group runs before all ranks have submitted the group",
          "[ranks-as-threads]") {
  ThreadJob job({0, 0, 1});
  Complaints complaints;
  std::vector<float> a(10, 1.0f);
  std::vector<int64_t> b(10, 1);
  std::vector<float> c(10, 1.0f);
  const int64_t early = start(job.engine(0), grouped(&a, &b, &c, "g"), &complaints, 0);
  job.run([&](int rank) {
    Engine& engine = job.engine(rank);
    finish(engine, start(engine, barrier_of(0), &complaints, rank), &complaints, rank);
  });
  CHECK_FALSE(job.engine(0).poll(early));
  CHECK(a[0] == 1.0f);
  job.run([&](int rank) {
    std::vector<float> x(10, 1.0f);
    std::vector<int64_t> y(10, 1);
    std::vector<float> z(10, 1.0f);
    Engine& engine = job.engine(rank);
    finish(engine, rank == 0 ? early : start(engine, grouped(&x, &y, &z, "g"), &complaints, rank),
           &complaints, rank);
  });
  CHECK(complaints.all() == "");
  CHECK(all_are(a, 3));
  CHECK(b == std::vector<int64_t>(10, 3));
}
