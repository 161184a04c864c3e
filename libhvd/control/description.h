// SPDX-License-Identifier: Apache-2.0
//
// What a rank says about an operation, and how ranks that say different things are told so.
// Two descriptions are the same if and only if their encodings are the same bytes: everything
// between ranks compares encodings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libhvd/data/types.h"

namespace hvd {

enum class OpKind : uint8_t {
  kAllreduce = 0,
  kAllgather = 1,
  kBroadcast = 2,
  kAlltoall = 3,
  kReducescatter = 4,
  kBarrier = 5,
  kJoin = 6,  // never described to others: it has a word of its own
  kAddSet = 7,
  kRemoveSet = 8,
};
constexpr int kOpKinds = 9;

const char* name_of(OpKind kind);  // "allreduce"

// Where the bytes are. GPUs are one class: their numbers may differ between ranks.
enum class DeviceClass : uint8_t { kHost = 0, kGpu = 1 };

const char* name_of(DeviceClass device);  // "host memory"

struct Description {
  OpKind kind = OpKind::kBarrier;
  DataType type = DataType::kInt32;
  ReduceOp op = ReduceOp::kSum;  // of an allreduce
  int32_t root = 0;              // of a broadcast: global rank
  double prescale = 1;
  double postscale = 1;
  DeviceClass device = DeviceClass::kHost;
  std::vector<int64_t> shape;  // in elements, outermost first

  int64_t elements() const;  // product of the shape
  std::string encode() const;
  // Nothing if the bytes are no valid description.
  static std::optional<Description> decode(std::string_view bytes);
};

// One opinion about a name, and the ranks that hold it (ascending).
struct Opinion {
  std::string description;  // encoded
  std::vector<int> ranks;
};

// The sentence for ranks that disagree: which ranks differ, in what, e.g.
// `allreduce "grad": ranks disagree about the shape: [3,4] on rank 0, 2; [3,5] on rank 1`.
// The first thing that differs in the order operation, type, shape, reduce op, root, scale,
// device.
std::string disagreement(std::string_view name, const std::vector<Opinion>& opinions);

}  // namespace hvd
