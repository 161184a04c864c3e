// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the scheduler share.
#pragma once

#include "libhvd/control/scheduler.h"
#include "tests/unit/control_words.h"

namespace hvd::test {

inline const OpKind kData[] = {OpKind::kAllreduce, OpKind::kAllgather, OpKind::kBroadcast,
                               OpKind::kAlltoall, OpKind::kReducescatter};

// A description of one tensor or of a group of two.
inline Description any(OpKind kind, bool grouped = false) {
  const bool ragged = kind == OpKind::kAllgather || kind == OpKind::kAlltoall;
  const TensorShape tensor = {DataType::kFloat32, {ragged ? 0 : 6, 2}};
  return grouped ? group(kind, {tensor, tensor}) : described(kind, {tensor});
}

inline Scheduler::Limits many_batches() {
  Scheduler::Limits limits;
  limits.batches_in_flight = 100;
  return limits;
}

}  // namespace hvd::test
