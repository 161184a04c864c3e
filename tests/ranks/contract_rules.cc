// SPDX-License-Identifier: Apache-2.0
//
// The part of the program contract that is about beginnings and ends, arithmetic and groups.
#include <string>
#include <vector>

#include "tests/ranks/contract.h"
#include "tests/ranks/operations_types.h"

namespace hvd::test {
namespace {

bool good(int code) { return code == HVD_OK || complain(hvd_last_error()); }

// Operations that no other rank submits, of this rank's names: they stay outstanding.
bool submit_alone(std::vector<Floats>* data, std::vector<hvd_handle>* handles) {
  const std::string mine = " of rank " + std::to_string(hvd_rank());
  for (int i = 0; i < 5; ++i) data->emplace_back(std::vector<int64_t>{6, 3}, 5.0f);
  handles->assign(5, 0);
  const hvd_tensor tensor = (*data)[0].tensor();
  void* place = tensor.data;
  const std::vector<int64_t> splits = [] {
    std::vector<int64_t> all(static_cast<size_t>(hvd_size()), 0);
    all[0] = 6;
    return all;
  }();
  return good(hvd_allreduce_async(("a" + mine).c_str(), &tensor, place, HVD_SUM, 1, 1, HVD_GLOBAL,
                                  &(*handles)[0])) &&
         good(hvd_allgather_async(("b" + mine).c_str(), &tensor, HVD_GLOBAL, &(*handles)[1])) &&
         good(hvd_alltoall_async(("c" + mine).c_str(), &tensor, splits.data(), nullptr, HVD_GLOBAL,
                                 &(*handles)[2])) &&
         good(hvd_grouped_allreduce_async(("d" + mine).c_str(), 1, &tensor, &place, HVD_MAX, 1, 1,
                                          HVD_GLOBAL, &(*handles)[3])) &&
         good(hvd_broadcast_async(("e" + mine).c_str(), &tensor, place, 0, HVD_GLOBAL,
                                  &(*handles)[4]));
}

bool is_about_a_shutdown(const std::string& text) {
  const std::string whose = " has shut down";
  return text == "shut down" || (text.compare(0, 5, "rank ") == 0 && text.size() > whose.size() &&
                                 text.substr(text.size() - whose.size()) == whose);
}

// Elements of any type, in place.
struct Numbers {
  Numbers(int type_of_all, const std::vector<double>& numbers) : type(type_of_all) {
    n = static_cast<int64_t>(numbers.size());
    bytes = is_floating_type(type)
                ? bytes_of_floats(type, numbers)
                : bytes_of_integers(type, std::vector<int64_t>(numbers.begin(), numbers.end()));
  }
  hvd_tensor tensor() { return {bytes.data(), &n, 1, type, HVD_HOST}; }
  std::vector<double> values() const {
    const size_t count = static_cast<size_t>(n);
    if (is_floating_type(type)) return floats(type, bytes.data(), count);
    const std::vector<int64_t> all = integers(type, bytes.data(), count);
    return std::vector<double>(all.begin(), all.end());
  }

