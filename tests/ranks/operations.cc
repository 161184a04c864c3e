// SPDX-License-Identifier: Apache-2.0
//
// A program whose ranks use every operation with every type, reduction and kind of place, and
// compare with a plain reference (operations_reference.h). Run by the bats tests under mpirun and
// srun, once for each layout of ranks on nodes. It does what its arguments say, one after the
// other, and ends with 0 if all was right; rank 0 prints "N combinations" for each:
//
//   table         all cases (operations_cases.h), of process sets, too
//   part TEXT     those cases that have the text in theirs
//   repeat        sums of random floats in three submission orders: the same bits
//   wire TYPE     bf16 or fp16, as HOROVOD_WIRE is: errors within their bounds, the same bits
//   join          ranks join one after the other and count as zeros from then on
//   huge          more than 2^31 elements
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "libhvd/hvd.h"
#include "tests/random.h"
#include "tests/ranks/operations_cases.h"
#include "tests/ranks/operations_trial.h"
#include "tests/ranks/program.h"

namespace {

using namespace hvd::test;

constexpr int64_t kDeadlineMs = 60000;
constexpr size_t kInFlight = 60;

void count(int combinations) {
  if (hvd_rank() == 0) printf("%d combinations\n", combinations);
}

std::vector<Members> make_sets() {
  std::vector<Members> sets;
  for (const std::vector<int>& ranks : sets_for(hvd_size())) {
    Members members;
    members.ranks = ranks;
    const auto mine = std::find(ranks.begin(), ranks.end(), hvd_rank());
    if (mine != ranks.end()) members.index = static_cast<int>(mine - ranks.begin());
    const std::vector<int32_t> numbers(ranks.begin(), ranks.end());
    if (!sets.empty() && hvd_add_process_set(numbers.data(), static_cast<int32_t>(numbers.size()),
                                             &members.id) != HVD_OK) {
      complain(hvd_last_error());
      exit(1);
    }
    sets.push_back(members);
  }
  return sets;
}

bool remove_sets(const std::vector<Members>& sets) {
  for (size_t i = 1; i < sets.size(); ++i) {
    if (hvd_remove_process_set(sets[i].id) != HVD_OK) return complain(hvd_last_error());
  }
  return true;
}

// Members of a set get the same result, but for what is each one's own.
bool is_for_all(const Case& c) {
  return c.kind == Kind::kAllreduce || c.kind == Kind::kAllgather || c.kind == Kind::kBroadcast;
}

// Submits the cases in an order that is this rank's own, `kInFlight` at a time, and checks what
// comes. `numbers`: of the bits of each; 0 where this rank has no part or all differ.
bool run(const std::vector<Case>& cases, const std::vector<Members>& sets, const Wire& wire,
         uint64_t order, std::vector<uint64_t>* numbers) {
  numbers->assign(cases.size(), 0);
  Random random(order * 1000 + static_cast<uint64_t>(hvd_rank()));
  for (size_t begin = 0; begin < cases.size(); begin += kInFlight) {
    std::vector<size_t> mine;
    for (size_t i = begin; i < std::min(begin + kInFlight, cases.size()); ++i) {
      if (sets[static_cast<size_t>(cases[i].set)].index >= 0) mine.push_back(i);
    }
    random.shuffle(&mine);
    std::vector<std::unique_ptr<Trial>> trials;
    for (size_t i : mine) {
      const Members& members = sets[static_cast<size_t>(cases[i].set)];
      trials.push_back(
          std::make_unique<Trial>(cases[i], members, wire, "case " + std::to_string(i)));
      const std::string wrong = trials.back()->submit();
      if (!wrong.empty()) return complain(cases[i].text() + " " + wrong);
    }
    bool right = true;
    for (size_t k = 0; k < mine.size(); ++k) {
      const std::string wrong = trials[k]->finish(kDeadlineMs);
      // The others' memory is in use until they are done.
      if (!wrong.empty() && right) right = complain(cases[mine[k]].text() + " " + wrong);
      if (is_for_all(cases[mine[k]])) (*numbers)[mine[k]] = trials[k]->number() >> 1 | 1;
    }
    if (!right) return false;
  }
  return true;
}

// The least and the largest of all ranks' numbers are the same.
bool same_everywhere(const std::vector<Case>& cases, const std::vector<uint64_t>& numbers) {
  const int64_t n = static_cast<int64_t>(numbers.size());
  std::vector<int64_t> least(numbers.begin(), numbers.end());
  std::vector<int64_t> most = least;
  for (int64_t& x : least) {
    if (x == 0) x = INT64_MAX;
  }
  for (auto [values, op] : {std::make_pair(&least, HVD_MIN), std::make_pair(&most, HVD_MAX)}) {
    const hvd_tensor tensor = {values->data(), &n, 1, HVD_INT64, HVD_HOST};
    if (hvd_allreduce("numbers", &tensor, values->data(), op, 1, 1, HVD_GLOBAL) != HVD_OK) {
      return complain(hvd_last_error());
    }
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (least[i] != most[i] && most[i] != 0) {
      return complain(cases[i].text() + " has not the same bits on all ranks");
    }
  }
  return true;
}

bool table(const std::string& part) {
  const std::vector<Members> sets = make_sets();
  std::vector<Case> cases;
  for (const Case& c : all_cases(static_cast<int>(sets.size()))) {
    if (c.text().find(part) != std::string::npos) cases.push_back(c);
  }
  std::vector<uint64_t> numbers;
  if (!run(cases, sets, Wire(), 1, &numbers)) return false;
  if (!same_everywhere(cases, numbers) || !remove_sets(sets)) return false;
  count(static_cast<int>(cases.size()));
  return true;
}

bool repeat() {
  const std::vector<Members> sets = make_sets();
  const std::vector<Case> cases = random_cases(static_cast<int>(sets.size()));
  std::vector<uint64_t> first;
  std::vector<uint64_t> again;
  if (!run(cases, sets, Wire(), 1, &first) || !same_everywhere(cases, first)) return false;
  for (uint64_t order : {2, 3}) {
    if (!run(cases, sets, Wire(), order, &again)) return false;
    for (size_t i = 0; i < cases.size(); ++i) {
      if (first[i] != again[i]) return complain(cases[i].text() + " has other bits the next time");
    }
  }
  if (!remove_sets(sets)) return false;
  count(static_cast<int>(cases.size()));
  return true;
}

bool wire(const std::string& type) {
  const std::vector<Members> sets(make_sets());
  Wire wire;
  wire.roundoff = unit_roundoff(type == "bf16" ? HVD_BFLOAT16 : HVD_FLOAT16);
  // Each node's part on its way, each partial sum on its further way, and the result.
  wire.hops = 4;
  const std::vector<Case> cases = wire_cases();
  std::vector<uint64_t> first;
  std::vector<uint64_t> again;
  if (!run(cases, sets, wire, 1, &first) || !run(cases, sets, wire, 2, &again)) return false;
  if (first != again) return complain("other bits the next time");
  if (!same_everywhere(cases, first) || !remove_sets(sets)) return false;
  count(static_cast<int>(cases.size()));
  return true;
}

// Rank r takes part in rounds 0 to r, and then joins. A round has each type once, with the
// reductions in turn, and some are a group.
class JoinRound {
 public:
  explicit JoinRound(int round) : round_(round) {
    const int ops[] = {HVD_SUM, HVD_AVERAGE, HVD_MIN, HVD_MAX, HVD_PRODUCT};
    for (int type = 0; type < kTypes; ++type) {
      Case c;
      c.items.resize(1);
      c.items[0].type = type;
      c.items[0].rows = type == HVD_FLOAT32 ? 20000 : 50;
      c.op = ops[(round + type) % 5];
      if (type == HVD_BOOL && c.op == HVD_AVERAGE) c.op = HVD_SUM;
      c.seed = static_cast<uint64_t>(1000 * round + type);
      cases_.push_back(c);
      data_.push_back(input_of(c, 0, hvd_rank(), hvd_size()));
    }
  }

