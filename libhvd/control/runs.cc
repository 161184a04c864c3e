// SPDX-License-Identifier: Apache-2.0
//
// See runs.h.
#include "libhvd/control/runs.h"

#include <algorithm>

#include "libhvd/control/message.h"

namespace hvd {
namespace {

bool computes(OpKind kind) { return kind == OpKind::kAllreduce || kind == OpKind::kReducescatter; }

}  // namespace

bool size_known(const Description& description) {
  const bool adasum = description.kind == OpKind::kAllreduce && description.op == ReduceOp::kAdasum;
  return !description.ragged() && !adasum;
}

std::vector<Run> plan_runs(const std::vector<const Description*>& batch, uint64_t first_block,
                           uint64_t block_bytes) {
  std::vector<Run> runs;
  size_t number = 0;
  for (const Description* description : batch) {
    for (const TensorShape& tensor : description->tensors) {
      const bool bytes = !computes(description->kind);
      const DataType type = bytes ? DataType::kUint8 : tensor.type;
      auto run = std::find_if(runs.begin(), runs.end(),
                              [&](const Run& known) { return known.type == type; });
      if (run == runs.end()) {
        run = runs.insert(runs.end(), Run());
        run->type = type;
      }
      const size_t elements = static_cast<size_t>(tensor.elements());
      run->elements += bytes ? elements * size_of(tensor.type) : elements;
      run->tensors.push_back(number++);
    }
  }
  uint64_t block = first_block;
  for (Run& run : runs) {
    const uint64_t bytes = run.elements * size_of(run.type);
    run.first_block = block;
    block += size_known(*batch[0]) ? (bytes + block_bytes - 1) / block_bytes : kUnknownBlocks;
    run.end_block = block;
  }
  return runs;
}

}  // namespace hvd
