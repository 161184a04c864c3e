// SPDX-License-Identifier: Apache-2.0
#include "libhvd/tools/perf/collectives.h"

namespace hvd::perf {
namespace {

Status result(int code) {
  return code == HVD_OK ? ok_status() : Status(static_cast<Code>(code), hvd_last_error());
}

bool same(const Request& a, const Request& b) {
  return a.operation == b.operation && a.type == b.type && a.op == b.op && a.ranks == b.ranks &&
         a.tensors == b.tensors && a.part == b.part && a.input == b.input && a.output == b.output;
}

}  // namespace

void HvdCollectives::prepare(const Request& request) {
  if (same(request, prepared_)) return;
  prepared_ = request;
  const std::string_view operation = name_of(request.operation);
  name_ = format("hvd-perf.%.*s.%.*s.%lld", static_cast<int>(operation.size()), operation.data(),
                 static_cast<int>(request.type->name.size()), request.type->name.data(),
                 static_cast<long long>(request.part));
  shape_ = {input_parts(request.operation, request.ranks) * request.part};
  inputs_.clear();
  outputs_.clear();
  for (int64_t i = 0; i < request.tensors; ++i) {
    inputs_.push_back(
        {const_cast<void*>(request.input_of(i)), shape_.data(), 1, request.type->number, HVD_HOST});
    outputs_.push_back(request.output_of(i));
  }
}

Status HvdCollectives::submit(const Request& request) {
  const char* name = name_.c_str();
  const auto count = static_cast<int32_t>(request.tensors);
  const hvd_tensor* inputs = inputs_.data();
  void* const* outputs = outputs_.data();
  switch (request.operation) {
    case Operation::kAllreduce:
      return result(
          count == 1
              ? hvd_allreduce(name, inputs, outputs[0], request.op, 1, 1, HVD_GLOBAL)
              : hvd_grouped_allreduce(name, count, inputs, outputs, request.op, 1, 1, HVD_GLOBAL));
    case Operation::kAllgather:
      return result(count == 1 ? hvd_allgather(name, inputs, HVD_GLOBAL, &result_)
                               : hvd_grouped_allgather(name, count, inputs, HVD_GLOBAL, &result_));
    case Operation::kBroadcast:
      return result(hvd_broadcast(name, inputs, outputs[0], 0, HVD_GLOBAL));
    case Operation::kAlltoall:
      return result(hvd_alltoall(name, inputs, nullptr, nullptr, HVD_GLOBAL, &result_));
    case Operation::kReducescatter:
      return result(count == 1
                        ? hvd_reducescatter(name, inputs, outputs[0], request.op, 1, 1, HVD_GLOBAL)
                        : hvd_grouped_reducescatter(name, count, inputs, outputs, request.op, 1, 1,
                                                    HVD_GLOBAL));
    default:
      return barrier();
  }
}

Status HvdCollectives::run(const Request& request, std::vector<const void*>* results) {
  prepare(request);
  if (Status status = submit(request); !status.ok()) return status;
  results->assign(outputs_.begin(), outputs_.end());
  if (result_ == 0) return ok_status();
  for (size_t i = 0; i < results->size(); ++i) {
    hvd_tensor made{};
    const Status status = result(hvd_result(result_, static_cast<int32_t>(i), &made));
    if (!status.ok()) return status;
    const int64_t rows = output_parts(request.operation, request.ranks) * request.part;
    if (made.ndim != 1 || made.shape[0] != rows) {
      return error(Code::kInternal, "the result of \"%s\" has %lld elements, not %lld",
                   name_.c_str(), static_cast<long long>(made.ndim == 1 ? made.shape[0] : -1),
                   static_cast<long long>(rows));
    }
    (*results)[i] = made.data;
  }
  return ok_status();
}

Status HvdCollectives::release() {
  if (result_ == 0) return ok_status();
  const hvd_handle handle = result_;
  result_ = 0;
  return result(hvd_release(handle));
}

Status HvdCollectives::barrier() { return result(hvd_barrier(HVD_GLOBAL)); }

Status HvdCollectives::sum(std::vector<double>* values) {
  const auto count = static_cast<int64_t>(values->size());
  const hvd_tensor tensor{values->data(), &count, 1, HVD_FLOAT64, HVD_HOST};
  return result(hvd_allreduce("hvd-perf.sum", &tensor, values->data(), HVD_SUM, 1, 1, HVD_GLOBAL));
}

}  // namespace hvd::perf
