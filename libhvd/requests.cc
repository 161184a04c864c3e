// SPDX-License-Identifier: Apache-2.0
//
// See requests.h.
#include "libhvd/requests.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace hvd {
namespace {

using Result = Expected<OperationPtr>;

// Puts the tensor of a group that an error is about in front of it.
Status about_tensor(const Status& status, const RequestTensors& tensors, int32_t index) {
  if (status.ok() || !tensors.grouped) return status;
  return status.annotate("tensor " + std::to_string(index));
}

Status check_tensor(const hvd_tensor& tensor) {
  if (!is_type(tensor.type)) {
    return error(Code::kInvalid, "type %d is none of hvd_type (HVD_UINT8 to HVD_BFLOAT16)",
                 tensor.type);
  }
  if (tensor.ndim < 0 || tensor.ndim > HVD_MAX_DIMS) {
    return error(Code::kInvalid, "ndim is %d, not 0 to %d", tensor.ndim, HVD_MAX_DIMS);
  }
  if (tensor.ndim > 0 && tensor.shape == nullptr) {
    return error(Code::kInvalid, "the shape is NULL and ndim is %d", tensor.ndim);
  }
  if (tensor.device < HVD_HOST) {
    return error(Code::kInvalid, "device is %d, neither HVD_HOST nor HVD_GPU(i)", tensor.device);
  }
  if (tensor.device != HVD_HOST) {
    return error(Code::kInvalid,
                 "the tensor is on GPU %d, and this release reads host memory only; copy it to "
                 "host memory and submit that",
                 tensor.device - HVD_GPU(0));
  }
  return ok_status();
}

// Appends the tensor to the operation; the segment has its elements, and its own memory as input
// and output.
Status add_tensor(const hvd_tensor* tensor, Operation* operation) {
  if (tensor == nullptr) return error(Code::kInvalid, "the tensor is NULL");
  if (Status s = check_tensor(*tensor); !s.ok()) return s;
  TensorShape described;
  described.type = static_cast<DataType>(tensor->type);
  int64_t elements = 1;
  for (int i = 0; i < tensor->ndim; ++i) {
    const int64_t extent = tensor->shape[i];
    if (extent < 0) {
      return error(Code::kInvalid, "shape[%d] is %lld, less than 0", i,
                   static_cast<long long>(extent));
    }
    if (extent == 0) elements = 0;
  }
  for (int i = 0; i < tensor->ndim; ++i) {
    const int64_t extent = tensor->shape[i];
    if (__builtin_mul_overflow(elements, extent, &elements) || elements > (INT64_MAX >> 4)) {
      return error(Code::kInvalid, "the tensor has more elements than memory has bytes");
    }
    described.shape.push_back(extent);
  }
  if (elements > 0 && tensor->data == nullptr) {
    return error(Code::kInvalid, "the tensor's data is NULL and it has %lld elements",
                 static_cast<long long>(elements));
  }
  Segment segment;
  segment.input = static_cast<const char*>(tensor->data);
  segment.output = static_cast<char*>(tensor->data);
  segment.elements = static_cast<size_t>(elements);
  operation->segments.push_back(segment);
  operation->description.tensors.push_back(std::move(described));
  return ok_status();
}

// `bytes` that are written to: the input's own memory, or other.
Status set_output(void* output, size_t bytes, Operation* operation) {
  Segment& segment = operation->segments.back();
  segment.output = static_cast<char*>(output);
  if (bytes == 0) return ok_status();
  if (output == nullptr) return error(Code::kInvalid, "the output is NULL");
  const DataType type = operation->description.tensors.back().type;
  const char* in = segment.input;
  const char* out = segment.output;
  if (in != out && in < out + bytes && out < in + segment.elements * size_of(type)) {
    return error(Code::kInvalid,
                 "input and output overlap without being the same; give a separate output, or the "
                 "input itself");
  }
  return ok_status();
}

Result new_operation(const RequestScope& scope, OpKind kind) {
  auto operation = std::make_shared<Operation>();
  operation->key.set = scope.set;
  if (scope.name != nullptr) operation->key.name = scope.name;
  if (operation->key.name.size() > kMaxName) {
    return error(Code::kInvalid, "the name has %zu bytes; %zu are the most",
                 operation->key.name.size(), kMaxName);
  }
  operation->description.kind = kind;
  return operation;
}

Status check_count(const RequestTensors& tensors) {
  if (tensors.count < 1) {
    return error(Code::kInvalid, "a group of %d tensors; one is the least", tensors.count);
  }
  if (tensors.grouped && tensors.inputs == nullptr) {
    return error(Code::kInvalid, "the array of tensors is NULL");
  }
  return ok_status();
}

Status check_size(const Operation& operation) {
  const size_t bytes = operation.description.encode().size();
  if (bytes <= kMaxDescription) return ok_status();
  return error(Code::kInvalid,
               "describing %zu tensors takes %zu bytes and %zu are the most; make it two groups",
               operation.description.tensors.size(), bytes, kMaxDescription);
}

Status check_reduction(const Operation& operation, const Reduction& reduction) {
  if (!is_op(reduction.op)) {
    return error(Code::kInvalid, "op is %d, none of hvd_op (HVD_AVERAGE to HVD_PRODUCT)",
                 reduction.op);
  }
  if (!std::isfinite(reduction.prescale) || !std::isfinite(reduction.postscale)) {
    return error(Code::kInvalid, "the scale factors are %g and %g; finite numbers are needed",
                 reduction.prescale, reduction.postscale);
  }
  const ReduceOp op = static_cast<ReduceOp>(reduction.op);
  for (const TensorShape& tensor : operation.description.tensors) {
    if (op == ReduceOp::kAdasum && !is_floating(tensor.type)) {
      return error(Code::kInvalid, "adasum is for floating types, not for %s",
                   name_of(tensor.type));
    }
    if (tensor.type != DataType::kBool) continue;
    if (op == ReduceOp::kAverage) {
      return error(Code::kInvalid,
                   "there is no average of bool; use HVD_MAX (or), HVD_MIN (and), or another type");
    }
    if (reduction.prescale != 1 || reduction.postscale != 1) {
      return error(Code::kInvalid, "bool is not scaled; leave the scale factors at 1");
    }
  }
  return ok_status();
}

Status set_reduction(const RequestScope& scope, const Reduction& reduction, Operation* operation) {
  if (Status s = check_reduction(*operation, reduction); !s.ok()) return s;
  Description& d = operation->description;
  d.op = static_cast<ReduceOp>(reduction.op);
  d.prescale = reduction.prescale;
  d.postscale = reduction.postscale;
  for (Segment& segment : operation->segments) {
    segment.before.multiply = reduction.prescale;
    segment.after.multiply = reduction.postscale;
    if (d.op == ReduceOp::kAverage) segment.after.divide = scope.team->size;
  }
  return ok_status();
}

// Counts bytes from here on: nothing is calculated with the elements.
void count_bytes(Operation* operation) {
  for (size_t i = 0; i < operation->segments.size(); ++i) {
    operation->segments[i].elements *= size_of(operation->description.tensors[i].type);
  }
}

Status need_rows(const Operation& operation) {
  if (!operation.description.tensors.back().shape.empty()) return ok_status();
  return error(Code::kInvalid,
               "%s works on the rows of a tensor, and this one has no dimension; give it the shape "
               "[1]",
               operation.description.kind_text().c_str());
}

// The last tensor's first extent is this rank's own affair.
void make_ragged(const RequestScope& scope, Operation* operation) {
  TensorShape& tensor = operation->description.tensors.back();
  auto ragged = std::make_unique<Ragged>();
  ragged->rows = tensor.shape[0];
  tensor.shape[0] = 1;
  ragged->row_bytes = static_cast<size_t>(tensor.elements()) * size_of(tensor.type);
  tensor.shape[0] = 0;
  ragged->rows_from.assign(static_cast<size_t>(scope.team->size), 0);
  Segment& segment = operation->segments.back();
  segment.output = nullptr;
  segment.ragged = ragged.get();
  operation->ragged.push_back(std::move(ragged));
}

// Reads the tensors of a request; each(i) sees to the i-th when it is the last in the operation.
template <typename Each>
Result read_tensors(const RequestScope& scope, OpKind kind, const RequestTensors& tensors,
                    Each each) {
  Result made = new_operation(scope, kind);
  if (!made.ok()) return made;
  const OperationPtr operation = *made;
  if (Status s = check_count(tensors); !s.ok()) return s;
  operation->description.grouped = tensors.grouped;
  for (int32_t i = 0; i < tensors.count; ++i) {
    Status s =
        add_tensor(tensors.inputs == nullptr ? nullptr : &tensors.inputs[i], operation.get());
    if (s.ok()) s = each(i, operation.get());
    if (!s.ok()) return about_tensor(s, tensors, i);
  }
  if (Status s = check_size(*operation); !s.ok()) return s;
  return operation;
}

Status need_outputs(const RequestTensors& tensors) {
  if (tensors.outputs != nullptr) return ok_status();
  return error(Code::kInvalid, "the array of outputs is NULL");
}

}  // namespace

