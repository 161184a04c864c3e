// SPDX-License-Identifier: Apache-2.0
#include "libhvd/tools/perf/measure.h"

#include <algorithm>
#include <cstdlib>

#include "libhvd/base/clock.h"

namespace hvd::perf {
namespace {

constexpr int64_t kLeastIterations = 5;
constexpr int64_t kMostIterations = 50;
constexpr int64_t kBytesPerRound = int64_t{128} << 20;  // keeps a default run under a minute
constexpr int64_t kShiftStep = 7919;                    // any prime but the period itself

int64_t iterations(const Options& options, int64_t bytes) {
  if (options.iterations) return *options.iterations;
  return std::clamp(kBytesPerRound / std::max<int64_t>(bytes, 1), kLeastIterations,
                    kMostIterations);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

bool has_data(Operation operation) { return operation != Operation::kBarrier; }

}  // namespace

std::vector<int64_t> sizes(const Options& options) {
  if (!has_data(options.operation)) return {0};
  std::vector<int64_t> all;
  for (int64_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= options.factor) {
    all.push_back(bytes);
    if (bytes > options.max_bytes / options.factor) break;
  }
  return all;
}

// A broadcast's result is what rank 0 sends.
Bench::Bench(const Options& options, Collectives& hvd, Collectives* peer)
    : options_(options),
      hvd_(hvd),
      peer_(peer),
      sent_(*options.type, hvd_rank(), 1),
      expected_(*options.type, 0, options.operation == Operation::kBroadcast ? 1 : hvd_size()) {}

Status Bench::prepare() {
  if (!has_data(options_.operation)) return ok_status();
  constexpr int64_t kAlignment = 4096;
  const int64_t bytes =
      (options_.max_bytes + options_.type->bytes + kAlignment - 1) / kAlignment * kAlignment;
  input_.reset(aligned_alloc(kAlignment, static_cast<size_t>(bytes)));
  output_ = input_.get();
  if (!options_.in_place) {
    output_memory_.reset(aligned_alloc(kAlignment, static_cast<size_t>(bytes)));
    output_ = output_memory_.get();
  }
  if (input_ == nullptr || output_ == nullptr) {
    return error(Code::kSystem, "no memory for %lld bytes; lower --max",
                 static_cast<long long>(bytes));
  }
  return ok_status();
}

Expected<Row> Bench::measure(int64_t bytes) {
  Row row;
  if (has_data(options_.operation)) {
    row.count = std::max<int64_t>(bytes / options_.type->bytes, 1);
    row.bytes = row.count * options_.type->bytes;
  }
  std::vector<Round> hvd_rounds;
  std::vector<Round> peer_rounds;
  for (int64_t i = 0; i < options_.rounds; ++i) {
    const auto round = run_round(hvd_, row.count);
    if (!round.ok()) return round.status();
    hvd_rounds.push_back(*round);
    if (peer_ == nullptr) continue;
    const auto peer_round = run_round(*peer_, row.count);
    if (!peer_round.ok()) return peer_round.status().annotate("the peer");
    peer_rounds.push_back(*peer_round);
  }
  if (Status gathered = gather(row, hvd_rounds, peer_rounds); !gathered.ok()) return gathered;
  return row;
}

Expected<Bench::Round> Bench::run_round(Collectives& library, int64_t count) {
  wrong_ = 0;
  std::vector<double> times;
  const int64_t timed = iterations(options_, count * options_.type->bytes);
  times.reserve(static_cast<size_t>(timed));
  for (int64_t i = -options_.warmup; i < timed; ++i) {
    const auto time_us = run_once(library, count);
    if (!time_us.ok()) return time_us.status();
    if (i >= 0) times.push_back(*time_us);
  }
  return Round{median(std::move(times)), wrong_};
}

Expected<double> Bench::run_once(Collectives& library, int64_t count) {
  shift_ += kShiftStep;
  if (has_data(options_.operation)) {
    sent_.fill(input_.get(), count, shift_);
    if (Status met = library.barrier(); !met.ok()) return met;
  }
  const int64_t start = now_ns();
  const Status done = operate(library, count);
  const int64_t end = now_ns();
  if (!done.ok()) return done;
  if (has_data(options_.operation)) wrong_ += expected_.count_wrong(output_, count, shift_);
  return static_cast<double>(end - start) / 1000;
}

Status Bench::operate(Collectives& library, int64_t count) {
  switch (options_.operation) {
    case Operation::kAllreduce:
      return library.allreduce(*options_.type, input_.get(), output_, count);
    case Operation::kBroadcast:
      return library.broadcast(*options_.type, output_, count);
    default:
      return library.barrier();
  }
}

// Every rank puts its figures into its own columns of a table of zeros; the sum is the table.
Status Bench::gather(Row& row, const std::vector<Round>& hvd, const std::vector<Round>& peer) {
  constexpr size_t kFigures = 4;
  const size_t ranks = static_cast<size_t>(hvd_size());
  std::vector<double> table(hvd.size() * ranks * kFigures);
  const auto at = [&](size_t round, size_t rank) {
    return table.data() + (round * ranks + rank) * kFigures;
  };
  for (size_t i = 0; i < hvd.size(); ++i) {
    double* mine = at(i, static_cast<size_t>(hvd_rank()));
    mine[0] = hvd[i].median_us;
    mine[1] = static_cast<double>(hvd[i].wrong);
    if (peer.empty()) continue;
    mine[2] = peer[i].median_us;
    mine[3] = static_cast<double>(peer[i].wrong);
  }
  static constexpr ElementType kFloat64 = kElementTypes[1];
  const Status summed =
      hvd_.allreduce(kFloat64, table.data(), table.data(), static_cast<int64_t>(table.size()));
  if (!summed.ok()) return summed.annotate("gathering the times");

  std::vector<double> times;
  std::vector<double> peer_times;
  for (size_t i = 0; i < hvd.size(); ++i) {
    double slowest = 0;
    double peer_slowest = 0;
    for (size_t rank = 0; rank < ranks; ++rank) {
      const double* figures = at(i, rank);
      slowest = std::max(slowest, figures[0]);
      row.wrong += static_cast<int64_t>(figures[1]);
      peer_slowest = std::max(peer_slowest, figures[2]);
      row.peer_wrong += static_cast<int64_t>(figures[3]);
    }
    times.push_back(slowest);
    peer_times.push_back(peer_slowest);
  }
  row.time_us = median(std::move(times));
  if (!peer.empty()) row.peer_time_us = median(std::move(peer_times));
  return ok_status();
}

}  // namespace hvd::perf
