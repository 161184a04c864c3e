// SPDX-License-Identifier: Apache-2.0
//
// How jobs begin and end, with ranks as threads: starts that not all come to, deaths, shutdowns and
// the epochs after them, the end of the process.
#include <chrono>
#include <thread>

#include "tests/unit/catch.h"
#include "tests/unit/thread_job.h"

using namespace hvd;
using namespace hvd::test;

namespace {

constexpr int64_t kDeadlineMs = 20000;

}  // namespace

TEST_CASE("a rank's death reaches every rank with one line, whoever it was", "[ranks-as-threads]") {
  struct Case {
    std::vector<int> node_of_rank;
    int victim;
    const char* line;
  };
  const std::vector<Case> cases = {
      {{0, 0, 0}, 0, "rank 0 on node0 is gone (connection closed); 2 ranks stop"},
      {{0, 0, 0}, 2, "rank 2 on node0 is gone (connection closed); 2 ranks stop"},
      {{0, 0, 1, 1}, 0, "rank 0 on node0 is gone (connection closed); 3 ranks stop"},
      {{0, 0, 1, 1}, 1, "rank 1 on node0 is gone (connection closed); 3 ranks stop"},
      {{0, 0, 1, 1}, 2, "rank 2 on node1 is gone (connection closed); 3 ranks stop"},
      {{0, 1}, 1, "rank 1 on node1 is gone (connection closed); 1 rank stops"},
  };
  for (const Case& c : cases) {
    ThreadJob job(c.node_of_rank);
    Complaints complaints;
    job.run([&](int rank) {
      std::vector<float> data(50000, 1.0f);
      if (rank == c.victim) return job.kill(rank);
      auto handle = allreduce(job.engine(rank), "x", &data, ReduceOp::kSum, job.size());
      Status s = handle.ok() ? job.engine(rank).wait(*handle, kDeadlineMs) : handle.status();
      if (s.code() != Code::kPeerLost || s.text() != c.line) complaints.add(rank, s.text());
      auto later = allreduce(job.engine(rank), "y", &data, ReduceOp::kSum, job.size());
      if (later.status().text() != c.line) complaints.add(rank, "later: " + later.status().text());
    });
    INFO(c.line);
    CHECK(complaints.all() == "");
    CHECK(job.said() == std::string("horovod: ") + c.line + "\n");
  }
}

TEST_CASE("shutdown fails what is outstanding, and the next epoch starts afresh",
          "[ranks-as-threads]") {
  for (const JobShape& shape : job_shapes()) {
    if (shape.node_of_rank.size() < 2) continue;
    ThreadJob job(shape.node_of_rank);
    Complaints complaints;
    job.run([&](int rank) {
      Engine& engine = job.engine(rank);
      for (int epoch = 0; epoch < 5; ++epoch) {
        std::vector<float> data(3000, 1.0f);
        auto handle = allreduce(engine, "x", &data, ReduceOp::kSum, job.size());
        if (!engine.wait(*handle, kDeadlineMs).ok()) complaints.add(rank, "x");
        if (data[2999] != static_cast<float>(job.size())) complaints.add(rank, "sum");
        Expected<int64_t> never(int64_t{0});
        if (rank == 1) never = allreduce(engine, "never", &data, ReduceOp::kSum, job.size());
        Status s = engine.shutdown(Deadline::after_ms(kDeadlineMs));
        if (!s.ok()) complaints.add(rank, s.text());
        if (rank == 1) {
          s = engine.wait(*never, kDeadlineMs);
          if (s.code() != Code::kShutDown) complaints.add(rank, "never: " + s.text());
        }
        s = engine.reopen(Deadline::after_ms(kDeadlineMs));
        if (!s.ok()) complaints.add(rank, s.text());
      }
    });
    INFO(shape.name);
    CHECK(complaints.all() == "");
    CHECK(job.said() == "");
  }
}

TEST_CASE("operations that need a rank which has shut down fail with its name",
          "[ranks-as-threads]") {
  ThreadJob job({0, 0, 1});
  Complaints complaints;
  job.run([&](int rank) {
    Engine& engine = job.engine(rank);
    if (rank == 2) {
      Status s = engine.shutdown(Deadline::after_ms(kDeadlineMs));
      if (!s.ok()) complaints.add(rank, s.text());
      return;
    }
    std::vector<float> data(10, 1.0f);
    for (int i = 0; i < 2; ++i) {
      auto handle = allreduce(engine, "x", &data, ReduceOp::kSum, 3);
      Status s = engine.wait(*handle, kDeadlineMs);
      if (s.text() != "rank 2 on node1 has shut down") complaints.add(rank, s.text());
    }
  });
  CHECK(complaints.all() == "");
}

TEST_CASE("a rank that ended in one epoch has shut down in the next", "[ranks-as-threads]") {
  ThreadJob job({0, 0, 1});
  Complaints complaints;
  job.run([&](int rank) {
    Engine& engine = job.engine(rank);
    Status s = engine.shutdown(Deadline::after_ms(kDeadlineMs));
    if (!s.ok()) complaints.add(rank, s.text());
    if (rank == 1) {
      engine.at_end();
      return job.kill(rank);
    }
    s = engine.reopen(Deadline::after_ms(kDeadlineMs));
    if (!s.ok()) return complaints.add(rank, s.text());
    std::vector<float> data(10, 1.0f);
    auto handle = allreduce(engine, "x", &data, ReduceOp::kSum, 3);
    s = engine.wait(*handle, kDeadlineMs);
    if (s.text() != "rank 1 on node0 has shut down") complaints.add(rank, s.text());
  });
  CHECK(complaints.all() == "");
  CHECK(job.said() == "");
}

