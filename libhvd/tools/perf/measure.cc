// SPDX-License-Identifier: Apache-2.0
#include "libhvd/tools/perf/measure.h"

#include <algorithm>

#include "libhvd/base/clock.h"
#include "libhvd/tools/perf/rank_table.h"

namespace hvd::perf {
namespace {

constexpr int64_t kLeastIterations = 5;
constexpr int64_t kMostIterations = 50;
constexpr int64_t kBytesPerRound = int64_t{128} << 20;  // keeps a default run under a minute
// Any primes but the period itself.
constexpr int64_t kShiftStep = 7919;
constexpr int64_t kRankStep = 104729;
constexpr int64_t kTensorStep = 15485863;

int64_t iterations(const Options& options, int64_t bytes) {
  if (options.iterations) return *options.iterations;
  return std::clamp(kBytesPerRound / std::max<int64_t>(bytes, 1), kLeastIterations,
                    kMostIterations);
}

bool reduces(const Options& options) { return facts(options.operation).reduces; }

int64_t size_of(const Request& request) {
  return parts(request.operation, request.ranks) * request.part * request.tensors *
         request.type->bytes;
}

}  // namespace

std::vector<int64_t> sizes(const Options& options) {
  if (!facts(options.operation).sized) return {0};
  std::vector<int64_t> all;
  for (int64_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= options.factor) {
    all.push_back(bytes);
    if (bytes > options.max_bytes / options.factor) break;
  }
  return all;
}

Bench::Bench(const Options& options, HvdCollectives& hvd, Collectives* peer)
    : options_(options),
      hvd_(hvd),
      peer_(peer),
      sent_(reduces(options) ? Pattern::sent(*options.type, options.op, hvd_rank(), hvd_size())
                             : Pattern::moved(*options.type)),
      expected_(reduces(options) ? Pattern::reduced(*options.type, options.op, hvd_size())
                                 : sent_) {}

// The least sizes that make sense are made of what is asked for: one element of each part.
Request Bench::request_for(int64_t bytes) const {
  Request request;
  request.operation = options_.operation;
  request.type = options_.type;
  request.op = options_.op;
  request.ranks = hvd_size();
  request.tensors = options_.tensors;
  if (facts(options_.operation).sized) {
    const int64_t one =
        parts(options_.operation, request.ranks) * options_.tensors * options_.type->bytes;
    request.part = std::max<int64_t>(bytes / one, 1);
  }
  request.input = input_.get();
  request.output = options_.in_place ? input_.get() : output_memory_.get();
  return request;
}

Status Bench::prepare() {
  if (!facts(options_.operation).sized) return ok_status();
  constexpr int64_t kAlignment = 4096;
  const int64_t bytes =
      std::max(options_.max_bytes, size_of(request_for(1))) / kAlignment * kAlignment + kAlignment;
  const auto allocate = [&] { return aligned_alloc(kAlignment, static_cast<size_t>(bytes)); };
  input_.reset(allocate());
  if (!options_.in_place) output_memory_.reset(allocate());
  if (input_ == nullptr || (!options_.in_place && output_memory_ == nullptr)) {
    return error(Code::kSystem, "no memory for %lld bytes; lower --max",
                 static_cast<long long>(bytes));
  }
  return ok_status();
}

Expected<Row> Bench::measure(int64_t bytes) {
  const Request request = request_for(bytes);
  std::vector<Round> hvd_rounds;
  std::vector<Round> peer_rounds;
  for (int64_t i = 0; i < options_.rounds; ++i) {
    const auto round = run_round(hvd_, request);
    if (!round.ok()) return round.status();
    hvd_rounds.push_back(*round);
    if (peer_ == nullptr) continue;
    const auto peer_round = run_round(*peer_, request);
    if (!peer_round.ok()) return peer_round.status().annotate("the peer");
    peer_rounds.push_back(*peer_round);
  }
  auto row = gather(hvd_rounds, peer_rounds);
  if (row.ok()) {
    row->count = request.part;
    row->bytes = size_of(request);
  }
  return row;
}

Expected<Bench::Round> Bench::run_round(Collectives& library, const Request& request) {
  wrong_ = 0;
  std::vector<double> times;
  const int64_t timed = iterations(options_, size_of(request));
  times.reserve(static_cast<size_t>(timed));
  for (int64_t i = -options_.warmup; i < timed; ++i) {
    const auto time_us = run_once(library, request);
    if (!time_us.ok()) return time_us.status();
    if (i >= 0) times.push_back(*time_us);
  }
  return Round{median(std::move(times)), wrong_};
}

Expected<double> Bench::run_once(Collectives& library, const Request& request) {
  shift_ += kShiftStep;
  const bool has_data = request.part > 0;
  if (has_data) {
    fill(request);
    if (Status met = library.barrier(); !met.ok()) return met;
  }
  const int64_t start = now_ns();
  const Status done = library.run(request, &results_);
  const int64_t end = now_ns();
  if (!done.ok()) return done;
  if (has_data) wrong_ += count_wrong(request);
  const int64_t release_start = now_ns();
  if (Status released = library.release(); !released.ok()) return released;
  return static_cast<double>(end - start + now_ns() - release_start) / 1000;
}

int64_t Bench::sent_shift(int64_t tensor, int rank) const {
  const int64_t own = reduces(options_) ? 0 : rank * kRankStep;
  return shift_ + tensor * kTensorStep + own;
}

int64_t Bench::received_shift(const Request& request, int64_t tensor, int rank) const {
  const int64_t part = input_parts(request.operation, request.ranks) > 1 ? hvd_rank() : 0;
  return sent_shift(tensor, rank) + part * request.part;
}

void Bench::fill(const Request& request) const {
  const int64_t count = input_parts(request.operation, request.ranks) * request.part;
  for (int64_t tensor = 0; tensor < request.tensors; ++tensor) {
    sent_.fill(const_cast<void*>(request.input_of(tensor)), count, sent_shift(tensor, hvd_rank()));
  }
}

// A part came from each rank, or all of it from rank 0, or it was reduced and is of none.
int64_t Bench::count_wrong(const Request& request) const {
  int64_t wrong = 0;
  const auto sources = static_cast<int>(output_parts(request.operation, request.ranks));
  for (int64_t tensor = 0; tensor < request.tensors; ++tensor) {
    const auto* result = static_cast<const unsigned char*>(results_[static_cast<size_t>(tensor)]);
    for (int rank = 0; rank < sources; ++rank) {
      wrong += expected_.count_wrong(result + rank * request.part * request.type->bytes,
                                     request.part, received_shift(request, tensor, rank));
    }
  }
  return wrong;
}

Expected<Row> Bench::gather(const std::vector<Round>& hvd, const std::vector<Round>& peer) {
  enum { kTime, kWrong, kPeerTime, kPeerWrong, kFigures };
  RankTable table(options_.rounds, kFigures, hvd_rank(), hvd_size());
  for (int64_t i = 0; i < options_.rounds; ++i) {
    const auto round = static_cast<size_t>(i);
    table.set(i, kTime, hvd[round].median_us);
    table.set(i, kWrong, static_cast<double>(hvd[round].wrong));
    if (peer.empty()) continue;
    table.set(i, kPeerTime, peer[round].median_us);
    table.set(i, kPeerWrong, static_cast<double>(peer[round].wrong));
  }
  if (Status gathered = table.gather(hvd_); !gathered.ok()) return gathered;
  Row row;
  row.time_us = table.median_of_slowest(kTime);
  row.wrong = static_cast<int64_t>(table.total(kWrong));
  row.peer_wrong = static_cast<int64_t>(table.total(kPeerWrong));
  if (!peer.empty()) row.peer_time_us = table.median_of_slowest(kPeerTime);
  return row;
}

}  // namespace hvd::perf
