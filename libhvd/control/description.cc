// SPDX-License-Identifier: Apache-2.0
//
// Encoding of descriptions, and the wording of disagreements.
#include "libhvd/control/description.h"

#include <algorithm>
#include <functional>

#include "libhvd/base/codec.h"
#include "libhvd/base/rank_list.h"
#include "libhvd/base/status.h"

namespace hvd {
namespace {

constexpr uint64_t kMaxDims = 64;

std::string shape_text(const Description& d, size_t tensor) {
  const std::vector<int64_t>& shape = d.tensors[tensor].shape;
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ",";
    text += i == 0 && d.ragged() ? "*" : std::to_string(shape[i]);
  }
  return text + "]";
}

// A thing that can differ, and how it reads.
struct Aspect {
  std::string what;
  std::function<std::string(const Description&)> text;
};

// In the order in which they are compared. `tensors`: the largest number of them in any opinion.
std::vector<Aspect> aspects(size_t tensors, OpKind kind) {
  std::vector<Aspect> all = {
      {"the operation", [](const Description& d) { return d.kind_text(); }},
      {"the number of tensors",
       [](const Description& d) { return std::to_string(d.tensors.size()); }},
  };
  for (size_t i = 0; i < tensors; ++i) {
    const std::string which = tensors == 1 ? "" : " of tensor " + std::to_string(i);
    all.push_back({"the type" + which,
                   [i](const Description& d) { return std::string(name_of(d.tensors[i].type)); }});
    all.push_back({"the shape" + which, [i](const Description& d) { return shape_text(d, i); }});
  }
  const std::vector<Aspect> rest = {
      {"the reduction", [](const Description& d) { return std::string(name_of(d.op)); }},
      {kind == OpKind::kRemoveSet ? "the process set" : "the root",
       [](const Description& d) { return std::to_string(d.root); }},
      {"the prescale factor", [](const Description& d) { return format("%.17g", d.prescale); }},
      {"the postscale factor", [](const Description& d) { return format("%.17g", d.postscale); }},
      {"the device", [](const Description& d) { return std::string(name_of(d.device)); }},
      {"the members",
       [](const Description& d) {
         return "ranks " + rank_list(std::vector<int>(d.ranks.begin(), d.ranks.end()));
       }},
  };
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

int64_t product(const std::vector<int64_t>& shape) {
  // An empty tensor's other extents may be anything.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

// Ascending numbers as runs: [distance to the last one, length], ...
void write_ranks(Writer* w, const std::vector<int32_t>& ranks) {
  std::vector<std::pair<uint64_t, uint64_t>> runs;
  int64_t next = 0;
  for (int32_t rank : ranks) {
    if (runs.empty() || rank != next) runs.emplace_back(static_cast<uint64_t>(rank - next), 0);
    ++runs.back().second;
    next = int64_t{rank} + 1;
  }
  w->varint(runs.size());
  for (const auto& [gap, length] : runs) {
    w->varint(gap);
    w->varint(length);
  }
}

std::vector<int32_t> read_ranks(Reader* r) {
  constexpr uint64_t kMost = 1 << 24;
  std::vector<int32_t> ranks;
  const uint64_t runs = r->varint();
  uint64_t next = 0;
  for (uint64_t i = 0; i < runs && r->ok(); ++i) {
    const uint64_t gap = r->varint();
    const uint64_t length = r->varint();
    const bool touches = i > 0 && gap == 0;  // would be one run with the one before
    if (gap > kMost || length > kMost || next + gap + length > kMost) r->fail();
    if (touches || length == 0) r->fail();
    next += gap;
    for (uint64_t k = 0; k < length && r->ok(); ++k) ranks.push_back(static_cast<int32_t>(next++));
  }
  return ranks;
}

std::optional<TensorShape> read_tensor(Reader* r) {
  TensorShape tensor;
  const uint8_t type = r->u8();
  const uint64_t dims = r->varint();
  if (!r->ok() || !is_type(type) || dims > kMaxDims) return std::nullopt;
  tensor.type = static_cast<DataType>(type);
  for (uint64_t i = 0; i < dims; ++i) tensor.shape.push_back(static_cast<int64_t>(r->varint()));
  const std::vector<int64_t>& shape = tensor.shape;
  int64_t elements = std::find(shape.begin(), shape.end(), 0) != shape.end() ? 0 : 1;
  for (int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements)) return std::nullopt;
  }
  if (!r->ok()) return std::nullopt;
  return tensor;
}

// What kinds of operation have in common with all others of their kind.
bool sensible(const Description& d) {
  const bool moves = d.kind <= OpKind::kReducescatter;
  if (d.tensors.empty() ? moves : !moves) return false;
  if (!d.grouped && d.tensors.size() > 1) return false;
  int64_t bytes = 0;
  for (const TensorShape& tensor : d.tensors) {
    if (d.ragged() && (tensor.shape.empty() || tensor.shape[0] != 0)) return false;
    int64_t size = static_cast<int64_t>(size_of(tensor.type));
    if (__builtin_mul_overflow(size, tensor.elements(), &size)) return false;
    if (__builtin_add_overflow(bytes, size, &bytes)) return false;
  }
  return true;
}

}  // namespace

