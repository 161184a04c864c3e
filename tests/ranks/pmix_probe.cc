// SPDX-License-Identifier: Apache-2.0
//
// A rank that does one thing with the bootstrap and says in one line what came of it. Run by the
// bats tests under mpirun and srun; see usage.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "config.h"
#include "pmix/pmix_bootstrap.h"
#ifdef HVD_HAVE_MPI
#include <mpi.h>
#endif

namespace {

using hvd::Bootstrap;
using hvd::Deadline;
using hvd::Status;

constexpr const char* kUsage =
    "usage: pmix_probe exchange [BYTES]  exchange records of so many bytes\n"
    "       pmix_probe late RANK MS      the same, but RANK does not come; deadline MS\n"
    "       pmix_probe twice             then a child of this process tries, too\n"
    "       pmix_probe mpi-after         then the program uses MPI\n"
    "       pmix_probe mpi-before        the program uses MPI before and after\n"
    "       pmix_probe leave             MPI is up, rank 0 leaves without finalizing it\n";

int say(const std::string& line) {
  printf("%s\n", line.c_str());
  fflush(stdout);
  return 0;
}

int fail(const Status& status) {
  say("error: " + status.text());
  return 1;
}

// A record that is different on every rank and has every byte in it.
std::string record_of(int rank, size_t bytes) {
  std::string record(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) record[i] = static_cast<char>(i * 7 + rank * 13);
  return record;
}

hvd::Expected<std::unique_ptr<Bootstrap>> bootstrap() {
  return hvd::make_bootstrap([](const char* name) -> const char* { return getenv(name); });
}

int exchange(Bootstrap* peers, size_t bytes, Deadline deadline) {
  if (Status objection = peers->objection(); !objection.ok()) return fail(objection);
  auto records = peers->exchange(record_of(peers->rank(), bytes), deadline);
  if (!records.ok()) return fail(records.status());
  bool right = records->size() == static_cast<size_t>(peers->size());
  for (int r = 0; right && r < peers->size(); ++r) {
    right = (*records)[static_cast<size_t>(r)] == record_of(r, bytes);
  }
  say(hvd::format("rank %d of %d %s: records %s", peers->rank(), peers->size(),
                  peers->slurm_step()      ? "in its step"
                  : peers->job() == "solo" ? "alone"
                                           : "by a launcher",
                  right ? "right" : "wrong"));
  return right ? 0 : 1;
}

#ifdef HVD_HAVE_MPI
int use_mpi(const Bootstrap& peers) {
  int rank = -1, sum = 0, one = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  say(hvd::format("MPI rank %d, PMIx rank %d, sum %d", rank, peers.rank(), sum));
  return rank == peers.rank() && sum == peers.size() ? 0 : 1;
}

int with_mpi(Bootstrap* peers, const std::string& what) {
  if (what == "mpi-after") {
    peers->release();
    MPI_Init(nullptr, nullptr);
  } else if (what == "leave") {
    MPI_Init(nullptr, nullptr);
    peers->release();
  } else {
    peers->release();
  }
  const int rc = use_mpi(*peers);
  if (what == "leave") {
    peers->leave();
    if (peers->rank() == 0) _exit(rc);
    usleep(1500000);  // longer than Slurm takes to kill a step whose rank has died
    say(hvd::format("rank %d lives", peers->rank()));
    _exit(rc);
  }
  MPI_Finalize();
  return rc;
}
#endif

int try_in_child(char** argv) {
  const pid_t pid = fork();
  if (pid == 0) {
    execl("/proc/self/exe", argv[0], "exchange", nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return say(hvd::format("child: exit status %d", WEXITSTATUS(status)));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "late" && argc == 4) {
    const char* own = getenv("PMIX_RANK");
    if (own != nullptr && strcmp(own, argv[2]) == 0) {
      // Longer than the others wait, so that none of them sees a rank that has died.
      usleep(static_cast<useconds_t>(1000 * (strtol(argv[3], nullptr, 10) + 4000)));
      return 0;
    }
  } else if (what != "exchange" && what != "twice" && what != "leave" && what != "mpi-after" &&
             what != "mpi-before") {
    fputs(kUsage, stderr);
    return 2;
  }
#ifdef HVD_HAVE_MPI
  if (what == "mpi-before") MPI_Init(nullptr, nullptr);
#endif
  auto peers = bootstrap();
  if (!peers.ok()) return fail(peers.status());
  const size_t bytes = what == "exchange" && argc > 2 ? strtoul(argv[2], nullptr, 10) : 1000;
  const int64_t deadline_ms = what == "late" ? strtol(argv[3], nullptr, 10) : 30000;
  int rc = exchange(peers->get(), bytes, Deadline::after_ms(deadline_ms));
  if (rc == 0 && what == "twice") rc = try_in_child(argv);
#ifdef HVD_HAVE_MPI
  if (rc == 0 && (what == "leave" || what.compare(0, 3, "mpi") == 0)) {
    return with_mpi(peers->get(), what);
  }
#endif
  (*peers)->release();
  return rc;
}