Result request_allreduce(const RequestScope& scope, const RequestTensors& tensors,
                         const Reduction& reduction) {
  if (Status s = need_outputs(tensors); !s.ok()) return s;
  Result made =
      read_tensors(scope, OpKind::kAllreduce, tensors, [&](int32_t i, Operation* operation) {
        const TensorShape& tensor = operation->description.tensors.back();
        const size_t bytes = operation->segments.back().elements * size_of(tensor.type);
        return set_output(tensors.outputs[i], bytes, operation);
      });
  if (!made.ok()) return made;
  if (Status s = set_reduction(scope, reduction, made->get()); !s.ok()) return s;
  return made;
}

Result request_reducescatter(const RequestScope& scope, const RequestTensors& tensors,
                             const Reduction& reduction) {
  if (reduction.op == HVD_ADASUM) {
    return error(Code::kInvalid, "reducescatter has no adasum; use allreduce");
  }
  if (Status s = need_outputs(tensors); !s.ok()) return s;
  Result made =
      read_tensors(scope, OpKind::kReducescatter, tensors, [&](int32_t i, Operation* operation) {
        if (Status s = need_rows(*operation); !s.ok()) return s;
        const TensorShape& tensor = operation->description.tensors.back();
        Segment& segment = operation->segments.back();
        segment.rows = static_cast<size_t>(tensor.shape[0]);
        const size_t row = segment.rows == 0 ? 0 : segment.elements / segment.rows;
        const Range mine = rows_of(segment.rows, scope.team->size, scope.team->index);
        segment.keep = {mine.begin * row, mine.end * row};
        return set_output(tensors.outputs[i], segment.keep.size() * size_of(tensor.type),
                          operation);
      });
  if (!made.ok()) return made;
  if (Status s = set_reduction(scope, reduction, made->get()); !s.ok()) return s;
  return made;
}

