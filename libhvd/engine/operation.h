// SPDX-License-Identifier: Apache-2.0
//
// One submitted operation, from submit to release, and the table of those that are not released.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "libhvd/base/status.h"
#include "libhvd/coll/batch.h"
#include "libhvd/control/description.h"

namespace hvd {

struct Operation {
  int64_t handle = 0;
  std::string name;
  Description description;
  std::string encoded;  // the description
  int64_t submitted_ns = 0;
  Segment segment;
  Status status;  // valid once done
  std::atomic<bool> done{false};
};

using OperationPtr = std::shared_ptr<Operation>;

// Thread-safe. A name is taken from add() until finish().
class OperationTable {
 public:
  // Gives the operation a handle; an empty name gets one from a counter per kind of operation,
  // which only calls that succeed advance. kInvalid if the name is in flight.
  Status add(const OperationPtr& operation);

  // What was added since the last call, in order.
  std::vector<OperationPtr> take_added();
  bool has_added() const { return added_count_.load(std::memory_order_seq_cst) != 0; }

  // Marks it done. Its name is free before anybody can see that.
  void finish(Operation* operation, Status status);

  // Counters of unnamed operations begin anew: ranks may have failed at different ones.
  void begin_epoch();

  // Those that are not done, in no order.
  std::vector<OperationPtr> unfinished();

  OperationPtr find(int64_t handle);
  void release(int64_t handle);

 private:
  std::mutex mutex_;
  int64_t next_handle_ = 1;
  uint64_t unnamed_[kOpKinds] = {};  // by OpKind
  std::unordered_map<int64_t, OperationPtr> by_handle_;
  std::unordered_set<std::string> names_;
  std::vector<OperationPtr> added_;
  std::atomic<uint32_t> added_count_{0};
};

}  // namespace hvd
