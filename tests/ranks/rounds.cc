// SPDX-License-Identifier: Apache-2.0
//
// A program whose ranks disagree on purpose, through the C interface as users have it. Run by the
// bats tests under mpirun and srun. What must come of it all ranks compute for themselves
// (rounds_model.h). It does what its arguments say, one after the other, and ends with 0 if all of
// it went as it must:
//
//   mismatch            each thing that can differ, with each rank as the one that differs
//   retire              one, some and all ranks change the description of a known name
//   rounds COUNT SEED   rounds of 20 names in random orders, some of them changed
//   bits                20 submission orders; prints a number of the results' bits
//   gpu                 what a tensor on a GPU is told
#include <stdio.h>
#include <stdlib.h>

#include <cstring>
#include <string>
#include <vector>

#include "libhvd/hvd.h"
#include "tests/ranks/program.h"
#include "tests/ranks/rounds_model.h"

namespace {

using namespace hvd::test;

constexpr int64_t kDeadlineMs = 30000;

// One operation of this rank, from submit to the comparison with what must come of it.
class Use {
 public:
  Use(std::string name, const std::vector<Says>& by_rank, uint64_t salt)
      : trial_(std::move(name), by_rank, hvd_rank(), salt) {
    const Says& says = trial_.says;
    const hvd_tensor tensor = {trial_.data.data(), says.shape.data(),
                               static_cast<int32_t>(says.shape.size()), says.type, HVD_HOST};
    submitted_ =
        says.broadcast
            ? hvd_broadcast_async(trial_.name.c_str(), &tensor, trial_.data.data(), says.root,
                                  HVD_GLOBAL, &handle_)
            : hvd_allreduce_async(trial_.name.c_str(), &tensor, trial_.data.data(), says.op,
                                  says.prescale, says.postscale, HVD_GLOBAL, &handle_);
    if (submitted_ != HVD_OK) refusal_ = hvd_last_error();
  }

  bool wait() {
    if (submitted_ != HVD_OK) return complain(trial_.name + " was refused: " + refusal_);
    const int code = hvd_wait(handle_, kDeadlineMs);
    const Trial::End end = code == HVD_OK             ? Trial::End::kWell
                           : code == HVD_ERR_MISMATCH ? Trial::End::kMismatch
                                                      : Trial::End::kOtherwise;
    const std::string wrong = trial_.verdict(end, hvd_last_error());
    return wrong.empty() || complain(wrong);
  }

