// SPDX-License-Identifier: Apache-2.0
#include "libhvd/tools/perf/collectives.h"

namespace hvd::perf {
namespace {

Status result(int code) {
  return code == HVD_OK ? ok_status() : Status(static_cast<Code>(code), hvd_last_error());
}

}  // namespace

const char* HvdCollectives::name_for(const char* operation, const ElementType& type,
                                     int64_t count) {
  if (operation != operation_ || &type != type_ || count != count_) {
    operation_ = operation;
    type_ = &type;
    count_ = count;
    name_ = format("hvd-perf.%s.%.*s.%lld", operation, static_cast<int>(type.name.size()),
                   type.name.data(), static_cast<long long>(count));
  }
  return name_.c_str();
}

Status HvdCollectives::allreduce(const ElementType& type, const void* input, void* output,
                                 int64_t count) {
  const hvd_tensor tensor{const_cast<void*>(input), &count, 1, type.number, HVD_HOST};
  return result(
      hvd_allreduce(name_for("allreduce", type, count), &tensor, output, HVD_SUM, 1.0, 1.0, HVD_GLOBAL));
}

Status HvdCollectives::broadcast(const ElementType& type, void* data, int64_t count) {
  const hvd_tensor tensor{data, &count, 1, type.number, HVD_HOST};
  return result(hvd_broadcast(name_for("broadcast", type, count), &tensor, tensor.data, 0, HVD_GLOBAL));
}

Status HvdCollectives::barrier() { return result(hvd_barrier(HVD_GLOBAL)); }

}  // namespace hvd::perf
