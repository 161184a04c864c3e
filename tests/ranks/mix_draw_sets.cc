// SPDX-License-Identifier: Apache-2.0
//
// See mix_draw.h: changes of process sets, and calls that must be refused.
#include <algorithm>
#include <iterator>

#include "libhvd/hvd.h"
#include "tests/ranks/mix_draw.h"
#include "tests/ranks/rounds_model.h"

namespace hvd::test {
namespace {

constexpr size_t kMostSets = 4;

std::vector<Said> said_by_all(const std::vector<std::string>& words) {
  std::vector<Said> said;
  for (size_t rank = 0; rank < words.size(); ++rank) {
    said.push_back({static_cast<int>(rank), words[rank]});
  }
  return said;
}

std::string in_quotes(const std::string& kind, const std::string& name) {
  return kind + " \"" + name + "\"";
}

}  // namespace

std::vector<std::string> SetChange::words() const {
  std::vector<std::string> words;
  for (const auto& members : ranks) words.push_back("ranks " + as_people_write(members));
  for (int id_said : ids) words.push_back(std::to_string(id_said));
  return words;
}

// ---- process sets -------------------------------------------------------------------------------

void Mix::draw_sets(Round* round) {
  if (sets_.size() < kMostSets && random_.one_in(2)) round->changes.push_back(an_addition());
  if (sets_.size() > 1 && random_.one_in(6)) {
    const auto set =
        std::next(sets_.begin(), random_.from(1, static_cast<int64_t>(sets_.size()) - 1));
    round->changes.push_back(a_removal(set->first));
  }
}

SetChange Mix::an_addition() {
  SetChange change;
  const Ranks ranks = random_.one_in(10) ? all_ : some_ranks(all_, 1);
  change.ranks.assign(all_.size(), ranks);
  if (random_.one_in(5)) change.ranks[random_.below(all_.size())] = some_ranks(all_, 1);
  judge(&change);
  return change;
}

SetChange Mix::a_removal(int id) {
  SetChange change;
  change.add = false;
  change.ids.assign(all_.size(), id);
  if (random_.one_in(5)) change.ids[random_.below(all_.size())] = next_set_ + 3;
  if (random_.one_in(8)) change.ids.assign(all_.size(), next_set_ + 1);
  judge(&change);
  return change;
}

// What must come of it, and what is different then.
void Mix::judge(SetChange* change) {
  const std::string kind = change->add ? "add_process_set" : "remove_process_set";
  const std::string what = in_quotes(kind, next_unnamed(0, kind));
  change->error =
      dispute(what, change->add ? "the members" : "the process set", said_by_all(change->words()));
  if (!change->error.empty()) return;
  if (!change->add) {
    const int id = change->ids[0];
    if (sets_.erase(id) == 0) {
      change->error = what + ": there is no process set " + std::to_string(id) + " any more";
    }
    return;
  }
  for (const auto& [id, set] : sets_) {
    if (set.ranks != change->ranks[0]) continue;
    change->error = what + ": process set " + std::to_string(id) + " has these ranks already";
    return;
  }
  change->id = next_set_++;
  Set& set = sets_[change->id];
  set.ranks = change->ranks[0];
  while (set.usual.size() < kNamesOfSet) set.usual.push_back(any(set));
}

// A set goes while some of its members wait for another one.
void Mix::draw_removal(Round* round) {
  std::vector<int> candidates;
  for (const auto& [id, set] : sets_) {
    if (id != 0 && set.ranks.size() > 1) candidates.push_back(id);
  }
  if (candidates.empty()) return;
  const int id = candidates[random_.below(candidates.size())];
  auto& uses = round->uses;
  uses.erase(
      std::remove_if(uses.begin(), uses.end(), [&](const Use& use) { return use.set == id; }),
      uses.end());
  for (int i = 0; i < 2; ++i) {
    Use use = a_use(id, any(sets_.at(id)));
    for (Ask& ask : use.asks) own_rows(&ask, use.members.size());
    use.name = use.spoken = "doomed." + std::to_string(i);
    use.doomed = true;
    use.submits[static_cast<size_t>(use.members[random_.below(use.members.size())])] = false;
    uses.push_back(std::move(use));
  }
  round->removed = id;
  next_unnamed(0, "remove_process_set");
  sets_.erase(id);
}

// ---- what is refused ----------------------------------------------------------------------------

void Mix::draw_attempts(Round* round) {
  for (int rank : all_) {
    if (!random_.one_in(3)) continue;
    Attempt attempt = an_attempt();
    attempt.rank = rank;
    // A set that this rank is no member of.
    if (random_.one_in(3) && sets_.size() > 1) {
      const auto& [id, set] = *std::prev(sets_.end());
      if (std::find(set.ranks.begin(), set.ranks.end(), rank) == set.ranks.end()) {
        attempt.set = id;
        attempt.text = "this rank, " + std::to_string(rank) + ", is no member of process set " +
                       std::to_string(id);
      }
    }
    round->attempts.push_back(std::move(attempt));
  }
}

Attempt Mix::an_attempt() {
  Attempt attempt;
  Ask& ask = attempt.ask;
  attempt.name = "tensor." + std::to_string(random_.below(kNames));
  ask.kind = Kind::kAllreduce;
  ask.pieces = {{HVD_FLOAT32, {4}}};
  const int rows = ranks_ + 1;
  switch (random_.below(9)) {
    case 0:
      attempt.set = next_set_ + 1;
      attempt.text = "there is no process set " + std::to_string(attempt.set);
      break;
    case 1:
      ask.pieces[0] = {HVD_BOOL, {3}};
      ask.op = HVD_AVERAGE;
      attempt.text =
          "there is no average of bool; use HVD_MAX (or), HVD_MIN (and), or another type";
      break;
    case 2:
      ask.pieces[0].type = HVD_INT32;
      ask.op = HVD_ADASUM;
      attempt.text = "adasum is for floating types, not for int32";
      break;
    case 3:
      ask.kind = Kind::kReducescatter;
      ask.op = HVD_ADASUM;
      attempt.text = "reducescatter has no adasum; use allreduce";
      break;
    case 4:
      ask.kind = Kind::kBroadcast;
      ask.root = ranks_;
      attempt.text = "the root is " + std::to_string(ranks_) + ", no member of process set 0";
      break;
    case 5:
      ask.kind = Kind::kAllgather;
      ask.pieces[0].shape = {};
      attempt.text =
          "allgather works on the rows of a tensor, and this one has no dimension; give it the "
          "shape [1]";
      break;
    case 6:
      ask.kind = Kind::kAlltoall;
      ask.pieces[0].shape = {rows};
      attempt.text = std::to_string(rows) + " rows cannot be split evenly over " +
                     std::to_string(ranks_) + " ranks; give the splits";
      break;
    case 7:
      ask.kind = Kind::kAlltoall;
      ask.pieces[0].shape = {rows};
      ask.splits.assign(all_.size(), 1);
      attempt.text = "the splits add up to " + std::to_string(ranks_) + " and the tensor has " +
                     std::to_string(rows) + " rows";
      break;
    default:
      ask.grouped = true;
      ask.pieces.push_back({HVD_FLOAT32, {2, -1}});
      attempt.text = "tensor 1: shape[1] is -1, less than 0";
      break;
  }
  return attempt;
}

}  // namespace hvd::test
