// SPDX-License-Identifier: Apache-2.0
//
// The batches of one rank in the order in which they run.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "libhvd/coll/batch.h"
#include "libhvd/coll/slots.h"

namespace hvd {

// A batch, and what its first blocks wait for before they may be written.
struct Turn {
  Batch batch;
  std::vector<SlotUse> before;
};

class Turns {
 public:
  // Turns are numbered from 0 for ever. Null: it has not come yet.
  const Turn* at(uint64_t number) const {
    return number - first_ < turns_.size() ? &turns_[number - first_] : nullptr;
  }
  const Turn* front() const { return at(first_); }
  uint64_t first() const { return first_; }
  uint64_t end() const { return first_ + turns_.size(); }
  bool empty() const { return turns_.empty(); }

  void push(Turn turn) { turns_.push_back(std::move(turn)); }
  void pop() {
    turns_.pop_front();
    ++first_;
  }
  void clear() { turns_.clear(); }

 private:
  std::deque<Turn> turns_;
  uint64_t first_ = 0;
};

}  // namespace hvd
