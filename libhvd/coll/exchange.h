// SPDX-License-Identifier: Apache-2.0
//
// An exclusive batch while it runs: allgather, alltoall, Adasum. It has the slots of its members,
// and the node's result slots, to itself from the moment it is made until it is done; the stream
// sees to that.
//
// A batch's blocks are numbers that its counters may take; how many it uses is its own business.
#pragma once

#include <memory>

#include "libhvd/coll/batch.h"
#include "libhvd/coll/slots.h"
#include "libhvd/transport/channel.h"

namespace hvd {

class Exchange {
 public:
  virtual ~Exchange() = default;
  // Does about a block's worth of what can be done now. True once all is done; sets *moved if
  // anything happened. Never waits. An error is final.
  virtual Expected<bool> step(bool* moved) = 0;
  // The channel gets this object because messages may still come in; and here what they write to
  // and does not belong to this object.
  virtual void abandon() {}
};

// All of them outlive it. `channel` may be null on one node.
std::unique_ptr<Exchange> make_exchange(Slots* slots, Channel* channel, const Batch& batch);

}  // namespace hvd
