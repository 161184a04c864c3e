// SPDX-License-Identifier: Apache-2.0
//
// See exchange.h.
#include "libhvd/coll/exchange.h"

#include "libhvd/coll/adasum.h"
#include "libhvd/coll/allgather.h"
#include "libhvd/coll/alltoall.h"

namespace hvd {

std::unique_ptr<Exchange> make_exchange(Slots* slots, Channel* channel, const Batch& batch) {
  switch (batch.plan().kind) {
    case OpKind::kAllgather:
      return std::make_unique<Allgather>(slots, channel, batch);
    case OpKind::kAlltoall:
      return std::make_unique<Alltoall>(slots, channel, batch);
    default:
      return std::make_unique<Adasum>(slots, channel, batch);
  }
}

}  // namespace hvd
