// SPDX-License-Identifier: Apache-2.0
//
// hvd-perf: measures an operation of libhvd over all ranks of a job, beside MPI's if asked, and
// checks every result. It knows the library by hvd.h alone. Rank 0 speaks; every rank says what
// went wrong with it. Exit status: 0, 1 if something failed or a result was wrong, 2 for a wrong
// argument.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "libhvd/base/status.h"
#include "libhvd/tools/perf/collectives.h"
#include "libhvd/tools/perf/idle.h"
#include "libhvd/tools/perf/measure.h"
#include "libhvd/tools/perf/options.h"
#include "libhvd/tools/perf/report.h"
#include "libhvd/tools/perf/step.h"

namespace hvd::perf {
namespace {

constexpr int kWrongArgument = 2;

struct Close {
  void operator()(FILE* file) const { fclose(file); }
};
using File = std::unique_ptr<FILE, Close>;

int complain(const Status& status, int exit_status = 1) {
  fprintf(stderr, "hvd-perf: %s\n", status.text().c_str());
  return exit_status;
}

Job describe_job() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  // Rank 0 is the first of its node, and every node has a first.
  return {hvd_version(), host, hvd_cross_size(), hvd_size(), hvd_rank()};
}

void say(const Job& job, const std::string& text) {
  if (job.rank != 0) return;
  fputs(text.c_str(), stdout);
  fflush(stdout);
}

// The same on every rank: rank 0 alone says it.
int complain_once(const Job& job, const Status& status) {
  return job.rank == 0 ? complain(status) : 1;
}

// Rank 0 opens the file before anything is measured, and all ranks hear whether it could.
Expected<File> open_json(const Options& options, const Job& job, HvdCollectives& hvd) {
  File file;
  int refused = 0;
  if (job.rank == 0 && !options.json_file.empty()) {
    file.reset(fopen(options.json_file.c_str(), "we"));
    if (file == nullptr) refused = errno;
  }
  std::vector<double> told = {static_cast<double>(refused)};
  if (Status summed = hvd.sum(&told); !summed.ok()) return summed;
  if (told[0] != 0) {
    return errno_error(static_cast<int>(told[0]), "--json \"%s\" cannot be written",
                       options.json_file.c_str());
  }
  return file;
}

int write_json(FILE* file, const Options& options, const std::string& text) {
  if (file == nullptr) return 0;
  if (fputs(text.c_str(), file) < 0 || fflush(file) != 0) {
    return complain(errno_error(errno, "writing \"%s\"", options.json_file.c_str()));
  }
  return 0;
}

Status check(int64_t wrong, int64_t peer_wrong) {
  if (wrong == 0 && peer_wrong == 0) return ok_status();
  return error(Code::kInternal, "%lld elements of %s's results were wrong",
               static_cast<long long>(wrong > 0 ? wrong : peer_wrong),
               wrong > 0 ? "libhvd" : "MPI");
}

Status check(const std::vector<Row>& rows) {
  int64_t wrong = 0;
  int64_t peer_wrong = 0;
  for (const Row& row : rows) {
    wrong += row.wrong;
    peer_wrong += row.peer_wrong;
  }
  return check(wrong, peer_wrong);
}

using Peer = std::unique_ptr<MpiCollectives>;

Expected<Peer> start_peer(const Options& options) {
  if (!options.compare_mpi) return Peer();
  return MpiCollectives::start();
}

// The end of a job in which nothing failed but perhaps results were wrong.
int finish(const Job& job, const Peer& peer, int written, const Status& checked) {
  if (peer != nullptr) peer->finish();
  return checked.ok() ? written : complain_once(job, checked);
}

int run_timed(const Options& options, const Job& job, HvdCollectives& hvd, FILE* json_file) {
  const auto peer = start_peer(options);
  if (!peer.ok()) return complain(peer.status());
  Bench bench(options, hvd, peer->get());
  if (const Status prepared = bench.prepare(); !prepared.ok()) return complain(prepared);

  say(job, table_header(job, options));
  std::vector<Row> rows;
  for (const int64_t bytes : sizes(options)) {
    const auto row = bench.measure(bytes);
    if (!row.ok()) return complain(row.status());
    rows.push_back(*row);
    say(job, table_row(job, options, *row));
  }
  const int written = write_json(json_file, options, json(job, options, rows));
  return finish(job, *peer, written, check(rows));
}

int run_step(const Options& options, const Job& job, HvdCollectives& hvd, FILE* json_file) {
  const auto peer = start_peer(options);
  if (!peer.ok()) return complain(peer.status());
  StepBench bench(options, hvd, peer->get());
  if (const Status prepared = bench.prepare(); !prepared.ok()) return complain(prepared);
  const auto row = bench.measure();
  if (!row.ok()) return complain(row.status());
  say(job, step_table(job, options, *row));
  const int written = write_json(json_file, options, step_json(job, options, *row));
  return finish(job, *peer, written, check(row->wrong, row->peer_wrong));
}

int run_idle(const Options& options, const Job& job, FILE* json_file) {
  const auto rows = measure_idle(options);
  if (!rows.ok()) return complain(rows.status());
  say(job, idle_table(job, options, *rows));
  return write_json(json_file, options, idle_json(job, options, *rows));
}

int run(const Options& options) {
  // libhvd may start MPI; Open MPI spins when ranks outnumber cores unless it is told now.
  if (options.compare_mpi) setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  if (const int code = hvd_init(); code != HVD_OK) {
    return complain({static_cast<Code>(code), hvd_last_error()});
  }
  const Job job = describe_job();
  HvdCollectives hvd;
  const auto json_file = open_json(options, job, hvd);
  int exit_status = 1;
  if (!json_file.ok()) {
    exit_status = complain_once(job, json_file.status());
  } else if (options.operation == Operation::kIdle) {
    exit_status = run_idle(options, job, json_file->get());
  } else if (options.operation == Operation::kStep) {
    exit_status = run_step(options, job, hvd, json_file->get());
  } else {
    exit_status = run_timed(options, job, hvd, json_file->get());
  }
  hvd_shutdown();
  return exit_status;
}

}  // namespace
}  // namespace hvd::perf

int main(int argc, char** argv) {
  using namespace hvd::perf;
  const auto options = parse_options({argv + 1, argv + argc});
  if (!options.ok()) return complain(options.status(), kWrongArgument);
  switch (options->action) {
    case Options::Action::kHelp:
      fputs(usage().c_str(), stdout);
      return 0;
    case Options::Action::kVersion:
      puts(hvd_version());
      return 0;
    case Options::Action::kMeasure:
      break;
  }
  return run(*options);
}
