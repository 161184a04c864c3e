// SPDX-License-Identifier: Apache-2.0
//
// See operation.h.
#include "libhvd/engine/operation.h"

namespace hvd {

Status set_is_gone(int32_t set) { return error(Code::kInvalid, "process set %d was removed", set); }

Status OperationTable::add(const OperationPtr& operation) {
  std::lock_guard<std::mutex> lock(mutex_);
  const OpKind kind = operation->description.kind;
  if (joined_) {
    return error(Code::kInvalid, "%s: this rank has joined; wait for the join first",
                 operation->description.kind_text().c_str());
  }
  uint64_t& counter = unnamed_[{operation->key.set, kind}];
  const bool unnamed = operation->key.name.empty();
  if (unnamed) {
    const std::string joins = joins_ == 0 ? "" : std::to_string(joins_) + ".";
    operation->key.name = format("%s.noname.%s%llu", name_of(kind), joins.c_str(),
                                 static_cast<unsigned long long>(counter));
  }
  if (!names_.insert(operation->key).second) {
    return error(Code::kInvalid,
                 "%s is in flight already; wait for it, or give each operation a name of its own",
                 operation->text().c_str());
  }
  if (unnamed) ++counter;
  if (kind == OpKind::kJoin) joined_ = true;
  operation->handle = next_handle_++;
  by_handle_[operation->handle] = operation;
  added_.push_back(operation);
  added_count_.store(static_cast<uint32_t>(added_.size()), std::memory_order_seq_cst);
  return ok_status();
}

std::vector<OperationPtr> OperationTable::take_added() {
  std::lock_guard<std::mutex> lock(mutex_);
  added_count_.store(0, std::memory_order_seq_cst);
  return std::exchange(added_, {});
}

void OperationTable::finish(Operation* operation, Status status) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    names_.erase(operation->key);
    if (operation->description.kind == OpKind::kJoin) {
      joined_ = false;
      ++joins_;
      unnamed_.clear();
    }
  }
  operation->status = std::move(status);
  operation->done.store(true, std::memory_order_seq_cst);
}

void OperationTable::begin_epoch() {
  std::lock_guard<std::mutex> lock(mutex_);
  unnamed_.clear();
  joins_ = 0;
}

void OperationTable::forget_set(int32_t set) {
  std::lock_guard<std::mutex> lock(mutex_);
  unnamed_.erase(unnamed_.lower_bound({set, OpKind::kAllreduce}),
                 unnamed_.lower_bound({set + 1, OpKind::kAllreduce}));
}

size_t OperationTable::held() {
  std::lock_guard<std::mutex> lock(mutex_);
  return by_handle_.size() + names_.size() + unnamed_.size();
}

std::vector<OperationPtr> OperationTable::unfinished() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<OperationPtr> operations;
  for (const auto& [handle, operation] : by_handle_) {
    if (!operation->done.load()) operations.push_back(operation);
  }
  return operations;
}

OperationPtr OperationTable::find(int64_t handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto it = by_handle_.find(handle);
  return it == by_handle_.end() ? nullptr : it->second;
}

void OperationTable::release(int64_t handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  by_handle_.erase(handle);
}

}  // namespace hvd
