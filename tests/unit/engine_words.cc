// SPDX-License-Identifier: Apache-2.0
//
// See engine_words.h.
#include "tests/unit/engine_words.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace hvd::test {
namespace {

OperationPtr operation_of(OpKind kind, const std::string& name, int32_t set) {
  auto operation = std::make_shared<Operation>();
  operation->key.set = set;
  operation->key.name = name;
  operation->description.kind = kind;
  return operation;
}

template <typename T>
void add_tensor(Operation* operation, DataType type, std::vector<T>* data) {
  operation->description.tensors.push_back({type, {static_cast<int64_t>(data->size())}});
  Segment segment;
  segment.input = segment.output = reinterpret_cast<char*>(data->data());
  segment.elements = data->size();
  if (operation->description.kind == OpKind::kBroadcast) segment.elements *= sizeof(T);
  operation->segments.push_back(segment);
}

}  // namespace

OperationPtr summing(std::vector<float>* data, const std::string& name, int32_t set) {
  OperationPtr operation = operation_of(OpKind::kAllreduce, name, set);
  add_tensor(operation.get(), DataType::kFloat32, data);
  return operation;
}

OperationPtr averaging(std::vector<float>* data, int ranks, const std::string& name) {
  OperationPtr operation = summing(data, name);
  operation->description.op = ReduceOp::kAverage;
  operation->segments[0].after.divide = ranks;
  return operation;
}

OperationPtr copying(std::vector<float>* data, int root, const std::string& name, int32_t set) {
  OperationPtr operation = operation_of(OpKind::kBroadcast, name, set);
  add_tensor(operation.get(), DataType::kFloat32, data);
  operation->description.root = root;
  return operation;
}

OperationPtr grouped(std::vector<float>* a, std::vector<int64_t>* b, std::vector<float>* c,
                     const std::string& name) {
  OperationPtr operation = operation_of(OpKind::kAllreduce, name, 0);
  operation->description.grouped = true;
  add_tensor(operation.get(), DataType::kFloat32, a);
  add_tensor(operation.get(), DataType::kInt64, b);
  add_tensor(operation.get(), DataType::kFloat32, c);
  return operation;
}

OperationPtr barrier_of(int32_t set, const std::string& name) {
  return operation_of(OpKind::kBarrier, name, set);
}

OperationPtr adding_set(std::vector<int32_t> ranks, int32_t* id, const std::string& name) {
  OperationPtr operation = operation_of(OpKind::kAddSet, name, 0);
  operation->description.ranks = std::move(ranks);
  operation->number = id;
  return operation;
}

OperationPtr removing_set(int32_t set, const std::string& name) {
  OperationPtr operation = operation_of(OpKind::kRemoveSet, name, 0);
  operation->description.root = set;
  return operation;
}

OperationPtr joining(int32_t* last) {
  OperationPtr operation = operation_of(OpKind::kJoin, "", 0);
  operation->number = last;
  return operation;
}

int64_t start(Engine& engine, OperationPtr operation, Complaints* complaints, int rank) {
  const Expected<int64_t> handle = engine.submit(std::move(operation));
  if (handle.ok()) return *handle;
  complaints->add(rank, "refused: " + handle.status().text());
  return 0;
}

void finish(Engine& engine, int64_t handle, Complaints* complaints, int rank) {
  const Status s = engine.wait(handle, kDeadlineMs);
  if (!s.ok()) complaints->add(rank, s.text());
}

int32_t add_set(Engine& engine, const std::vector<int32_t>& ranks, Complaints* complaints,
                int rank) {
  int32_t id = -1;
  finish(engine, start(engine, adding_set(ranks, &id), complaints, rank), complaints, rank);
  return id;
}

bool has(const std::vector<int32_t>& members, int rank) {
  return std::find(members.begin(), members.end(), rank) != members.end();
}

bool all_are(const std::vector<float>& data, float value) {
  return std::all_of(data.begin(), data.end(), [value](float x) { return x == value; });
}

std::string text_of(const Engine::Sizes& sizes) {
  return "operations " + std::to_string(sizes.operations) + ", sets " + std::to_string(sizes.sets) +
         ", tickets " + std::to_string(sizes.control.tickets) + ", names " +
         std::to_string(sizes.control.names) + ", sets of the leader " +
         std::to_string(sizes.control.sets) + ", tickets of the root " +
         std::to_string(sizes.control.scheduled);
}

}  // namespace hvd::test