 private:
  Trial trial_;
  hvd_handle handle_ = 0;
  int submitted_ = HVD_OK;
  std::string refusal_;
};

bool mismatch() {
  Random random(1);
  uint64_t salt = 0;
  for (int dissenter = 0; dissenter < hvd_size(); ++dissenter) {
    for (int i = 0; i < kAspects; ++i) {
      const Aspect aspect = static_cast<Aspect>(i);
      if (aspect == Aspect::kDevice) continue;  // is refused before anybody is told
      Says usual;
      usual.shape = {5, 7};
      usual.broadcast = aspect == Aspect::kRoot;
      std::vector<Says> by_rank = all_say(usual, hvd_size());
      if (!change(&by_rank[static_cast<size_t>(dissenter)], aspect, hvd_size(), &random)) {
        return complain("nothing was changed");
      }
      if (!Use("grad", by_rank, ++salt).wait()) return false;
      if (!Use("grad", all_say(usual, hvd_size()), ++salt).wait()) return false;
      if (hvd_rank() == 0 && dissenter == hvd_size() - 1) {
        printf("%s\n", expected_error("grad", by_rank).c_str());
      }
    }
  }
  printf("rank %d: all were told\n", hvd_rank());
  return true;
}

bool retire() {
  uint64_t salt = 0;
  Says old_one;
  Says new_one;
  old_one.shape = {10};
  new_one.shape = {3, 4};
  for (int changed = 1; changed <= hvd_size(); ++changed) {
    for (const Says& afterwards : {old_one, new_one}) {
      std::vector<Says> by_rank = all_say(old_one, hvd_size());
      for (int i = 0; i < changed; ++i)
        by_rank[by_rank.size() - 1 - static_cast<size_t>(i)] = new_one;
      for (const auto& uses :
           {all_say(old_one, hvd_size()), by_rank, all_say(afterwards, hvd_size())}) {
        if (!Use("grad", uses, ++salt).wait()) return false;
      }
    }
  }
  printf("rank %d: retired and in use again\n", hvd_rank());
  return true;
}

bool rounds(int count, uint64_t seed) {
  Rounds model(seed, hvd_size(), 20, false);
  int failed = 0;
  for (int round = 0; round < count; ++round) {
    model.next();
    std::vector<Use> uses;
    for (int name : model.order(hvd_rank())) {
      uses.emplace_back(model.name(name), model.says(name), model.salt(name));
      if (!expected_error(model.name(name), model.says(name)).empty()) ++failed;
    }
    for (Use& use : uses) {
      if (!use.wait()) {
        return complain("in round " + std::to_string(round) + " of seed " + std::to_string(seed));
      }
    }
  }
  printf("rank %d: %d rounds of seed %llu, %d disagreements, all as they must be\n", hvd_rank(),
         count, static_cast<unsigned long long>(seed), failed);
  return true;
}

// FNV-1a.
uint64_t number_of(const std::vector<char>& bytes, uint64_t number) {
  for (char c : bytes) number = (number ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return number;
}

// Floats of all magnitudes: any other order of summation gives other bits.
std::vector<float> awkward(int rank, size_t tensor, size_t n) {
  Random random(static_cast<uint64_t>(rank) * 1000 + tensor);
  std::vector<float> data(n);
  for (float& x : data) {
    const float fraction = static_cast<float>(random.next() >> 40) / 16777216.0f + 0.5f;
    x = fraction * static_cast<float>(uint64_t{1} << random.below(40));
    if (random.one_in(2)) x = -x;
  }
  return data;
}

bool one_order(uint64_t order, const std::vector<size_t>& sizes, uint64_t* number) {
  std::vector<std::vector<float>> data(sizes.size());
  std::vector<int64_t> shapes(sizes.begin(), sizes.end());
  std::vector<size_t> tensors;
  for (size_t t = 0; t < sizes.size(); ++t) {
    data[t] = awkward(hvd_rank(), t, sizes[t]);
    tensors.push_back(t);
  }
  Random random(order * 1000 + static_cast<uint64_t>(hvd_rank()));
  random.shuffle(&tensors);
  std::vector<hvd_handle> handles;
  for (size_t t : tensors) {
    const hvd_tensor tensor = {data[t].data(), &shapes[t], 1, HVD_FLOAT32, HVD_HOST};
    hvd_handle handle = 0;
    if (hvd_allreduce_async(("t" + std::to_string(t)).c_str(), &tensor, data[t].data(), HVD_SUM, 1,
                            1, HVD_GLOBAL, &handle) != HVD_OK) {
      return complain(hvd_last_error());
    }
    handles.push_back(handle);
  }
  for (hvd_handle handle : handles) {
    if (hvd_wait(handle, kDeadlineMs) != HVD_OK) return complain(hvd_last_error());
  }
  *number = 0xcbf29ce484222325u;
  for (const auto& d : data) {
    const char* bytes = reinterpret_cast<const char*>(d.data());
    *number = number_of({bytes, bytes + d.size() * sizeof(float)}, *number);
  }
  return true;
}

bool bits() {
  // Around the sizes where plans change, and one of several blocks (HOROVOD_BLOCK_SIZE).
  const std::vector<size_t> sizes = {1, 3, 64, 65, 500, 1000, 1024, 1025, 2048, 2049, 9000, 40000};
  uint64_t first = 0;
  for (uint64_t order = 0; order < 20; ++order) {
    uint64_t number = 0;
    if (!one_order(order, sizes, &number)) return false;
    if (order == 0) first = number;
    if (number != first) return complain("other bits in order " + std::to_string(order));
  }
  printf("bits %016llx\n", static_cast<unsigned long long>(first));
  return true;
}

bool gpu() {
  int64_t n = 1;
  float x = 1;
  hvd_handle handle = 0;
  for (int32_t device : {HVD_GPU(2), int32_t{-1}}) {
    const hvd_tensor tensor = {&x, &n, 1, HVD_FLOAT32, device};
    const int code = hvd_allreduce_async("grad", &tensor, &x, HVD_SUM, 1, 1, HVD_GLOBAL, &handle);
    printf("%d %s\n", code, hvd_last_error());
    if (code != HVD_ERR_INVALID) return false;
  }
  const hvd_tensor tensor = {&x, &n, 1, HVD_FLOAT32, HVD_HOST};
  return hvd_allreduce("grad", &tensor, &x, HVD_SUM, 1, 1, HVD_GLOBAL) == HVD_OK ||
         complain(hvd_last_error());
}

bool act(char** argv, int* at) {
  const std::string word = argv[*at];
  if (word == "mismatch") return mismatch();
  if (word == "retire") return retire();
  if (word == "bits") return bits();
  if (word == "gpu") return gpu();
  if (word == "rounds" && argv[*at + 1] != nullptr && argv[*at + 2] != nullptr) {
    *at += 2;
    return rounds(atoi(argv[*at - 1]), strtoull(argv[*at], nullptr, 0));
  }
  return complain("\"" + word + "\" is no action");
}

}  // namespace

int main(int argc, char** argv) { return run_actions("rounds", argc, argv, act); }
