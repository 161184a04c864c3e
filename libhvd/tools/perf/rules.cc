// SPDX-License-Identifier: Apache-2.0
#include "libhvd/tools/perf/rules.h"

#include <algorithm>
#include <climits>

#include "libhvd/base/parse.h"

namespace hvd::perf {
namespace {

constexpr int64_t kDefaultMin = int64_t{1} << 10;
constexpr int64_t kDefaultMax = int64_t{64} << 20;
constexpr int64_t kDefaultIdleNs = 10 * kNsPerSecond;

// A bound that was not given gives way to one that was.
Status settle_sizes(Options& options) {
  const bool has_min = options.min_bytes != 0;
  const bool has_max = options.max_bytes != 0;
  if (!has_min)
    options.min_bytes = has_max ? std::min(kDefaultMin, options.max_bytes) : kDefaultMin;
  if (!has_max) options.max_bytes = std::max(kDefaultMax, options.min_bytes);
  if (options.min_bytes > options.max_bytes) {
    return error(Code::kInvalid, "--min %s is more than --max %s; no size lies between them",
                 size_text(options.min_bytes).c_str(), size_text(options.max_bytes).c_str());
  }
  const int64_t most = INT_MAX * options.type->bytes;
  if (options.compare_mpi && options.max_bytes > most) {
    return error(Code::kInvalid,
                 "--max %s is more than one MPI operation can take; with --compare mpi stay below "
                 "%s",
                 size_text(options.max_bytes).c_str(),
                 size_text(most + options.type->bytes).c_str());
  }
  return ok_status();
}

Status check_reduction(const Options& options) {
  if (options.op == HVD_AVERAGE && options.type->number == HVD_BOOL) {
    return error(Code::kInvalid,
                 "there is no average of bool; use --op max (or), --op min (and), or another "
                 "--type");
  }
  if (options.op != HVD_ADASUM) return ok_status();
  if (options.operation == Operation::kReducescatter) {
    return error(Code::kInvalid, "adasum is for allreduce alone; use another --op");
  }
  if (!options.type->is_floating()) {
    return error(Code::kInvalid,
                 "adasum is for floating types; use --type float32, float64, float16 or bfloat16");
  }
  return ok_status();
}

Status check_step(const Options& options) {
  if (options.model == nullptr) {
    return error(Code::kInvalid, "step needs a model: --model resnet50, bert-base or vgg16");
  }
  if (options.op != HVD_SUM && options.op != HVD_AVERAGE) {
    return error(Code::kInvalid, "a step adds gradients up; use --op average or sum");
  }
  if (options.type->number == HVD_FLOAT64 || !options.type->is_floating()) {
    return error(Code::kInvalid,
                 "gradients are floating-point numbers; use --type float32, float16 or bfloat16");
  }
  return ok_status();
}

Status check_peer(const Options& options) {
  if (!facts(options.operation).sized && options.operation != Operation::kStep) {
    return ok_status();
  }
  const ElementType& type = *options.type;
  if (type.is_short_float() || type.number == HVD_BOOL) {
    return error(Code::kInvalid, "MPI has no %.*s; with --compare mpi use another --type",
                 static_cast<int>(type.name.size()), type.name.data());
  }
  // Of a step MPI adds up only, which is less.
  if (!facts(options.operation).sized) return ok_status();
  if (options.op == HVD_AVERAGE || options.op == HVD_ADASUM) {
    return error(Code::kInvalid,
                 "MPI has no %s; with --compare mpi use --op sum, min, max or product",
                 options.op == HVD_AVERAGE ? "average" : "adasum");
  }
  return ok_status();
}

}  // namespace

Status settle(Options& options, bool op_given) {
  const OperationFacts& operation = facts(options.operation);
  if (options.idle_ns == 0) options.idle_ns = kDefaultIdleNs;
  if (options.operation == Operation::kStep && !op_given) options.op = HVD_AVERAGE;
  // These results belong to the handle.
  if (operation.output_parts) options.in_place = false;
  Status status = ok_status();
  if (operation.reduces) status = check_reduction(options);
  if (status.ok() && options.operation == Operation::kStep) status = check_step(options);
  if (status.ok() && options.compare_mpi) status = check_peer(options);
  if (status.ok() && operation.sized) status = settle_sizes(options);
  return status;
}

}  // namespace hvd::perf
