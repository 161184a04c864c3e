// SPDX-License-Identifier: Apache-2.0
//
// What is made of everybody's records: whatever is wrong on any rank is the same sentence on all.
#include "libhvd/record.h"

#include "libhvd/base/codec.h"
#include "tests/unit/catch.h"

using namespace hvd;

namespace {

// Ranks 0 and 1 on node0, 2 and 3 on node1, and so on.
std::vector<Record> job_of(int size) {
  std::vector<Record> records(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    Record& record = records[static_cast<size_t>(rank)];
    record.version = "1.0";
    record.host = format("node%d", rank / 2);
    record.addresses = {"10.0.0.1/8%eth0"};
    record.port = 1000 + rank;
    record.mpi = "auto";
  }
  return records;
}

std::vector<std::string> encoded(const std::vector<Record>& records) {
  std::vector<std::string> bytes;
  for (const Record& record : records) bytes.push_back(record.encode());
  return bytes;
}

ProgramMpi mpi(ProgramMpi::State state, int rank, int size) {
  ProgramMpi program;
  program.state = state;
  program.rank = rank;
  program.size = size;
  return program;
}

}  // namespace

TEST_CASE("records say the same to who reads them as to who wrote them") {
  auto job = job_of(3);
  job[1].program_mpi = mpi(ProgramMpi::State::kFunneled, 1, 3);
  job[0].report = "{\"node\": \"node0\"}";
  const auto records = read_records(encoded(job));
  REQUIRE(records.ok());
  for (size_t rank = 0; rank < job.size(); ++rank) {
    CHECK((*records)[rank].encode() == job[rank].encode());
  }
  CHECK((*records)[1].program_mpi.state == ProgramMpi::State::kFunneled);
}

TEST_CASE("different versions of the library are named with their ranks and hosts") {
  auto job = job_of(2);
  job[1].version = "1.1";
  CHECK(read_records(encoded(job)).status().text() ==
        "rank 0 on node0 has libhvd 1.0; rank 1 on node0 has libhvd 1.1. All ranks must load the "
        "same");

  job = job_of(9);
  for (int rank : {2, 3, 4, 5, 6}) job[static_cast<size_t>(rank)].version = "1.1";
  job[8].version = "0.9";
  const Status status = read_records(encoded(job)).status();
  CHECK(status.code() == Code::kMismatch);
  CHECK(status.text() ==
        "rank 0 on node0, rank 1 on node0, rank 7 on node3 have libhvd 1.0; rank 2 on node1, rank "
        "3 on node1, rank 4 on node2, rank 5 on node2 and 1 more have libhvd 1.1; rank 8 on node4 "
        "has libhvd 0.9. All ranks must load the same");
}

TEST_CASE("a version whose records are made differently is still told by its version") {
  auto bytes = encoded(job_of(2));
  Writer later;
  later.u32(0x31445648);
  later.string("2.0");
  later.string("node7");
  bytes[1] = later.take();
  CHECK(read_records(bytes).status().text() ==
        "rank 0 on node0 has libhvd 1.0; rank 1 on node7 has libhvd 2.0. All ranks must load the "
        "same");
  bytes[1] = "garbage";
  CHECK(read_records(bytes).status().text() ==
        "the record of rank 1 cannot be read; do all ranks load the same libhvd?");
}

TEST_CASE("a rank's objection is everybody's error") {
  auto job = job_of(4);
  job[3].objection = "PMIx says one thing, but Slurm says another";
  const Status status = read_records(encoded(job)).status();
  CHECK(status.code() == Code::kMismatch);
  CHECK(status.text() == "rank 3 on node1: PMIx says one thing, but Slurm says another");
}

TEST_CASE("MPI that sees other ranks than PMIx is fatal, with all the numbers") {
  const std::string how =
      ". Is this MPI built with the launcher's PMIx? srun --mpi=list and ompi_info tell";
  auto job = job_of(2);
  for (int rank : {0, 1}) {
    job[static_cast<size_t>(rank)].program_mpi = mpi(ProgramMpi::State::kMultiple, rank, 2);
  }
  CHECK(check_program_mpi(job, true).ok());
  for (const bool needed : {false, true}) {
    job[1].program_mpi = mpi(ProgramMpi::State::kMultiple, 0, 2);
    const Status status = check_program_mpi(job, needed);
    CHECK(status.code() == Code::kMismatch);
    CHECK(status.text() == "rank 1 on node0 is rank 1 of 2 for PMIx and rank 0 of 2 for MPI" + how);
  }
  // As many jobs of one rank.
  for (Record& record : job) record.program_mpi = mpi(ProgramMpi::State::kSingle, 0, 1);
  CHECK(check_program_mpi(job, false).text() ==
        "rank 0 on node0 is rank 0 of 2 for PMIx and rank 0 of 1 for MPI, rank 1 on node0 is rank "
        "1 of 2 for PMIx and rank 0 of 1 for MPI" +
            how);
}

TEST_CASE("the program's own MPI must let a second user in, where tensors travel by it") {
  const struct {
    ProgramMpi::State state;
    const char* text;  // nullptr: fine
  } cases[] = {
      {ProgramMpi::State::kNone, nullptr},
      {ProgramMpi::State::kMultiple, nullptr},
      {ProgramMpi::State::kSerialized,
       "the program has initialised MPI for too few threads: rank 1 on node0 with "
       "MPI_THREAD_SERIALIZED. Two users of MPI in a process need MPI_THREAD_MULTIPLE: call "
       "MPI_Init_thread with it, or leave MPI to hvd_init"},
      {ProgramMpi::State::kFunneled,
       "the program has initialised MPI for too few threads: rank 1 on node0 with "
       "MPI_THREAD_FUNNELED. Two users of MPI in a process need MPI_THREAD_MULTIPLE: call "
       "MPI_Init_thread with it, or leave MPI to hvd_init"},
      {ProgramMpi::State::kSingle,
       "the program has initialised MPI for too few threads: rank 1 on node0 with "
       "MPI_THREAD_SINGLE. Two users of MPI in a process need MPI_THREAD_MULTIPLE: call "
       "MPI_Init_thread with it, or leave MPI to hvd_init"},
      {ProgramMpi::State::kFinalised,
       "rank 1 on node0: the program has finalised MPI before hvd_init, and tensors travel between "
       "nodes by it. Finalise it after hvd_shutdown, or leave MPI to hvd_init"},
  };
  for (const auto& c : cases) {
    auto job = job_of(2);
    job[1].program_mpi = mpi(c.state, 1, 2);
    CHECK(check_program_mpi(job, false).ok());
    const Status status = check_program_mpi(job, true);
    CHECK(status.ok() == (c.text == nullptr));
    CHECK(status.text() == (c.text == nullptr ? "" : c.text));
    CHECK((status.ok() || status.code() == Code::kState));
  }
}

TEST_CASE("a second program of a task is refused where tensors travel by MPI") {
  auto job = job_of(3);
  CHECK(check_again(job, true).ok());
  job[1].again = true;
  CHECK(check_again(job, false).ok());
  const std::string why =
      ": another program of this step has run there before, and MPI, by which tensors travel "
      "between nodes, starts once in a task. Start each program with an srun of its own";
  const Status one = check_again(job, true);
  CHECK(one.code() == Code::kState);
  CHECK(one.text() == "rank 1 on node0" + why);
  job[2].again = true;
  CHECK(check_again(job, true).text() == "rank 1 on node0, rank 2 on node1" + why);
  CHECK((*read_records(encoded(job)))[2].again);
}
