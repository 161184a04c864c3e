// SPDX-License-Identifier: Apache-2.0
//
// See agreement_plan.h.
#include "tests/unit/agreement_plan.h"

#include <algorithm>
#include <set>

#include "tests/unit/control_words.h"

namespace hvd::test {
namespace {

Description random_description(Random* random) {
  const TensorShape tensor = {DataType::kFloat32, {random->from(1, 4)}};
  const TensorShape other = {DataType::kInt64, {random->from(1, 4)}};
  switch (random->below(8)) {
    case 0:
      return described(OpKind::kAllgather, {{DataType::kFloat32, {0, random->from(1, 2)}}});
    case 1:
      return described(OpKind::kBroadcast, {tensor});
    case 2:
      return described(OpKind::kBarrier, std::vector<TensorShape>());
    case 3:
      return group(OpKind::kAllreduce, {tensor, other});
    case 4:
      return group(OpKind::kReducescatter, {tensor});
    default:
      return described(OpKind::kAllreduce, {tensor});
  }
}

}  // namespace

Plan::Plan(size_t size, Random* random) : ranks(size) {
  for (int i = 0; i < kNames; ++i) streams.push_back({-1, "n" + std::to_string(i)});
  std::vector<int> alive;
  std::set<std::vector<int32_t>> had;
  for (int64_t n = random->from(2, 6); n > 0; --n) {
    Phase phase;
    phase.join = random->one_in(3);
    for (size_t rank = 0; rank < size; ++rank) {
      const bool few = phase.join && random->one_in(2);
      phase.steps.push_back(few ? static_cast<int>(random->from(0, kMostUses)) : kMostUses);
    }
    for (int k = 0; k < 2 && !phase.join; ++k) {
      if (!alive.empty() && random->one_in(2)) {
        const int number = alive.front();
        alive.erase(alive.begin());
        phase.removes.push_back(number);
        sets[static_cast<size_t>(number)].removed = true;
        // Its last uses are in this phase: the removal may come before or behind them.
        for (size_t s = 0; s < streams.size(); ++s) {
          if (streams[s].set == number) add_uses(&phase, s, random);
        }
      }
      Set set;
      for (size_t rank = 0; rank < size; ++rank) {
        if (random->one_in(2)) set.ranks.push_back(static_cast<int32_t>(rank));
      }
      const bool room = alive.size() + phase.removes.size() < kMostSets;
      const bool some = !set.ranks.empty() && set.ranks.size() < size;  // all is set 0
      if (room && some && had.insert(set.ranks).second) {
        const int number = static_cast<int>(sets.size());
        phase.adds.push_back(number);
        alive.push_back(number);
        sets.push_back(set);
        for (int i = 0; i < kNamesOfSet; ++i) streams.push_back({number, "n" + std::to_string(i)});
      }
    }
    for (size_t s = 0; s < streams.size(); ++s) {
      const bool there = streams[s].set < 0 ||
                         std::find(alive.begin(), alive.end(), streams[s].set) != alive.end();
      if (there) add_uses(&phase, s, random);
    }
    phases.push_back(phase);
  }
}

void Plan::add_uses(Phase* phase, size_t stream, Random* random) {
  Phase::Uses uses;
  uses.stream = stream;
  const int most = static_cast<int>(random->from(0, kMostUses));
  Description usual = random_description(random);
  for (int steps : phase->steps) uses.times.push_back(std::min(most, steps));
  // Most uses say the same as the last one; some ranks, or all, may say another thing.
  for (int use = 0; use < most; ++use) {
    if (random->one_in(4)) usual = random_description(random);
    std::vector<Description> by_rank(ranks, usual);
    if (random->one_in(3)) {
      for (Description& description : by_rank) {
        if (random->one_in(3)) description = random_description(random);
      }
    }
    uses.says.push_back(by_rank);
  }
  phase->uses.push_back(uses);
}

}  // namespace hvd::test