Result request_allgather(const RequestScope& scope, const RequestTensors& tensors) {
  Result made =
      read_tensors(scope, OpKind::kAllgather, tensors, [&](int32_t, Operation* operation) {
        Status s = need_rows(*operation);
        if (s.ok()) make_ragged(scope, operation);
        return s;
      });
  if (made.ok()) count_bytes(made->get());
  return made;
}

Result request_broadcast(const RequestScope& scope, const hvd_tensor* input, void* output,
                         int root) {
  if (scope.team->index_of(root) < 0) {
    return error(Code::kInvalid, "the root is %d, no member of process set %d%s", root, scope.set,
                 scope.set == 0 ? "" : " (a root is a rank of the job, not a place in the set)");
  }
  RequestTensors tensors;
  tensors.inputs = input;
  const bool is_root = scope.team->ranks[static_cast<size_t>(scope.team->index)] == root;
  // What the others call their input is not read.
  hvd_tensor described = input == nullptr ? hvd_tensor() : *input;
  if (!is_root && described.data == nullptr) described.data = output;
  if (input != nullptr) tensors.inputs = &described;
  Result made =
      read_tensors(scope, OpKind::kBroadcast, tensors, [&](int32_t, Operation* operation) {
        const DataType type = operation->description.tensors.back().type;
        return set_output(output, operation->segments.back().elements * size_of(type), operation);
      });
  if (!made.ok()) return made;
  (*made)->description.root = root;
  count_bytes(made->get());
  return made;
}

