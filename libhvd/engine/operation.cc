// SPDX-License-Identifier: Apache-2.0
//
// See operation.h.
#include "libhvd/engine/operation.h"

namespace hvd {

Status OperationTable::add(const OperationPtr& operation) {
  std::lock_guard<std::mutex> lock(mutex_);
  uint64_t& counter = unnamed_[static_cast<size_t>(operation->description.kind)];
  const bool unnamed = operation->name.empty();
  if (unnamed) {
    operation->name = format("%s.noname.%llu", name_of(operation->description.kind),
                             static_cast<unsigned long long>(counter));
  }
  if (!names_.insert(operation->name).second) {
    return error(Code::kInvalid,
                 "%s \"%s\" is in flight already; wait for it, or give each operation a name of "
                 "its own",
                 name_of(operation->description.kind), operation->name.c_str());
  }
  if (unnamed) ++counter;
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
    names_.erase(operation->name);
  }
  operation->status = std::move(status);
  operation->done.store(true, std::memory_order_seq_cst);
}

void OperationTable::begin_epoch() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (uint64_t& counter : unnamed_) counter = 0;
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
