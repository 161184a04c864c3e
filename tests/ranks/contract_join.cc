// SPDX-License-Identifier: Apache-2.0
//
// The part of the program contract that is about joins.
#include <functional>
#include <string>
#include <vector>

#include "tests/ranks/contract.h"

namespace hvd::test {
namespace {

constexpr const char* kName = "grad";

struct Failure {
  std::string text;
  std::function<int(hvd_handle*)> call;
};

// In place.
int sum(const hvd_tensor& tensor, const char* name, int32_t set, hvd_handle* handle) {
  return hvd_allreduce_async(name, &tensor, tensor.data, HVD_SUM, 1, 1, set, handle);
}

// Rank 0 has joined, or is about to; all others do this. `set`: ranks 0 and 1.
bool without_rank_0(int32_t set) {
  Floats x({6, 3}, 5);
  const hvd_tensor tensor = x.tensor();
  void* data = x.data.data();
  const std::string joined =
      ": rank 0 has joined; without it only allreduce and barrier of all ranks go on";
  const std::vector<Failure> waits = {
      {"allgather \"grad\"" + joined,
       [=](hvd_handle* h) { return hvd_allgather_async(kName, &tensor, HVD_GLOBAL, h); }},
      {"grouped allgather \"grad\"" + joined,
       [=](hvd_handle* h) {
         return hvd_grouped_allgather_async(kName, 1, &tensor, HVD_GLOBAL, h);
       }},
      {"alltoall \"grad\"" + joined,
       [=](hvd_handle* h) {
         const std::vector<int64_t> splits = {6, 0, 0};
         return hvd_alltoall_async(kName, &tensor, splits.data(), nullptr, HVD_GLOBAL, h);
       }},
      {"broadcast \"grad\"" + joined,
       [=](hvd_handle* h) { return hvd_broadcast_async(kName, &tensor, data, 1, HVD_GLOBAL, h); }},
      {"reducescatter \"grad\"" + joined,
       [=](hvd_handle* h) {
         return hvd_reducescatter_async(kName, &tensor, data, HVD_SUM, 1, 1, HVD_GLOBAL, h);
       }},
  };
  for (int time = 0; time < 2; ++time) {
    for (const Failure& failing : waits) {
      hvd_handle handle = 0;
      if (failing.call(&handle) != HVD_OK) return complain(hvd_last_error());
      if (!ended("wait", hvd_wait(handle, -1), HVD_ERR_MISMATCH, failing.text)) return false;
      if (!x.all(5)) return complain("a failed operation touched its tensor");
    }
  }
  if (hvd_rank() == 1) {
    hvd_handle handle = 0;
    if (sum(tensor, kName, set, &handle) != HVD_OK) {
      return complain(hvd_last_error());
    }
    const std::string text = "allreduce \"grad\" of process set " + std::to_string(set) + joined;
    if (!ended("wait", hvd_wait(handle, -1), HVD_ERR_MISMATCH, text)) return false;
  }
  // Two of three put in 5; the average is of three. Known by now, and not.
  for (const char* name : {kName, "first seen", kName, "first seen"}) {
    Floats mine({6}, 6);
    const hvd_tensor of_mine = mine.tensor();
    if (hvd_allreduce(name, &of_mine, mine.data.data(), HVD_AVERAGE, 1, 1, HVD_GLOBAL) != HVD_OK) {
      return complain(hvd_last_error());
    }
    if (!mine.all(4)) return complain("an average that is not of all ranks");
  }
  return hvd_barrier(HVD_GLOBAL) == HVD_OK || complain(hvd_last_error());
}

}  // namespace

bool join() {
  if (hvd_size() != 3) return complain("3 ranks are needed");
  int32_t set = 0;
  const int32_t ranks[] = {0, 1};
  if (hvd_add_process_set(ranks, 2, &set) != HVD_OK) return complain(hvd_last_error());
  if (hvd_rank() != 0 && !without_rank_0(set)) return false;
  // A GPU's number is accepted: there is nothing on it.
  int32_t last = -1;
  hvd_handle join = 0;
  if (hvd_join_async(3 - 2 * hvd_rank(), &last, &join) != HVD_OK) return complain(hvd_last_error());
  if (hvd_rank() == 0) {
    if (hvd_poll(join) != 0) return complain("the join is done before all have joined");
    Floats x({2});
    const hvd_tensor tensor = x.tensor();
    hvd_handle handle = 0;
    const int code = sum(tensor, "after", HVD_GLOBAL, &handle);
    const std::string text = "allreduce: this rank has joined; wait for the join first";
    if (!ended("after the join", code, HVD_ERR_INVALID, text)) return false;
  }
  if (hvd_wait(join, -1) != HVD_OK) return complain(hvd_last_error());
  if (last != 1 && last != 2) return complain("rank " + std::to_string(last) + " joined last");
  // The same one on all ranks.
  float sum = static_cast<float>(last);
  const hvd_tensor number = {&sum, nullptr, 0, HVD_FLOAT32, HVD_HOST};
  if (hvd_allreduce("last", &number, &sum, HVD_SUM, 1, 1, HVD_GLOBAL) != HVD_OK) {
    return complain(hvd_last_error());
  }
  if (sum != static_cast<float>(3 * last)) return complain("ranks differ about who joined last");
  return works(kName) && works("after") && hvd_remove_process_set(set) == HVD_OK;
}

}  // namespace hvd::test
