// SPDX-License-Identifier: Apache-2.0
//
// Allgather: first everybody's numbers of rows, then everybody's rows, both by the same mechanism
// (gather.h). A member's bytes are its rows of all tensors of the batch, one tensor after the
// other.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "libhvd/coll/exchange.h"
#include "libhvd/coll/gather.h"

namespace hvd {

class Allgather final : public Exchange {
 public:
  Allgather(Slots* slots, Channel* channel, const Batch& batch);

  Expected<bool> step(bool* moved) override;

 private:
  class Sizes;
  class Rows;

  Status start(uint64_t first_block, std::vector<size_t> bytes, std::unique_ptr<Gather::Ends> ends);
  Status start_rows();

  Slots* slots_;
  Channel* channel_;
  const Batch& batch_;
  std::vector<int64_t> rows_;  // [member * tensors + tensor]
  bool sizes_known_ = false;
  uint64_t end_block_ = 0;  // of what has been started
  std::unique_ptr<Gather::Ends> ends_;
  std::unique_ptr<Gather> gather_;
};

}  // namespace hvd
