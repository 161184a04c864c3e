// SPDX-License-Identifier: Apache-2.0
#include "libhvd/tools/perf/step.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "libhvd/base/clock.h"
#include "libhvd/tools/info/ask.h"
#include "libhvd/tools/perf/rank_table.h"

namespace hvd::perf {
namespace {

constexpr int64_t kIterations = 5;
constexpr int64_t kAlignment = 64;
constexpr int64_t kAnswerMs = 2000;
// Primes, as in measure.cc.
constexpr int64_t kShiftStep = 7919;
constexpr int64_t kTensorStep = 15485863;

enum Figure {
  kTime,
  kWrong,
  kBatches,
  kCompute,
  kTogether,
  kPeerTime,
  kPeerFused,
  kPeerWrong,
  kFigures
};

Status result(int code) {
  return code == HVD_OK ? ok_status() : Status(static_cast<Code>(code), hvd_last_error());
}

// Batches that this rank has seen finished. There is no call for it; the rank answers hvd-info, and
// so us.
std::optional<double> finished_batches() {
  const auto answer = info::ask_rank(getpid(), Deadline::after_ms(kAnswerMs));
  if (!answer.ok()) return std::nullopt;
  return static_cast<double>((*answer)["batches"].number());
}

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

StepBench::StepBench(const Options& options, HvdCollectives& hvd, Collectives* peer)
    : options_(options),
      hvd_(hvd),
      peer_(peer),
      sent_(Pattern::sent(*options.type, options.op, hvd_rank(), hvd_size())),
      expected_(Pattern::reduced(*options.type, options.op, hvd_size())),
      peer_expected_(Pattern::reduced(*options.type, HVD_SUM, hvd_size())) {}

Status StepBench::prepare() {
  std::vector<int64_t> counts = options_.model->parameters();
  std::reverse(counts.begin(), counts.end());
  int64_t bytes = 0;
  for (const int64_t count : counts) {
    elements_ += count;
    bytes += aligned(count * options_.type->bytes);
  }
  memory_.reset(aligned_alloc(kAlignment, static_cast<size_t>(bytes)));
  if (peer_ != nullptr) fused_.reset(aligned_alloc(kAlignment, static_cast<size_t>(bytes)));
  if (memory_ == nullptr || (peer_ != nullptr && fused_ == nullptr)) {
    return error(Code::kSystem, "no memory for %lld bytes of gradients",
                 static_cast<long long>(bytes));
  }
  auto* at = static_cast<unsigned char*>(memory_.get());
  for (const int64_t count : counts) {
    gradients_.push_back({format("hvd-perf.step.%zu", gradients_.size()), count, at});
    at += aligned(count * options_.type->bytes);
  }
  handles_.resize(gradients_.size());
  if (options_.compute_ns > 0) work_.calibrate(options_.compute_ns);
  return ok_status();
}

Status StepBench::submit(size_t gradient) {
  const Gradient& g = gradients_[gradient];
  const hvd_tensor tensor{g.data, &g.count, 1, options_.type->number, HVD_HOST};
  return result(hvd_allreduce_async(g.name.c_str(), &tensor, g.data, options_.op, 1, 1, HVD_GLOBAL,
                                    &handles_[gradient]));
}

Status StepBench::wait_all() {
  Status first = ok_status();
  for (const hvd_handle handle : handles_) {
    if (Status status = result(hvd_wait(handle, -1)); first.ok()) first = status;
  }
  return first;
}

Status StepBench::step() {
  for (size_t i = 0; i < gradients_.size(); ++i) {
    if (Status status = submit(i); !status.ok()) return status;
  }
  return wait_all();
}

Status StepBench::compute() {
  const auto parts = static_cast<int64_t>(gradients_.size());
  for (int64_t part = 0; part < parts; ++part) work_.run(part, parts);
  return ok_status();
}

Status StepBench::together() {
  for (size_t i = 0; i < gradients_.size(); ++i) {
    work_.run(static_cast<int64_t>(i), static_cast<int64_t>(gradients_.size()));
    if (Status status = submit(i); !status.ok()) return status;
  }
  return wait_all();
}

Status StepBench::peer_one_by_one() {
  Request request;
  request.operation = Operation::kAllreduce;
  request.type = options_.type;
  std::vector<const void*> results;
  for (const Gradient& gradient : gradients_) {
    request.part = gradient.count;
    request.input = request.output = gradient.data;
    if (Status status = peer_->run(request, &results); !status.ok()) return status;
  }
  return ok_status();
}

Status StepBench::peer_fused() {
  auto* at = static_cast<unsigned char*>(fused_.get());
  for (const Gradient& gradient : gradients_) {
    const auto bytes = static_cast<size_t>(gradient.count * options_.type->bytes);
    memcpy(at, gradient.data, bytes);
    at += bytes;
  }
  Request request;
  request.operation = Operation::kAllreduce;
  request.type = options_.type;
  request.part = elements_;
  request.input = request.output = fused_.get();
  std::vector<const void*> results;
  if (Status status = peer_->run(request, &results); !status.ok()) return status;
  at = static_cast<unsigned char*>(fused_.get());
  for (const Gradient& gradient : gradients_) {
    const auto bytes = static_cast<size_t>(gradient.count * options_.type->bytes);
    memcpy(gradient.data, at, bytes);
    at += bytes;
  }
  return ok_status();
}

Expected<double> StepBench::run_once(Collectives& library, Step step, const Pattern& expected,
                                     int64_t* wrong) {
  shift_ += kShiftStep;
  const bool communicates = step != &StepBench::compute;
  int64_t shift = shift_;
  for (size_t i = 0; communicates && i < gradients_.size(); ++i, shift += kTensorStep) {
    sent_.fill(gradients_[i].data, gradients_[i].count, shift);
  }
  if (Status met = library.barrier(); !met.ok()) return met;
  const int64_t start = now_ns();
  const Status done = (this->*step)();
  const int64_t end = now_ns();
  if (!done.ok()) return done;
  shift = shift_;
  for (size_t i = 0; communicates && i < gradients_.size(); ++i, shift += kTensorStep) {
    *wrong += expected.count_wrong(gradients_[i].data, gradients_[i].count, shift);
  }
  return static_cast<double>(end - start) / 1000;
}

Expected<double> StepBench::run_round(Collectives& library, Step step, const Pattern& expected,
                                      int64_t* wrong) {
  std::vector<double> times;
  for (int64_t i = -options_.warmup; i < options_.iterations.value_or(kIterations); ++i) {
    const auto time_us = run_once(library, step, expected, wrong);
    if (!time_us.ok()) return time_us.status();
    if (i >= 0) times.push_back(*time_us);
  }
  return median(std::move(times));
}

Status StepBench::measure_round(int64_t round, RankTable* table) {
  int64_t wrong = 0;
  int64_t peer_wrong = 0;
  const struct {
    Figure figure;
    bool wanted;
    Collectives* library;
    Step step;
    const Pattern* expected;
    int64_t* wrong;
  } parts[] = {
      {kTime, true, &hvd_, &StepBench::step, &expected_, &wrong},
      {kCompute, options_.compute_ns > 0, &hvd_, &StepBench::compute, &expected_, &wrong},
      {kTogether, options_.compute_ns > 0, &hvd_, &StepBench::together, &expected_, &wrong},
      {kPeerTime, peer_ != nullptr, peer_, &StepBench::peer_one_by_one, &peer_expected_,
       &peer_wrong},
      {kPeerFused, peer_ != nullptr, peer_, &StepBench::peer_fused, &peer_expected_, &peer_wrong},
  };
  for (const auto& part : parts) {
    if (!part.wanted) continue;
    const auto before = part.figure == kTime ? finished_batches() : std::nullopt;
    const auto time_us = run_round(*part.library, part.step, *part.expected, part.wrong);
    if (!time_us.ok()) return time_us.status();
    table->set(round, part.figure, *time_us);
    const auto after = before ? finished_batches() : std::nullopt;
    if (!after) continue;
    // Before each step there was a barrier, a batch of its own.
    const auto steps =
        static_cast<double>(options_.warmup + options_.iterations.value_or(kIterations));
    table->set(round, kBatches, (*after - *before) / steps - 1);
  }
  table->set(round, kWrong, static_cast<double>(wrong));
  table->set(round, kPeerWrong, static_cast<double>(peer_wrong));
  return ok_status();
}

Expected<StepRow> StepBench::measure() {
  RankTable table(options_.rounds, kFigures, hvd_rank(), hvd_size());
  for (int64_t round = 0; round < options_.rounds; ++round) {
    if (Status status = measure_round(round, &table); !status.ok()) return status;
  }
  if (Status gathered = table.gather(hvd_); !gathered.ok()) return gathered;
  return row_of(table);
}

StepRow StepBench::row_of(const RankTable& table) const {
  StepRow row;
  row.tensors = static_cast<int64_t>(gradients_.size());
  row.elements = elements_;
  row.bytes = elements_ * options_.type->bytes;
  row.time_us = table.median_of_slowest(kTime);
  row.wrong = static_cast<int64_t>(table.total(kWrong));
  if (const double batches = table.median_of_slowest(kBatches); batches > 0) row.batches = batches;
  if (options_.compute_ns > 0) {
    row.compute_us = table.median_of_slowest(kCompute);
    row.together_us = table.median_of_slowest(kTogether);
  }
  if (peer_ != nullptr) {
    row.peer_time_us = table.median_of_slowest(kPeerTime);
    row.peer_fused_us = table.median_of_slowest(kPeerFused);
    row.peer_wrong = static_cast<int64_t>(table.total(kPeerWrong));
  }
  return row;
}

}  // namespace hvd::perf
