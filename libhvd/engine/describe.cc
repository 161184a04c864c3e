// SPDX-License-Identifier: Apache-2.0
//
// What an engine says about itself when hvd-info asks. Runs on the thread that drives, so that it
// sees everything between two steps. The keys are hvd-info(1)'s.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "libhvd/engine/engine.h"

namespace hvd {
namespace {

constexpr int64_t kNsPerMs = 1000000;
// The oldest are told; a program that has more in flight has told its story with these.
constexpr size_t kMostOperations = 1000;

Json describe_layout(const Layout& layout, int rank, const std::vector<std::string>& hosts) {
  Json nodes = Json::array();
  for (int node = 0; node < layout.nodes(); ++node) {
    Json ranks = Json::array();
    for (int member : layout.ranks[static_cast<size_t>(node)]) ranks.add(member);
    nodes.add(Json::object()
                  .set("host", hosts[static_cast<size_t>(layout.leader(node))])
                  .set("ranks", std::move(ranks)));
  }
  return Json::object()
      .set("source", "hvd_init")
      .set("rank", rank)
      .set("size", layout.size)
      .set("local_rank", layout.local_rank[static_cast<size_t>(rank)])
      .set("local_size", layout.local_size(rank))
      .set("cross_rank", layout.cross_rank(rank))
      .set("cross_size", layout.cross_size(rank))
      .set("host", hosts[static_cast<size_t>(rank)])
      .set("nodes", std::move(nodes));
}

Json describe_operation(const Operation& operation, const char* state, int64_t now) {
  const Description& description = operation.description;
  // Of a group its first tensor.
  const bool has_type = !description.tensors.empty();
  const TensorShape tensor = has_type ? description.tensors[0] : TensorShape();
  Json shape = Json::array();
  for (int64_t extent : tensor.shape) shape.add(extent);
  return Json::object()
      .set("name", operation.key.name)
      .set("process_set", operation.key.set)
      .set("kind", description.kind_text())
      .set("tensors", description.tensors.size())
      .set("type", has_type ? Json(name_of(tensor.type)) : Json())
      .set("shape", has_type ? std::move(shape) : Json())
      .set("device", has_type ? Json(name_of(description.device)) : Json())
      .set("age_ms", (now - operation.submitted_ns) / kNsPerMs)
      .set("state", state);
}

}  // namespace

Json Engine::describe_operations() {
  const int64_t now = now_ns();
  std::vector<OperationPtr> unfinished = table_.unfinished();
  std::sort(unfinished.begin(), unfinished.end(),
            [](const auto& a, const auto& b) { return a->handle < b->handle; });
  Json operations = Json::array();
  for (size_t i = 0; i < std::min(unfinished.size(), kMostOperations); ++i) {
    const bool running = running_.count(static_cast<uint64_t>(unfinished[i]->handle)) > 0;
    operations.add(describe_operation(*unfinished[i], running ? "running" : "waiting", now));
  }
  return Json::object()
      .set("operations", std::move(operations))
      .set("operations_in_flight", unfinished.size());
}

std::string Engine::describe() {
  const char* state = "initialised";
  Json reason;
  if (failed()) {
    state = "failed";
    reason = failure_.text();
  } else if (!open()) {
    state = "shut down";
  } else if (parts_.layout.nodes() > 1 && parts_.channel == nullptr) {
    state = "initialising";
  }
  if (!failed() && !stopped_.ok()) reason = stopped_.text();
  Json all = Json::object()
                 .set("pid", getpid())
                 .set("state", state)
                 .set("reason", std::move(reason))
                 .set("layout", describe_layout(parts_.layout, parts_.rank, parts_.hosts))
                 .set("epoch", epoch_.load())
                 .set("uptime_ms", (now_ns() - opened_ns_.load()) / kNsPerMs)
                 .set("batches", finished_batches_)
                 .set("bytes", finished_bytes_);
  for (const Json& part : {describe_operations(), parts_.about}) {
    for (const auto& [key, value] : part.members()) all.set(key, value);
  }
  return all.dump();
}

}  // namespace hvd
