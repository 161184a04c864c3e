// SPDX-License-Identifier: Apache-2.0
//
// What a rank says about an operation, and how ranks that say different things are told so.
// Two descriptions are the same if and only if their encodings are the same bytes: everything
// between ranks compares encodings.
#pragma once

#include <cstdint>
#include <functional>
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

// What ranks must agree about of one tensor. Of an allgather or alltoall the first extent is each
// rank's own affair: it is 0 here.
struct TensorShape {
  DataType type = DataType::kUint8;
  std::vector<int64_t> shape;  // in elements, outermost first

  int64_t elements() const;  // product of the shape
  bool operator==(const TensorShape& o) const { return type == o.type && shape == o.shape; }
};

struct Description {
  OpKind kind = OpKind::kBarrier;
  ReduceOp op = ReduceOp::kSum;  // of an allreduce or reducescatter
  int32_t root = 0;              // of a broadcast: global rank; of kRemoveSet: the set
  double prescale = 1;
  double postscale = 1;
  DeviceClass device = DeviceClass::kHost;
  bool grouped = false;              // submitted as a group, be it of one tensor
  std::vector<TensorShape> tensors;  // one, but for groups; none of a barrier
  std::vector<int32_t> ranks;        // of kAddSet: the members, ascending

  // The first extent of each tensor differs between ranks.
  bool ragged() const { return kind == OpKind::kAllgather || kind == OpKind::kAlltoall; }
  // Bytes in the data path as far as ranks agree about them.
  int64_t bytes() const;
  // "allreduce", "grouped allreduce"
  std::string kind_text() const;
  std::string encode() const;
  // Nothing if the bytes are no valid description.
  static std::optional<Description> decode(std::string_view bytes);
};

// What pairs operations across ranks.
struct OpKey {
  int32_t set = 0;  // the process set; 0 has all ranks
  std::string name;

  bool operator==(const OpKey& o) const { return set == o.set && name == o.name; }
};
struct OpKeyHash {
  size_t operator()(const OpKey& key) const {
    return std::hash<std::string>()(key.name) ^
           (static_cast<size_t>(key.set) * 0x9e3779b97f4a7c15U);
  }
};

// One opinion about a name, and the ranks that hold it (ascending).
struct Opinion {
  std::string description;  // encoded
  std::vector<int> ranks;
};

// The sentence for ranks that disagree: which ranks differ, in what, e.g.
// `allreduce "grad": ranks disagree about the shape: [3,4] on rank 0, 2; [3,5] on rank 1`.
// The first thing that differs in the order operation, number of tensors, type, shape, reduce op,
// root, scale, device, members. Of a group the first tensor that differs is named by its number.
std::string disagreement(std::string_view name, const std::vector<Opinion>& opinions);

// Longest name of an operation, in bytes.
constexpr size_t kMaxName = 2048;
// Longest encoding: it must fit into a message between ranks. A group of about 4,000 tensors.
constexpr size_t kMaxDescription = 32 << 10;

}  // namespace hvd