const char* name_of(OpKind kind) {
  switch (kind) {
    case OpKind::kAllreduce:
      return "allreduce";
    case OpKind::kAllgather:
      return "allgather";
    case OpKind::kBroadcast:
      return "broadcast";
    case OpKind::kAlltoall:
      return "alltoall";
    case OpKind::kReducescatter:
      return "reducescatter";
    case OpKind::kBarrier:
      return "barrier";
    case OpKind::kJoin:
      return "join";
    case OpKind::kAddSet:
      return "add_process_set";
    case OpKind::kRemoveSet:
      return "remove_process_set";
  }
  return "?";
}

const char* name_of(DeviceClass device) {
  return device == DeviceClass::kHost ? "host memory" : "GPU memory";
}

int64_t TensorShape::elements() const { return product(shape); }

int64_t Description::bytes() const {
  int64_t bytes = 0;
  for (const TensorShape& tensor : tensors) {
    bytes += tensor.elements() * static_cast<int64_t>(size_of(tensor.type));
  }
  return bytes;
}

std::string Description::kind_text() const {
  return (grouped ? "grouped " : "") + std::string(name_of(kind));
}

std::string Description::encode() const {
  Writer w;
  w.u8(static_cast<uint8_t>(kind));
  w.u8(static_cast<uint8_t>(op));
  w.u8(static_cast<uint8_t>(device));
  w.u8(grouped ? 1 : 0);
  w.i32(root);
  w.f64(prescale);
  w.f64(postscale);
  w.varint(tensors.size());
  for (const TensorShape& tensor : tensors) {
    w.u8(static_cast<uint8_t>(tensor.type));
    w.varint(tensor.shape.size());
    for (int64_t extent : tensor.shape) w.varint(static_cast<uint64_t>(extent));
  }
  write_ranks(&w, ranks);
  return w.take();
}

std::optional<Description> Description::decode(std::string_view bytes) {
  Reader r(bytes);
  Description d;
  const uint8_t kind = r.u8();
  const uint8_t op = r.u8();
  const uint8_t device = r.u8();
  const uint8_t grouped = r.u8();
  d.root = r.i32();
  d.prescale = r.f64();
  d.postscale = r.f64();
  const uint64_t tensors = r.varint();
  if (!r.ok() || kind >= kOpKinds || !is_op(op) ||
      device > static_cast<uint8_t>(DeviceClass::kGpu) || grouped > 1 || d.root < 0 ||
      tensors > r.left()) {
    return std::nullopt;
  }
  for (uint64_t i = 0; i < tensors; ++i) {
    std::optional<TensorShape> tensor = read_tensor(&r);
    if (!tensor) return std::nullopt;
    d.tensors.push_back(std::move(*tensor));
  }
  d.ranks = read_ranks(&r);
  if (!r.ok() || !r.at_end()) return std::nullopt;
  d.kind = static_cast<OpKind>(kind);
  d.op = static_cast<ReduceOp>(op);
  d.device = static_cast<DeviceClass>(device);
  d.grouped = grouped != 0;
  if (!sensible(d)) return std::nullopt;
  return d;
}

std::string disagreement(std::string_view name, const std::vector<Opinion>& opinions) {
  std::vector<Description> decoded;
  size_t first = 0;  // the opinion of the lowest rank: whoever came first, the text is the same
  for (size_t i = 0; i < opinions.size(); ++i) {
    decoded.push_back(Description::decode(opinions[i].description).value_or(Description()));
    if (opinions[i].ranks < opinions[first].ranks) first = i;
  }
  size_t tensors = 0;
  for (const Description& d : decoded) tensors = std::max(tensors, d.tensors.size());
  for (const Aspect& aspect : aspects(tensors, decoded[first].kind)) {
    // Ranks by what they say about this aspect, in the order of their lowest rank.
    std::vector<std::pair<std::string, std::vector<int>>> camps;
    for (size_t i = 0; i < opinions.size(); ++i) {
      const std::string said = aspect.text(decoded[i]);
      auto camp =
          std::find_if(camps.begin(), camps.end(), [&](const auto& c) { return c.first == said; });
      if (camp == camps.end()) camp = camps.insert(camps.end(), {said, {}});
      camp->second.insert(camp->second.end(), opinions[i].ranks.begin(), opinions[i].ranks.end());
    }
    if (camps.size() < 2) continue;
    for (auto& camp : camps) std::sort(camp.second.begin(), camp.second.end());
    std::sort(camps.begin(), camps.end(),
              [](const auto& a, const auto& b) { return a.second < b.second; });
    std::string text =
        format("%s \"%.*s\": ranks disagree about %s: ", decoded[first].kind_text().c_str(),
               static_cast<int>(name.size()), name.data(), aspect.what.c_str());
    for (size_t i = 0; i < camps.size(); ++i) {
      if (i > 0) text += "; ";
      text += camps[i].first + " on rank " + rank_list(camps[i].second);
    }
    return text;
  }
  return format("\"%.*s\": ranks disagree", static_cast<int>(name.size()), name.data());
}

}  // namespace hvd