TEST_CASE("unnamed operations are in step in the next epoch, though one had failed on one rank",
          "[ranks-as-threads]") {
  ThreadJob job({0, 0, 1});
  Complaints complaints;
  job.run([&](int rank) {
    Engine& engine = job.engine(rank);
    if (rank == 1) {
      auto alone = barrier(engine);  // nobody else comes to it
      Status s = engine.wait(*alone, kDeadlineMs);
      if (s.code() != Code::kShutDown) complaints.add(rank, s.text());
    }
    Status s = engine.shutdown(Deadline::after_ms(kDeadlineMs));
    if (!s.ok()) complaints.add(rank, s.text());
    s = engine.reopen(Deadline::after_ms(kDeadlineMs));
    if (!s.ok()) complaints.add(rank, s.text());
    auto together = barrier(engine);
    s = engine.wait(*together, kDeadlineMs);
    if (!s.ok()) complaints.add(rank, s.text());
  });
  CHECK(complaints.all() == "");
}

TEST_CASE("a rank that has shut down may vanish: that is no death", "[ranks-as-threads]") {
  for (int leaver : {1, 2}) {  // of a leader's node; a leader of another node
    ThreadJob job({0, 0, 1});
    Complaints complaints;
    job.run([&](int rank) {
      Engine& engine = job.engine(rank);
      if (rank == leaver) {
        Status s = engine.shutdown(Deadline::after_ms(kDeadlineMs));
        if (!s.ok()) complaints.add(rank, s.text());
        engine.at_end();
        return job.kill(rank);
      }
      std::vector<float> data(10, 1.0f);
      auto handle = allreduce(engine, "x", &data, ReduceOp::kSum, 3);
      Status s = handle.ok() ? engine.wait(*handle, kDeadlineMs) : handle.status();
      if (s.code() != Code::kShutDown) complaints.add(rank, s.text());
    });
    CHECK(complaints.all() == "");
    CHECK(job.said() == "");
  }
}

TEST_CASE("what all had agreed on before the leader left is done by the others",
          "[ranks-as-threads]") {
  // The end of the leader and its last words reach the others at once; 6 in 100 read the end first.
  for (int round = 0; round < 100; ++round) {
    ThreadJob job({0, 0, 0});
    Complaints complaints;
    job.run([&](int rank) {
      Engine& engine = job.engine(rank);
      auto handle = barrier(engine);
      Status s = handle.ok() ? engine.wait(*handle, kDeadlineMs) : handle.status();
      if (!s.ok()) return complaints.add(rank, s.text());
      if (rank != 0) return;
      s = engine.shutdown(Deadline::after_ms(kDeadlineMs));
      if (!s.ok()) complaints.add(rank, s.text());
      engine.at_end();
      job.kill(rank);
    });
    INFO(round);
    REQUIRE(complaints.all() == "");
  }
}

TEST_CASE("all at the end finalise; one that waits alone is let go", "[ranks-as-threads]") {
  for (bool straggler : {false, true}) {
    ThreadJob job({0, 0, 1, 1});
    Complaints complaints;
    job.run([&](int rank) {
      Engine& engine = job.engine(rank);
      Status s = engine.shutdown(Deadline::after_ms(kDeadlineMs));
      if (!s.ok()) complaints.add(rank, s.text());
      if (straggler && rank == 3) return;
      const auto way = engine.leave(Deadline::after_ms(straggler ? 50 : kDeadlineMs),
                                    Deadline::after_ms(kDeadlineMs));
      const auto want = straggler ? Engine::Way::kLeave : Engine::Way::kFinalize;
      if (way != want) complaints.add(rank, "wrong way");
    });
    CHECK(complaints.all() == "");
  }
}

TEST_CASE("whoever does not come to the start is named to all, leader or not, on every layout",
          "[ranks-as-threads]") {
  const struct {
    std::vector<int> node_of_rank;
    int late;
  } cases[] = {{{0, 0, 0}, 0},    {{0, 0, 0}, 2},    {{0, 0, 1, 1}, 0}, {{0, 0, 1, 1}, 1},
               {{0, 0, 1, 1}, 2}, {{0, 0, 1, 1}, 3}, {{0, 1, 2}, 0},    {{0, 1, 2}, 1}};
  for (const auto& c : cases) {
    ThreadJob job(c.node_of_rank);
    std::vector<Status> met(c.node_of_rank.size());
    const Deadline deadline = Deadline::after_ms(100);
    job.run([&](int rank) {
      if (rank == c.late) return;
      met[static_cast<size_t>(rank)] = job.engine(rank).meet(deadline);
    });
    const std::string who =
        format("rank %d on node%d", c.late, c.node_of_rank[static_cast<size_t>(c.late)]);
    for (int rank = 0; rank < job.size(); ++rank) {
      if (rank == c.late) continue;
      INFO(who << ", as rank " << rank << " hears it");
      CHECK(met[static_cast<size_t>(rank)].code() == Code::kTimeout);
      CHECK(met[static_cast<size_t>(rank)].text() == who + " did not come to the start in time");
    }
    CHECK(job.said() == "");
  }
}

TEST_CASE("all that come to the start in time may start", "[ranks-as-threads]") {
  ThreadJob job({0, 0, 1, 2});
  std::vector<Status> met(4, Status(Code::kInternal, "not run"));
  job.run([&](int rank) {
    met[static_cast<size_t>(rank)] = job.engine(rank).meet(Deadline::after_ms(20000));
  });
  for (const Status& status : met) CHECK(status.text() == "");
}
