// SPDX-License-Identifier: Apache-2.0
//
// The part of the program contract that is about errors: what is refused at submit, and what ends
// at wait with an error that all ranks get.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/ranks/contract.h"

namespace hvd::test {
namespace {

using Call = std::function<int(hvd_handle*)>;

struct Refusal {
  std::string text;
  Call call;
};

constexpr const char* kName = "grad";

int allreduce(const hvd_tensor& tensor, void* output, int op, hvd_handle* handle,
              double prescale = 1, int32_t set = HVD_GLOBAL, const char* name = kName) {
  return hvd_allreduce_async(name, &tensor, output, op, prescale, 1, set, handle);
}

// In place.
int sum(const hvd_tensor& tensor, hvd_handle* handle) {
  return allreduce(tensor, tensor.data, HVD_SUM, handle);
}

hvd_tensor with_data(hvd_tensor tensor, void* data) {
  tensor.data = data;
  return tensor;
}

hvd_tensor on(hvd_tensor tensor, int32_t device) {
  tensor.device = device;
  return tensor;
}

hvd_tensor of_dims(hvd_tensor tensor, int32_t ndim) {
  tensor.ndim = ndim;
  return tensor;
}

hvd_tensor of_shape(hvd_tensor tensor, const int64_t* shape) {
  tensor.shape = shape;
  return tensor;
}

// Tensors that are wrong, whatever is done with them.
std::vector<Refusal> of_tensors(Floats* x) {
  static const int64_t negative[] = {2, -1};
  static const int64_t vast[] = {int64_t{1} << 40, int64_t{1} << 40};
  const hvd_tensor good = x->tensor();
  return {
      {"type 11 is none of hvd_type (HVD_UINT8 to HVD_BFLOAT16)",
       [=](hvd_handle* h) { return sum(x->tensor(11), h); }},
      {"ndim is -1, not 0 to 16", [=](hvd_handle* h) { return sum(of_dims(good, -1), h); }},
      {"ndim is 17, not 0 to 16", [=](hvd_handle* h) { return sum(of_dims(good, 17), h); }},
      {"the shape is NULL and ndim is 2",
       [=](hvd_handle* h) { return sum(of_shape(good, nullptr), h); }},
      {"shape[1] is -1, less than 0",
       [=](hvd_handle* h) { return sum(of_shape(good, negative), h); }},
      {"the tensor has more elements than memory has bytes",
       [=](hvd_handle* h) { return sum(of_shape(good, vast), h); }},
      {"the tensor's data is NULL and it has 12 elements",
       [=](hvd_handle* h) { return sum(with_data(good, nullptr), h); }},
      {"the tensor is on GPU 2, and this release reads host memory only; copy it to host memory "
       "and "
       "submit that",
       [=](hvd_handle* h) { return sum(on(good, HVD_GPU(2)), h); }},
      {"device is -1, neither HVD_HOST nor HVD_GPU(i)",
       [=](hvd_handle* h) { return sum(on(good, -1), h); }},
      {"the output is NULL", [=](hvd_handle* h) { return allreduce(good, nullptr, HVD_SUM, h); }},
      {"input and output overlap without being the same; give a separate output, or the input "
       "itself",
       [=](hvd_handle* h) { return allreduce(good, x->data.data() + 1, HVD_SUM, h); }},
      {"the tensor is NULL",
       [=](hvd_handle* h) {
         return hvd_allreduce_async(kName, nullptr, x->data.data(), HVD_SUM, 1, 1, HVD_GLOBAL, h);
       }},
      {"the handle is NULL", [=](hvd_handle*) { return sum(good, nullptr); }},
  };
}

std::vector<Refusal> of_reductions(Floats* x) {
  const hvd_tensor good = x->tensor();
  const hvd_tensor truth = x->tensor(HVD_BOOL);
  void* data = x->data.data();
  return {
      {"op is 6, none of hvd_op (HVD_AVERAGE to HVD_PRODUCT)",
       [=](hvd_handle* h) { return allreduce(good, data, 6, h); }},
      {"the scale factors are inf and 1; finite numbers are needed",
       [=](hvd_handle* h) { return allreduce(good, data, HVD_SUM, h, INFINITY); }},
      {"adasum is for floating types, not for int32",
       [=](hvd_handle* h) { return allreduce(x->tensor(HVD_INT32), data, HVD_ADASUM, h); }},
      {"there is no average of bool; use HVD_MAX (or), HVD_MIN (and), or another type",
       [=](hvd_handle* h) { return allreduce(truth, data, HVD_AVERAGE, h); }},
      {"bool is not scaled; leave the scale factors at 1",
       [=](hvd_handle* h) { return allreduce(truth, data, HVD_MAX, h, 2); }},
      {"reducescatter has no adasum; use allreduce",
       [=](hvd_handle* h) {
         return hvd_reducescatter_async(kName, &good, data, HVD_ADASUM, 1, 1, HVD_GLOBAL, h);
       }},
  };
}

std::vector<Refusal> of_rows(Floats* x) {
  const hvd_tensor good = x->tensor();
  const hvd_tensor scalar = of_dims(good, 0);
  void* data = x->data.data();
  const std::string needs =
      " works on the rows of a tensor, and this one has no dimension; give it "
      "the shape [1]";
  const auto alltoall = [=](std::vector<int64_t> splits, hvd_handle* h) {
    splits.resize(static_cast<size_t>(hvd_size()));
    return hvd_alltoall_async(kName, &good, splits.data(), nullptr, HVD_GLOBAL, h);
  };
  return {
      {"allgather" + needs,
       [=](hvd_handle* h) { return hvd_allgather_async(kName, &scalar, HVD_GLOBAL, h); }},
      {"alltoall" + needs,
       [=](hvd_handle* h) {
         return hvd_alltoall_async(kName, &scalar, nullptr, nullptr, HVD_GLOBAL, h);
       }},
      {"reducescatter" + needs,
       [=](hvd_handle* h) {
         return hvd_reducescatter_async(kName, &scalar, data, HVD_SUM, 1, 1, HVD_GLOBAL, h);
       }},
      {"tensor 1: grouped allgather" + needs,
       [=](hvd_handle* h) {
         const hvd_tensor two[] = {good, scalar};
         return hvd_grouped_allgather_async(kName, 2, two, HVD_GLOBAL, h);
       }},
      {"splits[1] is -1, not from 0 to the 4 rows there are",
       [=](hvd_handle* h) {
         return alltoall({4, -1}, h);
       }},
      {"splits[0] is 5, not from 0 to the 4 rows there are",
       [=](hvd_handle* h) { return alltoall({5}, h); }},
      {"the splits add up to 3 and the tensor has 4 rows",
       [=](hvd_handle* h) {
         return alltoall({1, 2}, h);
       }},
      {"the splits add up to 7 and the tensor has 4 rows",
       [=](hvd_handle* h) {
         return alltoall({4, 3}, h);
       }},
      {"4 rows cannot be split evenly over 3 ranks; give the splits",
       [=](hvd_handle* h) {
         return hvd_alltoall_async(kName, &good, nullptr, nullptr, HVD_GLOBAL, h);
       }},
  };
}

// `set` has ranks 0 and 1 of 3.
std::vector<Refusal> of_sets(Floats* x, int32_t set) {
  const hvd_tensor good = x->tensor();
  void* data = x->data.data();
  const std::string number = std::to_string(set);
  std::vector<Refusal> all = {
      {"there is no process set 77",
       [=](hvd_handle* h) { return allreduce(good, data, HVD_SUM, h, 1, 77); }},
      {"there is no process set -1", [=](hvd_handle* h) { return hvd_barrier_async(-1, h); }},
      {"the root is 3, no member of process set 0",
       [=](hvd_handle* h) { return hvd_broadcast_async(kName, &good, data, 3, HVD_GLOBAL, h); }},
      {"the root is -1, no member of process set 0",
       [=](hvd_handle* h) { return hvd_broadcast_async(kName, &good, data, -1, HVD_GLOBAL, h); }},
      {"process set 0, all ranks, cannot be removed",
       [=](hvd_handle* h) { return hvd_remove_process_set_async(HVD_GLOBAL, h); }},
  };
  if (hvd_rank() == 2) {
    all.push_back({"this rank, 2, is no member of process set " + number,
                   [=](hvd_handle* h) { return allreduce(good, data, HVD_SUM, h, 1, set); }});
  } else {
    all.push_back(
        {"the root is 2, no member of process set " + number +
             " (a root is a rank of the job, not a place in the set)",
         [=](hvd_handle* h) { return hvd_broadcast_async(kName, &good, data, 2, set, h); }});
  }
  return all;
}

std::vector<Refusal> of_groups(Floats* x) {
  const hvd_tensor good = x->tensor();
  void* data = x->data.data();
  const auto group = [=](int32_t count, const hvd_tensor* tensors, void* const* places,
                         hvd_handle* h) {
    return hvd_grouped_allreduce_async(kName, count, tensors, places, HVD_SUM, 1, 1, HVD_GLOBAL, h);
  };
  return {
      {"a group of 0 tensors; one is the least",
       [=](hvd_handle* h) { return group(0, &good, &data, h); }},
      {"the array of tensors is NULL", [=](hvd_handle* h) { return group(1, nullptr, &data, h); }},
      {"the array of outputs is NULL", [=](hvd_handle* h) { return group(1, &good, nullptr, h); }},
      {"tensor 1: type 11 is none of hvd_type (HVD_UINT8 to HVD_BFLOAT16)",
       [=](hvd_handle* h) {
         const hvd_tensor two[] = {good, x->tensor(11)};
         void* places[] = {data, data};
         return group(2, two, places, h);
       }},
      {"the name has 2049 bytes; 2048 are the most",
       [=](hvd_handle* h) {
         return allreduce(good, data, HVD_SUM, h, 1, HVD_GLOBAL, std::string(2049, 'n').c_str());
       }},
  };
}

// The same name while the first is in flight, which it is until rank 1 submits it, too.
bool in_flight(Floats* x, int32_t set) {
  const hvd_tensor tensor = x->tensor();
  const bool late = hvd_rank() == 1;
  hvd_handle first = 0;
  if (!late && sum(tensor, &first) != HVD_OK) return complain(hvd_last_error());
  if (!late) {
    Floats y({4, 3});
    const hvd_tensor other = y.tensor();
    const std::string text =
        " is in flight already; wait for it, or give each operation a name of its own";
    hvd_handle second = 0;
    const int again = sum(other, &second);
    if (!ended("again", again, HVD_ERR_INVALID, "allreduce \"grad\"" + text)) return false;
    const int gathered = hvd_allgather_async(kName, &other, HVD_GLOBAL, &second);
    if (!ended("again", gathered, HVD_ERR_INVALID, "allgather \"grad\"" + text)) return false;
  }
  if (hvd_barrier(HVD_GLOBAL) != HVD_OK) return complain(hvd_last_error());
  if (hvd_rank() < 2) {  // in another set it is another name
    Floats y({2});
    const hvd_tensor other = y.tensor();
    if (hvd_allreduce(kName, &other, y.data.data(), HVD_SUM, 1, 1, set) != HVD_OK) {
      return complain(hvd_last_error());
    }
    if (!y.all(2)) return complain("a wrong sum in a set");
  }
  if (late && sum(tensor, &first) != HVD_OK) return complain(hvd_last_error());
  if (hvd_wait(first, -1) != HVD_OK) return complain(hvd_last_error());
  return x->all(15) || complain("a wrong sum");
}

// ---- what differs ----

struct Difference {
  std::string text;  // of the operation and what differs, then both sides
  std::string usual;
  std::string other;
  std::function<int(bool differs, hvd_handle*)> call;
};

std::vector<Difference> of_one_tensor(Floats* x, Floats* y) {
  const hvd_tensor good = x->tensor();
  const hvd_tensor longer = y->tensor();
  void* data = x->data.data();
  const auto reduced = [=](int op, double prescale, double postscale, hvd_handle* h) {
    return hvd_allreduce_async(kName, &good, data, op, prescale, postscale, HVD_GLOBAL, h);
  };
  const auto scattered = [=](int op, hvd_handle* h) {
    return hvd_reducescatter_async(kName, &good, data, op, 1, 1, HVD_GLOBAL, h);
  };
  return {
      {"allreduce \"grad\": ranks disagree about the type: ", "float32", "int32",
       [=](bool d, hvd_handle* h) { return sum(x->tensor(d ? HVD_INT32 : HVD_FLOAT32), h); }},
      {"allreduce \"grad\": ranks disagree about the shape: ", "[12,3]", "[12]",
       [=](bool d, hvd_handle* h) { return sum(d ? of_dims(good, 1) : good, h); }},
      {"allreduce \"grad\": ranks disagree about the operation: ", "allreduce", "broadcast",
       [=](bool d, hvd_handle* h) {
         return d ? hvd_broadcast_async(kName, &good, data, 0, HVD_GLOBAL, h) : sum(good, h);
       }},
      {"allgather \"grad\": ranks disagree about the operation: ", "allgather", "alltoall",
       [=](bool d, hvd_handle* h) {
         return d ? hvd_alltoall_async(kName, &good, nullptr, nullptr, HVD_GLOBAL, h)
                  : hvd_allgather_async(kName, &good, HVD_GLOBAL, h);
       }},
      {"allreduce \"grad\": ranks disagree about the reduction: ", "sum", "max",
       [=](bool d, hvd_handle* h) { return reduced(d ? HVD_MAX : HVD_SUM, 1, 1, h); }},
      {"allreduce \"grad\": ranks disagree about the prescale factor: ", "1", "0.5",
       [=](bool d, hvd_handle* h) { return reduced(HVD_SUM, d ? 0.5 : 1, 1, h); }},
      {"allreduce \"grad\": ranks disagree about the postscale factor: ", "1", "-2",
       [=](bool d, hvd_handle* h) { return reduced(HVD_SUM, 1, d ? -2 : 1, h); }},
      {"broadcast \"grad\": ranks disagree about the root: ", "0", "1",
       [=](bool d, hvd_handle* h) {
         return hvd_broadcast_async(kName, &good, data, d ? 1 : 0, HVD_GLOBAL, h);
       }},
      {"allgather \"grad\": ranks disagree about the shape: ", "[*,3]", "[*,4]",
       [=](bool d, hvd_handle* h) {
         return hvd_allgather_async(kName, d ? &longer : &good, HVD_GLOBAL, h);
       }},
      {"alltoall \"grad\": ranks disagree about the shape: ", "[*,3]", "[*,4]",
       [=](bool d, hvd_handle* h) {
         return hvd_alltoall_async(kName, d ? &longer : &good, nullptr, nullptr, HVD_GLOBAL, h);
       }},
      {"reducescatter \"grad\": ranks disagree about the reduction: ", "sum", "min",
       [=](bool d, hvd_handle* h) { return scattered(d ? HVD_MIN : HVD_SUM, h); }},
  };
}

std::vector<Difference> of_several_tensors(Floats* x, Floats* y) {
  const auto group = [=](int32_t count, const hvd_tensor& second, hvd_handle* h) {
    const hvd_tensor tensors[] = {x->tensor(), second, x->tensor()};
    void* places[] = {x->data.data(), second.data, x->data.data()};
    return hvd_grouped_allreduce_async(kName, count, tensors, places, HVD_SUM, 1, 1, HVD_GLOBAL, h);
  };
  return {
      {"allreduce \"grad\": ranks disagree about the operation: ", "allreduce", "grouped allreduce",
       [=](bool d, hvd_handle* h) { return d ? group(1, y->tensor(), h) : sum(x->tensor(), h); }},
      {"grouped allreduce \"grad\": ranks disagree about the number of tensors: ", "2", "3",
       [=](bool d, hvd_handle* h) { return group(d ? 3 : 2, y->tensor(), h); }},
      {"grouped allreduce \"grad\": ranks disagree about the type of tensor 1: ", "float32",
       "float16",
       [=](bool d, hvd_handle* h) {
         return group(2, y->tensor(d ? HVD_FLOAT16 : HVD_FLOAT32), h);
       }},
      {"grouped allreduce \"grad\": ranks disagree about the shape of tensor 1: ", "[12,4]", "[12]",
       [=](bool d, hvd_handle* h) { return group(2, of_dims(y->tensor(), d ? 1 : 2), h); }},
  };
}

}  // namespace

bool refusals() {
  if (hvd_size() != 3) return complain("3 ranks are needed");
  int32_t set = 0;
  const int32_t ranks[] = {0, 1};
  if (hvd_add_process_set(ranks, 2, &set) != HVD_OK) return complain(hvd_last_error());
  Floats x({4, 3}, 5);
  for (const auto& some :
       {of_tensors(&x), of_reductions(&x), of_rows(&x), of_sets(&x, set), of_groups(&x)}) {
    for (const Refusal& refusal : some) {
      hvd_handle handle = -5;
      if (!ended("submit", refusal.call(&handle), HVD_ERR_INVALID, refusal.text)) return false;
      if (handle != -5) return complain("a handle came with: " + refusal.text);
    }
  }
  if (!x.all(5)) return complain("a refused operation touched its tensor");
  return in_flight(&x, set) && works(kName) && hvd_remove_process_set(set) == HVD_OK;
}

bool mismatches() {
  const int last = hvd_size() - 1;
  Floats x({12, 3}, 5);
  Floats y({12, 4}, 7);
  for (const auto& some : {of_one_tensor(&x, &y), of_several_tensors(&x, &y)}) {
    for (const Difference& difference : some) {
      const std::string text = difference.text + difference.usual + " on rank " +
                               all_but_the_last() + "; " + difference.other + " on rank " +
                               std::to_string(last);
      for (int time = 0; time < 2; ++time) {
        hvd_handle handle = 0;
        if (difference.call(hvd_rank() == last, &handle) != HVD_OK) {
          return complain(std::string("refused at submit: ") + hvd_last_error());
        }
        if (!ended("wait", hvd_wait(handle, -1), HVD_ERR_MISMATCH, text)) return false;
        if (!x.all(5) || !y.all(7)) return complain("a failed operation touched its tensor");
        if (!works(kName)) return false;
      }
    }
  }
  return true;
}

}  // namespace hvd::test
