// SPDX-License-Identifier: Apache-2.0
#include "libhvd/transport/gpu/nccl_policy.h"

namespace hvd {
namespace {

constexpr int kRecommended = 22809;

enum class Effect { kRefused, kBlocking, kNoSplit, kNoWindows, kAbortTogether, kSameNvls };

// From `first` up to, and without, `fixed`.
struct Row {
  int first;
  int fixed;
  Effect effect;
  const char* text;  // behind "NCCL 2.x.y"; null: nothing that a person has to know
};

constexpr Row kRows[] = {
    {0, 21400, Effect::kRefused,
     "is too old: before 2.14 a communicator cannot be made under a deadline"},
    {21400, 21801, Effect::kNoSplit, "cannot split communicators; 2.18 can"},
    {21700, 21801, Effect::kAbortTogether, "aborts a communicator only when all ranks do"},
    {22500, 22602, Effect::kRefused, "may hang for ever in ncclCommAbort; 2.26.2 does not"},
    {22602, 22700, Effect::kBlocking,
     "may hang at random with communicators that do not block, so they block"},
    {21400, 22703, Effect::kNoWindows, nullptr},
    {22700, 22900, Effect::kSameNvls, nullptr},
    {22800, 22807, Effect::kNoWindows,
     "corrupts small tensors in symmetric memory, which is not used; 2.28.7 does not"},
};

void apply(const Row& row, const std::string& sentence, NcclPolicy* policy) {
  switch (row.effect) {
    case Effect::kRefused:
      policy->usable = Status(Code::kSystem, sentence + ". Install 2.28.9 or a later one");
      return;
    case Effect::kBlocking:
      policy->nonblocking = false;
      break;
    case Effect::kNoSplit:
      policy->split = false;
      break;
    case Effect::kNoWindows:
      policy->windows = false;
      break;
    case Effect::kAbortTogether:
      policy->abort_waits_for_all = true;
      break;
    case Effect::kSameNvls:
      policy->same_nvls_everywhere = true;
      break;
  }
  if (row.text != nullptr) policy->remarks.push_back(sentence);
}

}  // namespace

NcclPolicy nccl_policy(int version) {
  NcclPolicy policy;
  const std::string name = "NCCL " + nccl_version_text(version);
  for (const Row& row : kRows) {
    if (version < row.first || version >= row.fixed) continue;
    apply(row, row.text == nullptr ? "" : name + " " + row.text, &policy);
  }
  if (policy.usable.ok() && version < kRecommended) {
    policy.remarks.push_back(name + " works; 2.28.9 or a later one is recommended");
  }
  return policy;
}

std::string cuda_version_text(int number) {
  return number <= 0 ? "" : format("%d.%d", number / 1000, number % 1000 / 10);
}

std::string nccl_version_text(int number) {
  if (number <= 0) return "";
  const bool old = number < 10000;  // 2804; since 2.9 the minor version has two digits: 22105
  return format("%d.%d.%d", old ? number / 1000 : number / 10000,
                old ? number / 100 % 10 : number / 100 % 100, number % 100);
}

}  // namespace hvd