  int type;
  int64_t n;
  std::vector<char> bytes;
};

struct Sum {
  int type;
  int op;
  double prescale;
  double postscale;
  std::vector<std::vector<double>> by_rank;
  std::vector<double> want;
};

bool calculated(const Sum& sum) {
  Numbers x(sum.type, sum.by_rank[static_cast<size_t>(hvd_rank())]);
  const hvd_tensor tensor = x.tensor();
  if (!good(hvd_allreduce("number", &tensor, tensor.data, sum.op, sum.prescale, sum.postscale,
                          HVD_GLOBAL))) {
    return false;
  }
  const std::vector<double> is = x.values();
  for (size_t i = 0; i < is.size(); ++i) {
    if (is[i] == sum.want[i]) continue;
    return complain(std::string(type_text(sum.type)) + " " + op_text(sum.op) + ": number " +
                    std::to_string(i) + " is " + std::to_string(is[i]) + ", not " +
                    std::to_string(sum.want[i]));
  }
  return true;
}

// 7 rows over 3 ranks: 3, 2 and 2.
bool rows() {
  const int64_t want[] = {3, 2, 2};
  const int64_t first[] = {0, 3, 5};
  const size_t rank = static_cast<size_t>(hvd_rank());
  if (hvd_reducescatter_rows(7, HVD_GLOBAL) != want[rank]) return complain("other rows are mine");
  Floats x({7, 2});
  for (size_t i = 0; i < x.data.size(); ++i) x.data[i] = static_cast<float>(i);
  Floats out({want[rank], 2});
  const hvd_tensor tensor = x.tensor();
  if (!good(hvd_reducescatter("rows", &tensor, out.data.data(), HVD_SUM, 1, 1, HVD_GLOBAL))) {
    return false;
  }
  for (size_t i = 0; i < out.data.size(); ++i) {
    if (out.data[i] != static_cast<float>(3 * (2 * first[rank] + static_cast<int64_t>(i)))) {
      return complain("a wrong row");
    }
  }
  return true;
}

// In a set of ranks 2 and 1 the root is a rank of the job all the same.
bool root_in_a_set() {
  const int32_t ranks[] = {2, 1};
  int32_t set = 0;
  if (!good(hvd_add_process_set(ranks, 2, &set))) return false;
  for (int root : {1, 2}) {
    if (hvd_rank() == 0) break;
    Floats x({5}, static_cast<float>(hvd_rank()));
    const hvd_tensor tensor = x.tensor();
    if (!good(hvd_broadcast("root", &tensor, x.data.data(), root, set))) return false;
    if (!x.all(static_cast<float>(root))) return complain("from another root");
  }
  return good(hvd_remove_process_set(set));
}

int start_group(std::vector<Floats>* data, int wrong, hvd_handle* handle) {
  std::vector<hvd_tensor> tensors;
  std::vector<void*> places;
  for (Floats& x : *data) {
    tensors.push_back(x.tensor());
    places.push_back(x.data.data());
  }
  if (wrong >= 0) tensors[static_cast<size_t>(wrong)].ndim = 1;
  return hvd_grouped_allreduce_async("group", static_cast<int32_t>(tensors.size()), tensors.data(),
                                     places.data(), HVD_SUM, 1, 1, HVD_GLOBAL, handle);
}

bool all_are(const std::vector<Floats>& data, float value) {
  for (const Floats& x : data) {
    if (!x.all(value)) return false;
  }
  return true;
}

}  // namespace

bool init() {
  // Alone: nobody else is asked.
  for (int i = 0; i < 1000 && hvd_rank() == 0; ++i) {
    if (!good(hvd_init())) return false;
  }
  for (int time = 0; time < 3; ++time) {
    if (!works("before")) return false;
    std::vector<Floats> data;
    std::vector<hvd_handle> handles;
    if (!submit_alone(&data, &handles)) return false;
    if (!good(hvd_shutdown()) || !good(hvd_shutdown())) return false;
    if (hvd_is_initialized() != 0 || hvd_rank() != -1 || hvd_size() != -1) {
      return complain("still initialised");
    }
    for (hvd_handle handle : handles) {
      const int code = hvd_wait(handle, 0);
      if (code != HVD_ERR_SHUT_DOWN || !is_about_a_shutdown(hvd_last_error())) {
        return complain(std::string("an outstanding handle ended with ") + hvd_last_error());
      }
    }
    if (!all_are(data, 5)) return complain("memory was touched");
    hvd_handle handle = 0;
    const std::string text = "hvd_init has not been called, or hvd_shutdown has";
    if (!ended("afterwards", hvd_barrier_async(HVD_GLOBAL, &handle), HVD_ERR_STATE, text)) {
      return false;
    }
    if (!good(hvd_init())) return false;
  }
  return works("after");
}

bool leave() {
  // They belong to the library until the end of the process.
  static std::vector<Floats> data;
  std::vector<hvd_handle> handles;
  return submit_alone(&data, &handles);
}

bool arithmetic() {
  if (hvd_size() != 3) return complain("3 ranks are needed");
  const bool one_node = hvd_cross_size() == 1 && hvd_local_size() == 3;
  if (!one_node && hvd_cross_size() != 3) return complain("1 node or 3 are needed");
  const double large = 0x1p40 + 2;
  const Sum sums[] = {
      // Truncated, before and after; half of 2^40 + 2 is more than float32 can tell.
      {HVD_INT32, HVD_SUM, 0.5, 1, {{7, -7}, {7, -7}, {7, -7}}, {9, -9}},
      {HVD_INT32, HVD_SUM, 1, 0.5, {{1, -1}, {1, -1}, {1, -1}}, {1, -1}},
      {HVD_INT64, HVD_MAX, 0.5, 1, {{large}, {0}, {0}}, {0x1p39 + 1}},
      {HVD_INT64, HVD_AVERAGE, 1, 1, {{-1, 4}, {-1, 0}, {-2, 0}}, {-1, 1}},
      {HVD_INT16, HVD_AVERAGE, 1, 2.5, {{-1, 4}, {-1, 0}, {-2, 0}}, {-3, 3}},
      {HVD_UINT8, HVD_SUM, 1, 1, {{200}, {200}, {200}}, {88}},
      // 2049 and 257 do not exist: they are in float32 in a node, and lost between nodes.
      {HVD_FLOAT16, HVD_SUM, 1, 1, {{2048}, {1}, {1}}, {one_node ? 2050.0 : 2048.0}},
      {HVD_BFLOAT16, HVD_SUM, 1, 1, {{256}, {1}, {1}}, {one_node ? 258.0 : 256.0}},
  };
  for (const Sum& sum : sums) {
    if (!calculated(sum)) return false;
  }
  return rows() && root_in_a_set();
}

bool group() {
  const int last = hvd_size() - 1;
  std::vector<Floats> data;
  for (int64_t rows : {1, 3000, 20}) data.emplace_back(std::vector<int64_t>{rows, 5});
  hvd_handle handle = 0;
  // All ranks but the last have submitted it, and nothing of it runs.
  if (hvd_rank() != last && !good(start_group(&data, -1, &handle))) return false;
  if (!works("another") || !good(hvd_barrier(HVD_GLOBAL))) return false;
  if (hvd_rank() != last && (hvd_poll(handle) != 0 || !all_are(data, 1))) {
    return complain("some of the group has run");
  }
  if (!good(hvd_barrier(HVD_GLOBAL))) return false;
  if (hvd_rank() == last && !good(start_group(&data, -1, &handle))) return false;
  if (!good(hvd_wait(handle, -1))) return false;
  if (!all_are(data, static_cast<float>(hvd_size()))) return complain("a wrong sum");
  // One member differs on one rank: none runs, and the handle has that member's error.
  for (Floats& x : data) x.data.assign(x.data.size(), 1);
  if (!good(start_group(&data, hvd_rank() == last ? 1 : -1, &handle))) return false;
  const std::string text =
      "grouped allreduce \"group\": ranks disagree about the shape of tensor 1: [3000,5] on rank " +
      all_but_the_last() + "; [3000] on rank " + std::to_string(last);
  if (!ended("wait", hvd_wait(handle, -1), HVD_ERR_MISMATCH, text)) return false;
  if (!all_are(data, 1)) return complain("a failed group touched a tensor");
  if (!good(start_group(&data, -1, &handle)) || !good(hvd_wait(handle, -1))) return false;
  return all_are(data, static_cast<float>(hvd_size())) || complain("a wrong sum");
}

}  // namespace hvd::test
