// SPDX-License-Identifier: Apache-2.0
//
// Random operations by ranks that are threads of this process, compared with the model that
// tests/ranks/mix.cc has for processes: for ThreadSanitizer, and for layouts that need no node.
#include <stdio.h>
#include <stdlib.h>

#include "libhvd/requests.h"
#include "tests/ranks/mix_run.h"
#include "tests/unit/catch.h"
#include "tests/unit/random_cases.h"
#include "tests/unit/thread_job.h"

using namespace hvd;
using namespace hvd::test;

namespace {

// What the C interface does with an engine, for one rank of several in this process.
class OfEngine : public Calls {
 public:
  OfEngine(Engine* engine, int rank) : engine_(engine), rank_(rank) {}

  End submit(const Call& call, int64_t* handle) override {
    const auto team = engine_->sets().find(call.set);
    if (team == nullptr) {
      return {HVD_ERR_INVALID, "there is no process set " + std::to_string(call.set)};
    }
    if (team->index < 0) {
      return {HVD_ERR_INVALID, "this rank, " + std::to_string(rank_) +
                                   ", is no member of process set " + std::to_string(call.set)};
    }
    RequestScope scope;
    scope.name = call.name;
    scope.set = call.set;
    scope.team = team.get();
    Expected<OperationPtr> operation = request(scope, call);
    if (!operation.ok()) return end(operation.status());
    Expected<int64_t> submitted = engine_->submit(std::move(*operation));
    if (!submitted.ok()) return end(submitted.status());
    *handle = *submitted;
    return {};
  }
  End wait(int64_t handle, int64_t timeout_ms) override {
    return end(engine_->wait(handle, timeout_ms));
  }
  int poll(int64_t handle) override {
    const OperationPtr operation = engine_->find(handle);
    return operation == nullptr ? -1 : operation->done.load() ? 1 : 0;
  }
  End result(int64_t handle, int index, hvd_tensor* tensor) override {
    const OperationPtr operation = engine_->find(handle);
    const size_t i = static_cast<size_t>(index);
    if (operation == nullptr || i >= operation->result_shapes.size()) {
      return {HVD_ERR_INVALID, "no result"};
    }
    const std::vector<int64_t>& shape = operation->result_shapes[i];
    *tensor = {operation->ragged[i]->data.get(), shape.data(), static_cast<int32_t>(shape.size()),
               static_cast<int32_t>(operation->description.tensors[i].type), HVD_HOST};
    return {};
  }
  End release(int64_t handle) override {
    engine_->release(handle);
    return {};
  }
  std::vector<int> sets() override {
    const std::vector<int32_t> ids = engine_->sets().ids();
    return {ids.begin(), ids.end()};
  }
  std::vector<int> ranks_of(int set) override {
    const auto team = engine_->sets().find(set);
    return team == nullptr ? std::vector<int>() : team->ranks;
  }
  void give_up(const std::string& text) override {
    printf("%s\n", text.c_str());
    fflush(stdout);
    abort();
  }

 private:
  static End end(const Status& status) { return {static_cast<int>(status.code()), status.text()}; }

  static Expected<OperationPtr> request(const RequestScope& scope, const Call& call) {
    const Ask& ask = call.ask;
    RequestTensors tensors;
    tensors.inputs = call.inputs.data();
    tensors.outputs = call.outputs.data();
    tensors.count = static_cast<int32_t>(call.inputs.size());
    tensors.grouped = ask.grouped;
    const Reduction reduction = {ask.op, ask.prescale, ask.postscale};
    switch (call.what) {
      case Call::What::kJoin:
        return request_join(scope, call.number);
      case Call::What::kAddSet:
        return request_add_set(scope, call.ranks.data(), static_cast<int32_t>(call.ranks.size()),
                               call.number);
      case Call::What::kRemoveSet:
        return request_remove_set(scope, call.id);
      case Call::What::kOperation:
        break;
    }
    switch (ask.kind) {
      case Kind::kAllreduce:
        return request_allreduce(scope, tensors, reduction);
      case Kind::kReducescatter:
        return request_reducescatter(scope, tensors, reduction);
      case Kind::kAllgather:
        return request_allgather(scope, tensors);
      case Kind::kBroadcast:
        return request_broadcast(scope, tensors.inputs, call.outputs[0], ask.root);
      case Kind::kAlltoall:
        return request_alltoall(scope, tensors.inputs,
                                ask.splits.empty() ? nullptr : ask.splits.data(), call.received);
      case Kind::kBarrier:
        break;
    }
    return request_barrier(scope);
  }

  Engine* const engine_;
  const int rank_;
};

const std::vector<Kind> kAllKinds = {Kind::kAllreduce, Kind::kAllgather, Kind::kBroadcast,
                                     Kind::kAlltoall, Kind::kReducescatter};

}  // namespace

TEST_CASE("random operations of all kinds end as the model says", "[ranks-as-threads]") {
  const int seeds = count_from("HVD_MIXES", 8);
  printf("mix: %d seeds (HVD_MIXES), HVD_SEED=%llu\n", seeds,
         static_cast<unsigned long long>(run_seed()));
  fflush(stdout);
  const std::vector<int> layouts[] = {{0, 0, 1, 1, 2, 2, 3, 3}, {0, 1, 2, 0, 1}, {0, 0, 0}};
  for (int i = 0; i < seeds; ++i) {
    ThreadJob::Options options;
    options.cache_capacity = i % 3 == 0 ? 1024 : static_cast<size_t>(i % 3) * 3;
    options.fusion_bytes = i % 2 == 0 ? 64 << 10 : 1 << 10;
    ThreadJob job(layouts[i % 3], options);
    Complaints complaints;
    job.run([&](int rank) {
      OfEngine calls(&job.engine(rank), rank);
      Player player(&calls, rank, job.size(), kAllKinds);
      const std::string wrong = player.play(run_seed() + static_cast<uint64_t>(i), 4);
      if (!wrong.empty()) complaints.add(rank, wrong);
    });
    CHECK(complaints.all() == "");
  }
}
