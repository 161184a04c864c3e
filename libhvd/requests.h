// SPDX-License-Identifier: Apache-2.0
//
// From the arguments of an API function to an operation that can be submitted. Everything that one
// rank can find wrong without asking others is found here, before anything is touched.
#pragma once

#include <cstdint>

#include "libhvd/coll/team.h"
#include "libhvd/engine/operation.h"
#include "libhvd/hvd.h"

namespace hvd {

// What all operations have in common.
struct RequestScope {
  const char* name = nullptr;  // the user's; may be null
  int32_t set = 0;
  const Team* team = nullptr;  // of the set; this rank is a member
};

// One tensor, or a group of `count`.
struct RequestTensors {
  const hvd_tensor* inputs = nullptr;
  void* const* outputs = nullptr;
  int32_t count = 1;
  bool grouped = false;
};

struct Reduction {
  int op = HVD_SUM;
  double prescale = 1;
  double postscale = 1;
};

Expected<OperationPtr> request_allreduce(const RequestScope& scope, const RequestTensors& tensors,
                                         const Reduction& reduction);
Expected<OperationPtr> request_reducescatter(const RequestScope& scope,
                                             const RequestTensors& tensors,
                                             const Reduction& reduction);
Expected<OperationPtr> request_allgather(const RequestScope& scope, const RequestTensors& tensors);
Expected<OperationPtr> request_broadcast(const RequestScope& scope, const hvd_tensor* input,
                                         void* output, int root);
Expected<OperationPtr> request_alltoall(const RequestScope& scope, const hvd_tensor* input,
                                        const int64_t* splits, int64_t* received);
Expected<OperationPtr> request_barrier(const RequestScope& scope);
Expected<OperationPtr> request_join(const RequestScope& scope, int32_t* last);
// `ranks` ascending and distinct after this has been called, if it went well. `size`: of the job.
Expected<OperationPtr> request_add_set(const RequestScope& scope, const int32_t* ranks,
                                       int32_t count, int32_t* id);
Expected<OperationPtr> request_remove_set(const RequestScope& scope, int32_t id);

}  // namespace hvd
