// SPDX-License-Identifier: Apache-2.0
//
// One submitted operation, from submit to release, and the table of those that are not released.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
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
  OpKey key;
  Description description;
  std::string encoded;  // the description
  int64_t submitted_ns = 0;

  // By tensor. Byte kinds (see Run) count bytes here.
  std::vector<Segment> segments;
  // By tensor, of an allgather or alltoall: what the segments point to.
  std::vector<std::unique_ptr<Ragged>> ragged;
  std::vector<std::vector<int64_t>> result_shapes;  // valid once done well

  int64_t* received = nullptr;  // of an alltoall, the user's: rows from each member
  int32_t* number = nullptr;    // the user's: who joined last, or the id of a new set

  size_t pending = 0;     // segments in the stream
  bool warned = false;    // that it stalls
  bool given_up = false;  // the same, for the last time

  Status status;  // valid once done
  std::atomic<bool> done{false};

  // What comes of it belongs to the handle.
  bool has_result() const { return !ragged.empty(); }
  std::string text() const { return description.kind_text() + " \"" + key.name + "\""; }
};

using OperationPtr = std::shared_ptr<Operation>;

// What operations of a set end with that was removed.
Status set_is_gone(int32_t set);

// Thread-safe. A name is taken from add() until finish(). Between a join and its end nothing can be
// added.
class OperationTable {
 public:
  // Gives the operation a handle; an empty name gets one from a counter per set and kind of
  // operation, which only calls that succeed advance. kInvalid if the name is in flight.
  Status add(const OperationPtr& operation);

  // What was added since the last call, in order.
  std::vector<OperationPtr> take_added();
  bool has_added() const { return added_count_.load(std::memory_order_seq_cst) != 0; }

  // Marks it done. Its name is free before anybody can see that.
  void finish(Operation* operation, Status status);

  // Counters of unnamed operations begin anew: ranks may have failed at different ones.
  void begin_epoch();

  // A process set was removed: its number does not come again in this epoch.
  void forget_set(int32_t set);

  // Those that are not done, in no order.
  std::vector<OperationPtr> unfinished();

  OperationPtr find(int64_t handle);
  void release(int64_t handle);

  // Handles, names in flight and counters that are held.
  size_t held();

 private:
  std::mutex mutex_;
  int64_t next_handle_ = 1;
  std::map<std::pair<int32_t, OpKind>, uint64_t> unnamed_;
  bool joined_ = false;
  uint64_t joins_ = 0;  // that have ended: who joins misses calls, so counters begin anew
  std::unordered_map<int64_t, OperationPtr> by_handle_;
  std::unordered_set<OpKey, OpKeyHash> names_;
  std::vector<OperationPtr> added_;
  std::atomic<uint32_t> added_count_{0};
};

}  // namespace hvd