  // One name for the same tensors of all rounds: known from the second on.
  bool submit() {
    for (size_t i = 0; i < cases_.size(); ++i) {
      const Item& item = cases_[i].items[0];
      const hvd_tensor tensor = {data_[i].data(), &item.rows, 1, item.type, HVD_HOST};
      void* place = data_[i].data();
      const std::string name = "of type " + std::to_string(item.type);
      handles_.push_back(0);
      const int code =
          i % 3 == 0 ? hvd_grouped_allreduce_async(name.c_str(), 1, &tensor, &place, cases_[i].op,
                                                   1, 1, HVD_GLOBAL, &handles_.back())
                     : hvd_allreduce_async(name.c_str(), &tensor, place, cases_[i].op, 1, 1,
                                           HVD_GLOBAL, &handles_.back());
      if (code != HVD_OK) return complain(hvd_last_error());
    }
    hvd_handle barrier = 0;
    if (hvd_barrier_async(HVD_GLOBAL, &barrier) != HVD_OK) return complain(hvd_last_error());
    handles_.push_back(barrier);
    return true;
  }

  bool finish() {
    for (hvd_handle handle : handles_) {
      if (hvd_wait(handle, kDeadlineMs) != HVD_OK) return complain(hvd_last_error());
    }
    for (size_t i = 0; i < cases_.size(); ++i) {
      const std::string wrong = wrong_with(cases_[i].items[0].type, data_[i].data(), expected(i));
      if (wrong.empty()) continue;
      return complain(cases_[i].text() + " of ranks from " + std::to_string(round_) + ": " + wrong);
    }
    return true;
  }

