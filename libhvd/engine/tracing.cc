// SPDX-License-Identifier: Apache-2.0
//
// See tracing.h.
#include "libhvd/engine/tracing.h"

#include "libhvd/base/clock.h"

namespace hvd {
namespace {

constexpr const char* kQueue = "QUEUE";

struct Phases {
  const char* negotiate;
  const char* run;
};

// By OpKind.
constexpr Phases kPhases[kOpKinds] = {
    {"NEGOTIATE_ALLREDUCE", "ALLREDUCE"},
    {"NEGOTIATE_ALLGATHER", "ALLGATHER"},
    {"NEGOTIATE_BROADCAST", "BROADCAST"},
    {"NEGOTIATE_ALLTOALL", "ALLTOALL"},
    {"NEGOTIATE_REDUCESCATTER", "REDUCESCATTER"},
    {"NEGOTIATE_BARRIER", "BARRIER"},
    {"NEGOTIATE_JOIN", "JOIN"},
    {"NEGOTIATE_ADD_PROCESS_SET", "ADD_PROCESS_SET"},
    {"NEGOTIATE_REMOVE_PROCESS_SET", "REMOVE_PROCESS_SET"},
};

const Phases& phases_of(const Operation& operation) {
  return kPhases[static_cast<size_t>(operation.description.kind)];
}

std::string track_of(const Operation& operation) {
  if (operation.key.set == 0) return operation.key.name;
  return operation.key.name + " (process set " + std::to_string(operation.key.set) + ")";
}

// Of a ragged operation this rank's part.
int64_t bytes_of(const Operation& operation) {
  if (!operation.description.ragged()) return operation.description.bytes();
  size_t bytes = 0;
  for (const Segment& segment : operation.segments) bytes += segment.elements;
  return static_cast<int64_t>(bytes);
}

}  // namespace

void Tracing::submitted(const Operation& operation) {
  if (!on()) return;
  const std::string track = track_of(operation);
  timeline_->begin(track, phases_of(operation).negotiate, operation.submitted_ns,
                   {{"bytes", bytes_of(operation)}});
  timeline_->rank_ready(track, rank_, operation.submitted_ns);
}

void Tracing::scheduled(const Operation& operation, int last) {
  if (!on()) return;
  const std::string track = track_of(operation);
  const int64_t now = now_ns();
  timeline_->end(track, phases_of(operation).negotiate, now, {{"last_rank", last}});
  timeline_->begin(track, kQueue, now);
}

void Tracing::begun(const Operation& operation, int64_t ns) {
  if (!on()) return;
  const std::string track = track_of(operation);
  timeline_->end(track, kQueue, ns);
  timeline_->begin(track, phases_of(operation).run, ns);
}

void Tracing::stages(const Operation& operation, const StageTimes& times) {
  if (!on()) return;
  const std::string track = track_of(operation);
  const auto tell = [&](Timeline::Stage stage, const StageTimes::Span& span) {
    if (span.begin_ns != 0) timeline_->stage(track, stage, span.begin_ns, span.end_ns);
  };
  tell(Timeline::Stage::kPack, times.pack);
  tell(Timeline::Stage::kReduce, times.reduce);
  tell(Timeline::Stage::kCross, times.cross);
  tell(Timeline::Stage::kUnpack, times.unpack);
}

void Tracing::finished(const Operation& operation) {
  if (!on()) return;
  const std::string track = track_of(operation);
  const int64_t now = now_ns();
  // It may have ended in any of them: an end without a begin is left out.
  timeline_->end(track, phases_of(operation).run, now);
  timeline_->end(track, kQueue, now);
  timeline_->end(track, phases_of(operation).negotiate, now);
}

void Tracing::cycle() {
  if (on()) timeline_->mark_cycle(now_ns());
}

}  // namespace hvd
