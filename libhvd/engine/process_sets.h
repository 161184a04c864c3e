// SPDX-License-Identifier: Apache-2.0
//
// The process sets of this epoch, as one rank sees them. Changed by entries of the schedule, alike
// on all ranks and in the same order, so that ids agree; read by the user's threads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "libhvd/coll/team.h"
#include "libhvd/topo/layout.h"

namespace hvd {

class ProcessSets {
 public:
  ProcessSets(const Layout& layout, int rank);

  // nullptr if there is no such set. Set 0, all ranks, is always there.
  std::shared_ptr<const Team> find(int32_t id) const;
  std::vector<int32_t> ids() const;  // ascending

  int32_t add(const std::vector<int32_t>& ranks);  // the id
  void remove(int32_t id);
  void begin_epoch();  // all but set 0 are gone, and ids begin anew

 private:
  const Layout& layout_;
  const int rank_;
  mutable std::mutex mutex_;
  std::map<int32_t, std::shared_ptr<const Team>> teams_;
  int32_t next_ = 1;
};

}  // namespace hvd
