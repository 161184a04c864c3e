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

constexpr uint32_t kMaxDims = 64;

std::string shape_text(const Description& d) {
  std::string text = "[";
  for (size_t i = 0; i < d.shape.size(); ++i) {
    if (i > 0) text += ",";
    text += std::to_string(d.shape[i]);
  }
  return text + "]";
}

// A thing that can differ, and how it reads.
struct Aspect {
  const char* what;
  std::function<std::string(const Description&)> text;
};

const std::vector<Aspect>& aspects() {
  static const std::vector<Aspect> all = {
      {"the operation", [](const Description& d) { return std::string(name_of(d.kind)); }},
      {"the type", [](const Description& d) { return std::string(name_of(d.type)); }},
      {"the shape", shape_text},
      {"the reduction", [](const Description& d) { return std::string(name_of(d.op)); }},
      {"the root", [](const Description& d) { return std::to_string(d.root); }},
      {"the prescale factor", [](const Description& d) { return format("%.17g", d.prescale); }},
      {"the postscale factor", [](const Description& d) { return format("%.17g", d.postscale); }},
      {"the device", [](const Description& d) { return std::string(name_of(d.device)); }},
  };
  return all;
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

int64_t Description::elements() const {
  // An empty tensor's other extents may be anything.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

std::string Description::encode() const {
  Writer w;
  w.u8(static_cast<uint8_t>(kind));
  w.u8(static_cast<uint8_t>(type));
  w.u8(static_cast<uint8_t>(op));
  w.i32(root);
  w.f64(prescale);
  w.f64(postscale);
  w.u8(static_cast<uint8_t>(device));
  w.u32(static_cast<uint32_t>(shape.size()));
  for (int64_t extent : shape) w.i64(extent);
  return w.take();
}

std::optional<Description> Description::decode(std::string_view bytes) {
  Reader r(bytes);
  Description d;
  const uint8_t kind = r.u8();
  const uint8_t type = r.u8();
  const uint8_t op = r.u8();
  d.root = r.i32();
  d.prescale = r.f64();
  d.postscale = r.f64();
  const uint8_t device = r.u8();
  const uint32_t dims = r.u32();
  if (!r.ok() || kind >= kOpKinds || !is_type(type) ||
      op > static_cast<uint8_t>(ReduceOp::kSum) ||
      device > static_cast<uint8_t>(DeviceClass::kGpu) || dims > kMaxDims || d.root < 0) {
    return std::nullopt;
  }
  for (uint32_t i = 0; i < dims; ++i) d.shape.push_back(r.i64());
  const bool empty = std::find(d.shape.begin(), d.shape.end(), 0) != d.shape.end();
  int64_t elements = empty ? 0 : 1;
  for (int64_t extent : d.shape) {
    if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements)) return std::nullopt;
  }
  if (!r.ok() || !r.at_end()) return std::nullopt;
  d.kind = static_cast<OpKind>(kind);
  d.type = static_cast<DataType>(type);
  d.op = static_cast<ReduceOp>(op);
  d.device = static_cast<DeviceClass>(device);
  return d;
}

std::string disagreement(std::string_view name, const std::vector<Opinion>& opinions) {
  std::vector<Description> decoded;
  size_t first = 0;  // the opinion of the lowest rank: whoever came first, the text is the same
  for (size_t i = 0; i < opinions.size(); ++i) {
    decoded.push_back(Description::decode(opinions[i].description).value_or(Description()));
    if (opinions[i].ranks < opinions[first].ranks) first = i;
  }
  for (const Aspect& aspect : aspects()) {
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
        format("%s \"%.*s\": ranks disagree about %s: ", name_of(decoded[first].kind),
               static_cast<int>(name.size()), name.data(), aspect.what);
    for (size_t i = 0; i < camps.size(); ++i) {
      if (i > 0) text += "; ";
      text += camps[i].first + " on rank " + rank_list(camps[i].second);
    }
    return text;
  }
  return format("\"%.*s\": ranks disagree", static_cast<int>(name.size()), name.data());
}

}  // namespace hvd
