// SPDX-License-Identifier: Apache-2.0
//
// Alltoall: each pair of members first tells each other the numbers of rows, then the rows go
// straight from the input, between nodes straight into the result. A member is in touch with a few
// others at a time: with those at distance 1, 2, 3 ... behind and before it. Whoever waits at the
// smallest distance finds its partner at that distance too, so nobody waits for ever.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "libhvd/coll/exchange.h"
#include "libhvd/coll/mail.h"

namespace hvd {

class Alltoall final : public Exchange {
 public:
  Alltoall(Slots* slots, Channel* channel, const Batch& batch);

  Expected<bool> step(bool* moved) override;
  void abandon() override;

 private:
  // The others at growing distance, a few at a time, in one direction.
  struct Side {
    static constexpr int kWindow = 8;
    int begun = 1;  // distances below these are begun, are over
    int over = 1;
    std::vector<Mail::Transfer> transfers[kWindow];  // by distance mod kWindow
  };
  using Start = std::function<void(int member, std::vector<Mail::Transfer>* transfers)>;

  bool advance(Side* side, int direction, const Start& start, bool* moved);
  bool exchange(const Start& send, const Start& receive, bool* moved);
  bool tell(bool* moved);
  void make_room();
  bool move_rows(bool* moved);
  bool copy_own();
  size_t tensors() const { return batch_.segments().size(); }
  size_t at(int member, size_t tensor) const {
    return static_cast<size_t>(member) * tensors() + tensor;
  }

  Channel* channel_;
  const size_t most_bytes_;  // to copy at a time
  const Batch& batch_;
  Mail mail_;
  Side out_;
  Side in_;
  bool told_ = false;
  std::vector<int64_t> rows_to_;    // [member * tensors + tensor]
  std::vector<int64_t> rows_from_;  // the same
  std::vector<size_t> begin_to_;    // where they begin in the input, in bytes
  std::vector<size_t> begin_from_;  // and in the result
  size_t own_tensor_ = 0;           // how far the own rows are copied
  size_t own_bytes_ = 0;
};

}  // namespace hvd