Result request_alltoall(const RequestScope& scope, const hvd_tensor* input, const int64_t* splits,
                        int64_t* received) {
  RequestTensors tensors;
  tensors.inputs = input;
  const int64_t members = scope.team->size;
  Result made = read_tensors(scope, OpKind::kAlltoall, tensors, [&](int32_t, Operation* operation) {
    if (Status s = need_rows(*operation); !s.ok()) return s;
    make_ragged(scope, operation);
    Ragged* ragged = operation->ragged.back().get();
    if (splits == nullptr) {
      if (ragged->rows % members != 0) {
        return error(Code::kInvalid,
                     "%lld rows cannot be split evenly over %lld ranks; give the splits",
                     static_cast<long long>(ragged->rows), static_cast<long long>(members));
      }
      ragged->send_rows.assign(static_cast<size_t>(members), ragged->rows / members);
      return ok_status();
    }
    int64_t sum = 0;
    for (int64_t i = 0; i < members; ++i) {
      if (splits[i] < 0 || splits[i] > ragged->rows) {
        return error(Code::kInvalid, "splits[%lld] is %lld, not from 0 to the %lld rows there are",
                     static_cast<long long>(i), static_cast<long long>(splits[i]),
                     static_cast<long long>(ragged->rows));
      }
      sum += splits[i];
      ragged->send_rows.push_back(splits[i]);
    }
    if (sum != ragged->rows) {
      return error(Code::kInvalid, "the splits add up to %lld and the tensor has %lld rows",
                   static_cast<long long>(sum), static_cast<long long>(ragged->rows));
    }
    return ok_status();
  });
  if (!made.ok()) return made;
  (*made)->received = received;
  count_bytes(made->get());
  return made;
}

Result request_barrier(const RequestScope& scope) { return new_operation(scope, OpKind::kBarrier); }

Result request_join(const RequestScope& scope, int32_t* last) {
  Result made = new_operation(scope, OpKind::kJoin);
  if (made.ok()) (*made)->number = last;
  return made;
}

Result request_add_set(const RequestScope& scope, const int32_t* ranks, int32_t count,
                       int32_t* id) {
  if (id == nullptr) return error(Code::kInvalid, "there is no place for the id");
  if (count < 1 || ranks == nullptr) {
    return error(Code::kInvalid, "a process set has at least one rank");
  }
  std::vector<int32_t> members(ranks, ranks + count);
  std::sort(members.begin(), members.end());
  const auto twice = std::adjacent_find(members.begin(), members.end());
  if (twice != members.end()) {
    return error(Code::kInvalid, "rank %d is in the process set twice", *twice);
  }
  for (int32_t rank : {members.front(), members.back()}) {
    if (rank < 0 || rank >= scope.team->size) {
      return error(Code::kInvalid, "%d is not a rank from 0 to %d", rank, scope.team->size - 1);
    }
  }
  Result made = new_operation(scope, OpKind::kAddSet);
  if (!made.ok()) return made;
  (*made)->description.ranks = std::move(members);
  (*made)->number = id;
  if (Status s = check_size(**made); !s.ok()) return s;
  return made;
}

Result request_remove_set(const RequestScope& scope, int32_t id) {
  if (id == HVD_GLOBAL) {
    return error(Code::kInvalid, "process set 0, all ranks, cannot be removed");
  }
  Result made = new_operation(scope, OpKind::kRemoveSet);
  if (made.ok()) (*made)->description.root = id;
  return made;
}

}  // namespace hvd
