// SPDX-License-Identifier: Apache-2.0
//
// The random test with a process per rank, through the C interface as users have it. Run by the
// bats tests under mpirun and srun:
//
//   mix FIRST COUNT [KIND...]     COUNT seeds from FIRST on, with operations of these kinds (all)
//
// The first rank prints the seeds before it begins with them; what is not as it must be is printed
// with its seed, which `mix SEED 1` repeats, and the status is 1. hvd_shutdown and hvd_init are
// called before every fifth seed.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "libhvd/hvd.h"
#include "tests/ranks/mix_run.h"

namespace {

using namespace hvd::test;

constexpr int kRounds = 4;
constexpr uint64_t kSeedsPerEpoch = 5;

class Library : public Calls {
 public:
  End submit(const Call& call, int64_t* handle) override {
    switch (call.what) {
      case Call::What::kOperation:
        return end(operation(call, handle));
      case Call::What::kJoin:
        return end(hvd_join_async(-1, call.number, handle));
      case Call::What::kAddSet:
        return end(hvd_add_process_set_async(
            call.ranks.data(), static_cast<int32_t>(call.ranks.size()), call.number, handle));
      case Call::What::kRemoveSet:
        return end(hvd_remove_process_set_async(call.id, handle));
    }
    return {};
  }
  End wait(int64_t handle, int64_t timeout_ms) override {
    return end(hvd_wait(handle, timeout_ms));
  }
  int poll(int64_t handle) override { return hvd_poll(handle); }
  End result(int64_t handle, int index, hvd_tensor* tensor) override {
    return end(hvd_result(handle, index, tensor));
  }
  End release(int64_t handle) override { return end(hvd_release(handle)); }
  std::vector<int> sets() override {
    std::vector<int32_t> ids(static_cast<size_t>(hvd_process_sets(nullptr, 0)));
    hvd_process_sets(ids.data(), static_cast<int32_t>(ids.size()));
    return {ids.begin(), ids.end()};
  }
  std::vector<int> ranks_of(int set) override {
    std::vector<int32_t> ranks(static_cast<size_t>(hvd_size()));
    const int n = hvd_process_set_ranks(set, ranks.data(), static_cast<int32_t>(ranks.size()));
    ranks.resize(static_cast<size_t>(n < 0 ? 0 : n));
    return {ranks.begin(), ranks.end()};
  }
  void give_up(const std::string& text) override {
    printf("%s\n", text.c_str());
    fflush(stdout);
    _exit(3);
  }

 private:
  static End end(int code) { return {code, code == HVD_OK ? "" : hvd_last_error()}; }

  static int operation(const Call& call, int64_t* handle) {
    const Ask& ask = call.ask;
    const hvd_tensor* input = call.inputs.data();
    void* const* outputs = call.outputs.data();
    const int32_t count = static_cast<int32_t>(call.inputs.size());
    switch (ask.kind) {
      case Kind::kAllreduce:
        return ask.grouped
                   ? hvd_grouped_allreduce_async(call.name, count, input, outputs, ask.op,
                                                 ask.prescale, ask.postscale, call.set, handle)
                   : hvd_allreduce_async(call.name, input, outputs[0], ask.op, ask.prescale,
                                         ask.postscale, call.set, handle);
      case Kind::kReducescatter:
        return ask.grouped
                   ? hvd_grouped_reducescatter_async(call.name, count, input, outputs, ask.op,
                                                     ask.prescale, ask.postscale, call.set, handle)
                   : hvd_reducescatter_async(call.name, input, outputs[0], ask.op, ask.prescale,
                                             ask.postscale, call.set, handle);
      case Kind::kAllgather:
        return ask.grouped ? hvd_grouped_allgather_async(call.name, count, input, call.set, handle)
                           : hvd_allgather_async(call.name, input, call.set, handle);
      case Kind::kBroadcast:
        return hvd_broadcast_async(call.name, input, outputs[0], ask.root, call.set, handle);
      case Kind::kAlltoall:
        return hvd_alltoall_async(call.name, input, ask.splits.empty() ? nullptr : &ask.splits[0],
                                  call.received, call.set, handle);
      case Kind::kBarrier:
        return hvd_barrier_async(call.set, handle);
    }
    return HVD_ERR_INTERNAL;
  }
};

int die(const char* what) {
  fprintf(stderr, "mix: %s: %s\n", what, hvd_last_error());
  return 2;
}

std::vector<Kind> kinds_of(int argc, char** argv) {
  std::vector<Kind> kinds;
  for (int kind = 0; kind < kKinds; ++kind) {
    bool wanted = argc <= 3;
    for (int i = 3; i < argc; ++i) wanted |= argv[i] == std::string(name_of(Kind(kind)));
    if (wanted) kinds.push_back(Kind(kind));
  }
  return kinds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: mix FIRST COUNT [KIND...]\n");
    return 2;
  }
  const uint64_t first = strtoull(argv[1], nullptr, 0);
  const uint64_t count = strtoull(argv[2], nullptr, 0);
  if (hvd_init() != HVD_OK) return die("hvd_init");
  const int rank = hvd_rank();
  if (rank == 0) printf("seeds %s, %s of them\n", argv[1], argv[2]);
  fflush(stdout);
  Library library;
  Player player(&library, rank, hvd_size(), kinds_of(argc, argv));
  for (uint64_t i = 0; i < count; ++i) {
    if (i > 0 && i % kSeedsPerEpoch == 0) {
      if (hvd_barrier(HVD_GLOBAL) != HVD_OK) return die("hvd_barrier");  // all have all results
      if (hvd_shutdown() != HVD_OK) return die("hvd_shutdown");
      if (hvd_init() != HVD_OK) return die("hvd_init");
      player.begin_epoch();
    }
    const std::string wrong = player.play(first + i, kRounds);
    if (wrong.empty()) continue;
    printf("%s(hvd_init was before seed %llu)\n", wrong.c_str(),
           static_cast<unsigned long long>(first + i - i % kSeedsPerEpoch));
    fflush(stdout);
    return 1;
  }
  if (hvd_barrier(HVD_GLOBAL) != HVD_OK) return die("hvd_barrier");
  if (hvd_shutdown() != HVD_OK) return die("hvd_shutdown");
  printf("rank %d: %llu seeds from %llu on, %d operations, %d errors, all as they must be\n", rank,
         static_cast<unsigned long long>(count), static_cast<unsigned long long>(first),
         player.operations(), player.failures());
  return 0;
}