  int combinations() const { return static_cast<int>(cases_.size()); }

 private:
  Expected expected(size_t i) const {
    Case c = cases_[i];
    c.zeros_before = round_;
    return expected_of(c, 0, hvd_rank(), hvd_size(), Wire());
  }

  int round_;
  std::vector<Case> cases_;
  std::vector<std::vector<char>> data_;
  std::vector<hvd_handle> handles_;
};

bool join() {
  int combinations = 0;
  for (int time = 0; time < 2; ++time) {
    for (int round = 0; round <= hvd_rank(); ++round) {
      JoinRound operations(round);
      if (!operations.submit() || !operations.finish()) return false;
    }
    int32_t last = -1;
    // Any number of a device will do.
    if (hvd_join(hvd_rank() % 2 == 0 ? 7 : -1, &last) != HVD_OK) return complain(hvd_last_error());
    if (last != hvd_size() - 1) return complain("rank " + std::to_string(last) + " joined last");
    combinations += hvd_size() * JoinRound(0).combinations();
  }
  count(combinations);
  return true;
}

// Bytes of zeros that take no memory until they are written to.
class Zeros {
 public:
  explicit Zeros(size_t bytes) : bytes_(bytes) {
    at_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
               -1, 0);
  }
  ~Zeros() {
    if (at_ != MAP_FAILED) munmap(at_, bytes_);
  }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  uint8_t* data() { return at_ == MAP_FAILED ? nullptr : static_cast<uint8_t*>(at_); }

 private:
  size_t bytes_;
  void* at_;
};

bool huge() {
  const int64_t n = (int64_t{1} << 31) + 5;
  const int64_t places[] = {0, 1, INT32_MAX, int64_t{INT32_MAX} + 1, n - 1};
  Zeros zeros(static_cast<size_t>(n));
  uint8_t* data = zeros.data();
  if (data == nullptr) return complain("no memory");
  for (int64_t i : places) data[i] = static_cast<uint8_t>(hvd_rank() + 1 + i % 5);
  const hvd_tensor tensor = {data, &n, 1, HVD_UINT8, HVD_HOST};
  if (hvd_allreduce("huge", &tensor, data, HVD_SUM, 1, 1, HVD_GLOBAL) != HVD_OK) {
    return complain(hvd_last_error());
  }
  int64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += data[i];
  for (int64_t i : places) {
    const int size = hvd_size();
    const int want = size * (size + 1) / 2 + size * static_cast<int>(i % 5);
    if (data[i] != want) return complain("a wrong sum at " + std::to_string(i));
    sum -= want;
  }
  if (sum != 0) return complain("a sum where nothing was");
  count(1);
  return true;
}

bool act(char** argv, int* at) {
  const std::string word = argv[*at];
  const bool more = argv[*at + 1] != nullptr;
  if (word == "table") return table("");
  if (word == "part" && more) return table(argv[++*at]);
  if (word == "repeat") return repeat();
  if (word == "join") return join();
  if (word == "huge") return huge();
  if (word == "wire" && more) return wire(argv[++*at]);
  return complain("\"" + word + "\" is no action");
}

}  // namespace

int main(int argc, char** argv) { return run_actions("operations", argc, argv, act); }
