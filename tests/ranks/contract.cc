// SPDX-License-Identifier: Apache-2.0
//
// A program that does what a numbered line of the contract says about the C interface, for
// 75_contract.bats, which starts it with mpirun. It does what its arguments say, one after the
// other; each prints "rank R: ACTION is so", and the program ends with 0 if all of them were:
//
//   pairs        operations meet by process set and name, in any order; unnamed ones by a counter
//   refusals     everything that is refused at submit, with its text
//   mismatches   everything that ranks can disagree about, with its text
//   poll         an operation that was just submitted is not done
//   barrier      is done while others are outstanding; nobody waits for strangers; one order
//   join         what goes on when rank 0 has joined, and what does not
//   init         again, again after shutdown, with handles outstanding
//   arithmetic   how integers are scaled and 16-bit floats added; rows; roots
//   group        all or nothing
//   leave        (the last) ends with operations outstanding, without a shutdown
#include "tests/ranks/contract.h"

#include <stdio.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/random.h"

namespace hvd::test {

bool ended(const std::string& what, int code, int want, const std::string& text) {
  const std::string said = hvd_last_error();
  if (code == want && said == text) return true;
  return complain(what + " ended with " + std::to_string(code) + " \"" + said + "\", not with " +
                  std::to_string(want) + " \"" + text + "\"");
}

Floats::Floats(std::vector<int64_t> extents, float value) : shape(std::move(extents)) {
  size_t n = 1;
  for (int64_t extent : shape) n *= static_cast<size_t>(extent);
  data.assign(n, value);
}

hvd_tensor Floats::tensor(int type) {
  return {data.data(), shape.data(), static_cast<int32_t>(shape.size()), type, HVD_HOST};
}

bool Floats::all(float value) const {
  return std::all_of(data.begin(), data.end(), [=](float x) { return x == value; });
}

bool works(const std::string& name) {
  Floats x({10}, static_cast<float>(hvd_rank() + 1));
  const hvd_tensor tensor = x.tensor();
  if (hvd_allreduce(name.c_str(), &tensor, x.data.data(), HVD_SUM, 1, 1, HVD_GLOBAL) != HVD_OK) {
    return complain(hvd_last_error());
  }
  const int size = hvd_size();
  return x.all(static_cast<float>(size * (size + 1) / 2)) || complain("a wrong sum");
}

std::string all_but_the_last() {
  const int others = hvd_size() - 1;
  if (others >= 3) return "0-" + std::to_string(others - 1);
  return others == 2 ? "0, 1" : "0";
}

namespace {

bool good(int code) { return code == HVD_OK || complain(hvd_last_error()); }

// A sum in place, of a value of each rank.
int start(Floats* x, const char* name, int32_t set, hvd_handle* handle) {
  const hvd_tensor tensor = x->tensor();
  return hvd_allreduce_async(name, &tensor, x->data.data(), HVD_SUM, 1, 1, set, handle);
}

// 20 names in an order of each rank's own, each in two sets, with different shapes.
bool named_pairs(int32_t set) {
  std::vector<size_t> order(40);
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  Random random(static_cast<uint64_t>(hvd_rank()) + 17);
  random.shuffle(&order);
  std::vector<Floats> data;
  for (size_t i = 0; i < order.size(); ++i) {
    data.emplace_back(std::vector<int64_t>{static_cast<int64_t>(i) * 7}, static_cast<float>(i));
  }
  std::vector<std::pair<size_t, hvd_handle>> handles;
  for (size_t i : order) {
    const bool in_set = i % 2 == 1;
    if (in_set && hvd_rank() == 0) continue;
    handles.emplace_back(i, 0);
    const std::string name = "pair " + std::to_string(i / 2);
    if (!good(start(&data[i], name.c_str(), in_set ? set : HVD_GLOBAL, &handles.back().second))) {
      return false;
    }
  }
  for (const auto& [i, handle] : handles) {
    if (!good(hvd_wait(handle, -1))) return false;
    const size_t members = static_cast<size_t>(hvd_size()) - i % 2;
    if (!data[i].all(static_cast<float>(i * members))) return complain("a wrong sum");
  }
  return true;
}

// Unnamed sums, broadcasts and sums of a set, mixed differently on each rank; refused ones, and
// those with a name, do not count.
bool unnamed_pairs(int32_t set) {
  constexpr int kTimes = 6;
  std::vector<Floats> data;
  for (int i = 0; i < 3 * kTimes; ++i) data.emplace_back(std::vector<int64_t>{10 + i});
  int next[3] = {0, 0, 0};
  Random random(static_cast<uint64_t>(hvd_rank()) + 5);
  std::vector<hvd_handle> handles;
  for (int left = 3 * kTimes; left > 0;) {
    const int kind = static_cast<int>(random.below(3));
    if (next[kind] == kTimes) continue;
    Floats* x = &data[static_cast<size_t>(kTimes * kind + next[kind])];
    const hvd_tensor tensor = x->tensor();
    hvd_handle handle = 0;
    if (hvd_allreduce_async(nullptr, &tensor, nullptr, HVD_SUM, 1, 1, HVD_GLOBAL, &handle) !=
        HVD_ERR_INVALID) {
      return complain("no output and no error");
    }
    ++next[kind];
    --left;
    if (kind == 2 && hvd_rank() == 0) continue;
    const int code =
        kind == 1 ? hvd_broadcast_async(nullptr, &tensor, x->data.data(), 1, HVD_GLOBAL, &handle)
                  : start(x, nullptr, kind == 2 ? set : HVD_GLOBAL, &handle);
    if (!good(code)) return false;
    handles.push_back(handle);
  }
  for (hvd_handle handle : handles) {
    if (!good(hvd_wait(handle, -1))) return false;
  }
  const float size = static_cast<float>(hvd_size());
  for (int i = 0; i < 3 * kTimes; ++i) {
    const float want[] = {size, 1, hvd_rank() == 0 ? 1 : size - 1};
    if (!data[static_cast<size_t>(i)].all(want[i / kTimes])) return complain("a wrong result");
  }
  return true;
}

bool pairs() {
  std::vector<int32_t> ranks;
  for (int32_t rank = hvd_size() - 1; rank > 0; --rank) ranks.push_back(rank);
  int32_t set = 0;
  return good(hvd_add_process_set(ranks.data(), static_cast<int32_t>(ranks.size()), &set)) &&
         named_pairs(set) && unnamed_pairs(set) && good(hvd_remove_process_set(set));
}

bool poll() {
  // Not done, for sure: the others have not come. Then, for all to see, done.
  Floats x({10});
  hvd_handle handle = 0;
  if (hvd_rank() == 0) {
    if (!good(start(&x, "poll", HVD_GLOBAL, &handle))) return false;
    if (hvd_poll(handle) != 0) return complain("done before others have come");
  }
  if (!good(hvd_barrier(HVD_GLOBAL))) return false;
  if (hvd_rank() != 0 && !good(start(&x, "poll", HVD_GLOBAL, &handle))) return false;
  while (hvd_poll(handle) == 0) static_cast<void>(hvd_wait(handle, 10));
  if (hvd_poll(handle) > 0 && !good(hvd_wait(handle, 0))) return false;
  if (hvd_poll(handle) != -1) return complain("a handle that was waited for is there");
  // And normally, whatever the others do.
  Floats large({1 << 20});
  int not_yet = 0;
  for (int i = 0; i < 10; ++i) {
    if (!good(start(&large, "large", HVD_GLOBAL, &handle))) return false;
    if (hvd_poll(handle) == 0) ++not_yet;
    if (!good(hvd_wait(handle, -1))) return false;
  }
  return not_yet >= 5 || complain("submitting waits: " + std::to_string(not_yet) + " of 10");
}

// Which of the operations are done, at one moment: a rank's two looks in a row were the same.
std::vector<bool> done_of(const std::vector<hvd_handle>& handles) {
  std::vector<bool> done[2];
  for (int look = 0; look < 2 || done[0] != done[1]; ++look) {
    done[look % 2].clear();
    for (hvd_handle handle : handles) done[look % 2].push_back(hvd_poll(handle) != 0);
  }
  return done[0];
}

// Names in orders of each rank's own, none together with another: at any moment on any rank what
// is done is a beginning of one order. `mixed` is set if a moment was seen that tells.
bool one_order(bool* mixed) {
  constexpr size_t kNames = 24;
  std::vector<size_t> order(kNames);
  std::vector<Floats> data;
  for (size_t i = 0; i < kNames; ++i) {
    order[i] = i;
    data.emplace_back(std::vector<int64_t>{100000});
  }
  Random random(static_cast<uint64_t>(hvd_rank()) + 99);
  random.shuffle(&order);
  std::vector<hvd_handle> handles(kNames);
  for (size_t i : order) {
    if (!good(start(&data[i], ("order " + std::to_string(i)).c_str(), HVD_GLOBAL, &handles[i]))) {
      return false;
    }
  }
  std::vector<uint8_t> looks;  // each kNames long, the last of all
  for (std::vector<bool> done; done != std::vector<bool>(kNames, true);) {
    std::vector<bool> now = done_of(handles);
    if (now != done) looks.insert(looks.end(), now.begin(), now.end());
    done = std::move(now);
  }
  for (hvd_handle handle : handles) {
    if (!good(hvd_wait(handle, -1))) return false;
  }
  const int64_t shape[] = {static_cast<int64_t>(looks.size() / kNames), kNames};
  const hvd_tensor mine = {looks.data(), shape, 2, HVD_UINT8, HVD_HOST};
  hvd_handle gathered = 0;
  hvd_tensor all = {};
  if (!good(hvd_allgather("looks", &mine, HVD_GLOBAL, &gathered))) return false;
  if (!good(hvd_result(gathered, 0, &all))) return false;
  std::vector<std::vector<uint8_t>> sorted;
  for (int64_t i = 0; i < all.shape[0]; ++i) {
    const uint8_t* row = static_cast<const uint8_t*>(all.data) + i * all.shape[1];
    sorted.emplace_back(row, row + kNames);
  }
  const auto count = [](const std::vector<uint8_t>& look) {
    return std::count(look.begin(), look.end(), 1);
  };
  std::sort(sorted.begin(), sorted.end(),
            [&](const auto& a, const auto& b) { return count(a) < count(b); });
  for (size_t i = 1; i < sorted.size(); ++i) {
    const long before = count(sorted[i - 1]);
    if (before > 0 && before < static_cast<long>(kNames)) *mixed = true;
    for (size_t k = 0; k < kNames; ++k) {
      if (sorted[i - 1][k] > sorted[i][k]) return complain("ranks ran names in different orders");
    }
  }
  return good(hvd_release(gathered));
}

bool barrier() {
  // An operation that only rank 0 has submitted, and one of a set that the last is no member of.
  Floats x({10});
  hvd_handle lonely = 0;
  const int last = hvd_size() - 1;
  std::vector<int32_t> ranks;
  for (int32_t rank = 0; rank < last; ++rank) ranks.push_back(rank);
  int32_t set = 0;
  if (!good(hvd_add_process_set(ranks.data(), last, &set))) return false;
  if (hvd_rank() == 0 && !good(start(&x, "lonely", HVD_GLOBAL, &lonely))) return false;
  if (!good(hvd_barrier(HVD_GLOBAL))) return false;
  if (hvd_rank() != last) {
    hvd_handle handle = 0;
    Floats y({10});
    if (!good(start(&y, "of some", set, &handle)) || !good(hvd_wait(handle, -1))) return false;
    if (!y.all(static_cast<float>(last)) || !good(hvd_barrier(set))) return complain("not so");
  }
  if (!works("of all")) return false;
  if (hvd_rank() == 0 && hvd_poll(lonely) != 0) return complain("done before all have come");
  if (!good(hvd_barrier(HVD_GLOBAL))) return false;
  if (hvd_rank() != 0 && !good(start(&x, "lonely", HVD_GLOBAL, &lonely))) return false;
  if (!good(hvd_wait(lonely, -1)) || !good(hvd_remove_process_set(set))) return false;
  bool mixed = false;
  for (int time = 0; time < 20 && !mixed; ++time) {
    if (!one_order(&mixed)) return false;
  }
  return mixed || hvd_size() == 1 || complain("nothing was seen of the order");
}

bool act(const std::string& word) {
  const std::pair<const char*, bool (*)()> actions[] = {
      {"pairs", pairs}, {"refusals", refusals},     {"mismatches", mismatches},
      {"poll", poll},   {"barrier", barrier},       {"join", join},
      {"init", init},   {"arithmetic", arithmetic}, {"group", group},
      {"leave", leave},
  };
  for (const auto& [name, action] : actions) {
    if (word != name) continue;
    if (!action()) return false;
    printf("rank %d: %s is so\n", hvd_rank(), name);
    return true;
  }
  return complain("\"" + word + "\" is no action");
}

}  // namespace
}  // namespace hvd::test

int main(int argc, char** argv) {
  return hvd::test::run_actions("contract", argc, argv,
                                [](char** words, int* at) { return hvd::test::act(words[*at]); });
}
