// SPDX-License-Identifier: Apache-2.0
//
// From an entry of the schedule to what runs in the stream, and from what has run there to finished
// operations.
#include <algorithm>
#include <utility>

#include "libhvd/control/runs.h"
#include "libhvd/engine/engine.h"

namespace hvd {

static_assert(kUnknownBlocks == kExclusiveBlocks, "the schedule sets aside what the stream takes");

void Engine::start_batch(const Entry& entry) {
  const std::shared_ptr<const Team> team = sets_.find(entry.set);
  if (team == nullptr) {
    fate_->broken(parts_.layout.leader(0), "scheduled a process set that there is not");
    return;
  }
  if (team->index < 0) {
    if (entry.end_block > entry.first_block) {
      stream_.pass(team, entry.first_block, entry.end_block);
    }
    ++finished_batches_;
    return;
  }
  std::vector<OperationPtr> operations;
  for (const Ready& ready : entry.tickets) {
    OperationPtr operation = take_operation(ready);
    if (operation == nullptr) {
      fate_->broken(parts_.layout.leader(0), "scheduled what was not submitted");
      return;
    }
    operations.push_back(std::move(operation));
  }
  start_runs(entry, team, std::move(operations));
}

// What this rank has submitted under the ticket; zeros if it has joined instead.
OperationPtr Engine::take_operation(const Ready& ready) {
  const Announcer::Known* known = control_->find(ready.ticket);
  if (known == nullptr) return nullptr;
  auto it = waiting_.find(known->key);
  if (it != waiting_.end()) {
    OperationPtr operation = it->second;
    waiting_.erase(it);
    tracing_.scheduled(*operation, ready.last);
    return operation;
  }
  if (join_ == nullptr) return nullptr;
  auto zeros = std::make_shared<Operation>();
  zeros->key = known->key;
  zeros->description = Description::decode(known->description).value_or(Description());
  for (const TensorShape& tensor : zeros->description.tensors) {
    Segment segment;
    segment.elements = static_cast<size_t>(tensor.elements());
    segment.before.multiply = zeros->description.prescale;
    zeros->segments.push_back(segment);
  }
  return zeros;
}

void Engine::start_runs(const Entry& entry, const std::shared_ptr<const Team>& team,
                        std::vector<OperationPtr> operations) {
  std::vector<const Description*> descriptions;
  std::vector<std::pair<OperationPtr, const Segment*>> tensors;
  for (const OperationPtr& operation : operations) {
    descriptions.push_back(&operation->description);
    for (const Segment& segment : operation->segments) tensors.emplace_back(operation, &segment);
  }
  const Description& first = operations[0]->description;
  const std::shared_ptr<StageTimes> times = watch_stages(operations);
  size_t streams = 0;
  for (const Run& run : plan_runs(descriptions, entry.first_block, parts_.geometry.block_bytes)) {
    if (run.first_block == run.end_block) continue;
    std::vector<Segment> segments;
    for (size_t tensor : run.tensors) {
      const auto& [operation, of_user] = tensors[tensor];
      if (of_user->elements == 0 && of_user->ragged == nullptr) continue;
      Segment segment = *of_user;
      segment.cookie = static_cast<uint64_t>(operation->handle);
      segments.push_back(segment);
      ++operation->pending;
    }
    BatchOrder order;
    order.kind = first.kind;
    order.type = run.type;
    order.op = first.op;
    order.elements = run.elements;
    order.first_block = run.first_block;
    order.root = first.root;
    order.wire = parts_.wire_type;
    stream_.add(Batch(team, plan_batch(parts_.geometry, *team, order), std::move(segments), times));
    ++streams;
  }
  for (const OperationPtr& operation : operations) {
    if (operation->pending == 0) {
      finish_without_data(operation);
    } else if (operation->handle != 0) {
      running_[static_cast<uint64_t>(operation->handle)] = operation;
    }
  }
  running_count_.store(running_.size());
  if (streams == 0) {
    ++finished_batches_;
  } else {
    runs_left_.push_back(streams);
  }
}

// Null, and so nothing to do, while there is no timeline.
std::shared_ptr<StageTimes> Engine::watch_stages(const std::vector<OperationPtr>& operations) {
  if (!tracing_.on()) return nullptr;
  auto times = std::make_shared<StageTimes>();
  watched_.push_back({times, operations});
  return times;
}

void Engine::trace_begun() {
  // Of a rank that has joined, barriers and the like: nothing.
  const auto moves = [](const OperationPtr& operation) {
    return operation->handle != 0 && operation->pending > 0 && !operation->done.load();
  };
  while (!watched_.empty()) {
    const auto& [times, operations] = watched_.front();
    const int64_t begun_ns = times->first_ns();
    if (begun_ns == 0 && std::any_of(operations.begin(), operations.end(), moves)) return;
    for (const OperationPtr& operation : operations) {
      if (moves(operation)) tracing_.begun(*operation, begun_ns);
    }
    watched_.pop_front();
  }
}

// Barriers, changes of process sets, tensors without elements.
void Engine::finish_without_data(const OperationPtr& operation) {
  const Description& description = operation->description;
  if (description.kind == OpKind::kAddSet) {
    const int32_t id = sets_.add(description.ranks);
    if (operation->number != nullptr) *operation->number = id;
  } else if (description.kind == OpKind::kRemoveSet) {
    remove_set(description.root);
  }
  finish_well(operation);
}

void Engine::remove_set(int32_t set) {
  sets_.remove(set);
  table_.forget_set(set);
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (it->first.set != set) {
      ++it;
      continue;
    }
    end(it->second, set_is_gone(set));
    it = waiting_.erase(it);
  }
}

void Engine::finish_segment(const Segment& segment, const StageTimes* times) {
  auto it = running_.find(segment.cookie);
  if (it == running_.end()) return;  // zeros of a rank that has joined
  const OperationPtr operation = it->second;
  if (--operation->pending > 0) return;
  running_.erase(it);
  running_count_.store(running_.size());
  if (times != nullptr) tracing_.stages(*operation, *times);
  finish_well(operation);
}

void Engine::finish_well(const OperationPtr& operation) {
  if (operation->handle == 0) return;
  finished_bytes_ += static_cast<uint64_t>(operation->description.bytes());
  for (size_t i = 0; i < operation->ragged.size(); ++i) {
    const Ragged& ragged = *operation->ragged[i];
    std::vector<int64_t> shape = operation->description.tensors[i].shape;
    shape[0] = ragged.total_rows;
    operation->result_shapes.push_back(std::move(shape));
    finished_bytes_ += static_cast<uint64_t>(ragged.total_rows) * ragged.row_bytes;
    if (operation->received != nullptr) {
      std::copy(ragged.rows_from.begin(), ragged.rows_from.end(), operation->received);
    }
  }
  end(operation, ok_status());
}

void Engine::finish_join(int last) {
  if (join_ == nullptr) return;
  const OperationPtr operation = std::move(join_);
  join_ = nullptr;
  if (operation->number != nullptr) *operation->number = last;
  end(operation, ok_status());
}

// However an operation ends, it ends here.
void Engine::end(const OperationPtr& operation, const Status& status) {
  tracing_.finished(*operation);
  table_.finish(operation.get(), status);
}

}  // namespace hvd
