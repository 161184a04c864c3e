// SPDX-License-Identifier: Apache-2.0
//
// The data path without agreement: every kind of batch, of several process sets, over the same
// slots, against plain results.
#include "tests/unit/catch.h"
#include "tests/unit/random_cases.h"
#include "tests/unit/stream_job.h"
#include "tests/unit/thread_job.h"

using namespace hvd;
using namespace hvd::test;

TEST_CASE("whatever the schedule, every batch of every process set has its plain result",
          "[ranks-as-threads]") {
  const auto& shapes = job_shapes();
  for_random_cases("schedules of streams", count_from("HVD_STREAMS", 200),
                   [&](Random* random) -> std::string {
                     StreamJob::Options options;
                     options.slots = static_cast<int>(random->from(1, 5));
                     options.block_bytes = 4096 * static_cast<size_t>(random->from(1, 6));
                     const JobShape& shape = shapes[random->below(shapes.size())];
                     StreamJob job(shape.node_of_rank, options);
                     for (int round = 0; round < 2; ++round) {
                       const int items = static_cast<int>(random->from(1, 12));
                       std::string wrong = job.run(random_schedule(random, job.layout(), items));
                       if (wrong.empty()) wrong = job.wrong_results();
                       if (!wrong.empty()) return std::string(shape.name) + ": " + wrong;
                     }
                     return "";
                   });
}

TEST_CASE("an abandoned stream leaves the user's memory alone, wherever it stands",
          "[ranks-as-threads]") {
  const auto& shapes = job_shapes();
  for_random_cases("abandoned streams", count_from("HVD_STREAMS", 100),
                   [&](Random* random) -> std::string {
                     StreamJob::Options options;
                     options.abandon_after = static_cast<int>(random->from(1, 60));
                     StreamJob job(shapes[random->below(shapes.size())].node_of_rank, options);
                     return job.run(random_schedule(random, job.layout(), 6));
                   });
}
