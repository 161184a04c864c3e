// SPDX-License-Identifier: Apache-2.0
//
// See mix_draw.h.
#include "tests/ranks/mix_draw.h"

#include <algorithm>
#include <numeric>

#include "libhvd/hvd.h"

namespace hvd::test {
namespace {

constexpr double kFactors[] = {1, 1, 1, 1, 0.5, 2, -1, 3};

}  // namespace

Mix::Mix(int ranks, std::vector<Kind> kinds) : ranks_(ranks), kinds_(std::move(kinds)) {
  all_.resize(static_cast<size_t>(ranks));
  std::iota(all_.begin(), all_.end(), 0);
  begin_epoch();
}

void Mix::begin_epoch() {
  sets_.clear();
  sets_[0].ranks = all_;
  next_set_ = 1;
  joins_ = 0;
  unnamed_.clear();
}

void Mix::begin(uint64_t seed) {
  random_ = Random(seed);
  salt_ = seed;
  for (auto& [id, set] : sets_) {
    const size_t names = id == 0 ? kNames : kNamesOfSet;
    set.usual.clear();
    while (set.usual.size() < names) set.usual.push_back(any(set));
  }
}

std::vector<int> Mix::sets() const {
  std::vector<int> ids;
  for (const auto& [id, set] : sets_) ids.push_back(id);
  return ids;
}

Round Mix::next() {
  Round round;
  round.seed = random_.next();
  draw_sets(&round);
  round.joining.assign(static_cast<size_t>(ranks_), Joining::kAfterWaiting);
  draw_uses(&round);
  if (random_.one_in(3)) {
    draw_joins(&round);
  } else if (random_.one_in(4)) {
    draw_removal(&round);
  }
  draw_attempts(&round);
  return round;
}

// ---- operations ---------------------------------------------------------------------------------

Piece Mix::a_piece(const Ask& ask) {
  Piece piece;
  // Half of it in one type, so that there is something to fuse.
  piece.type = random_.one_in(2) ? static_cast<int>(HVD_FLOAT32)
                                 : static_cast<int>(random_.below(HVD_BFLOAT16 + 1));
  if (ask.op == HVD_ADASUM && !is_floating_type(piece.type)) piece.type = HVD_FLOAT64;
  if (!ask.has_rows() && random_.one_in(12)) return piece;  // a scalar
  if (random_.one_in(40)) {
    piece.shape = {random_.from(1, 100), random_.from(1, 200)};
  } else if (random_.one_in(2)) {
    piece.shape = {random_.from(1, 40)};
  } else {
    piece.shape = {random_.from(1, 12), random_.from(1, 9)};
    if (random_.one_in(3)) piece.shape.push_back(random_.from(1, 3));
  }
  if (random_.one_in(12)) piece.shape[random_.below(piece.shape.size())] = 0;
  // The first extent is no part of what ranks agree about: see own_rows.
  if (ask.ragged()) piece.shape[0] = 0;
  return piece;
}

void Mix::a_reduction(Ask* ask) {
  const int ops[] = {HVD_SUM, HVD_SUM, HVD_SUM,     HVD_AVERAGE,
                     HVD_MIN, HVD_MAX, HVD_PRODUCT, HVD_ADASUM};
  ask->op = ops[random_.below(8)];
  ask->prescale = kFactors[random_.below(8)];
  ask->postscale = kFactors[random_.below(8)];
}

Ask Mix::any(const Set& set) {
  for (;;) {
    Ask ask;
    ask.kind = kinds_[random_.below(kinds_.size())];
    if (random_.one_in(2)) ask.kind = Kind::kAllreduce;
    if (ask.kind == Kind::kBarrier) continue;  // has no name
    if (ask.reduces()) a_reduction(&ask);
    if (ask.kind == Kind::kBroadcast) ask.root = set.ranks[random_.below(set.ranks.size())];
    ask.grouped = ask.may_be_grouped() && random_.one_in(4);
    const int64_t pieces = ask.grouped ? random_.from(1, 4) : 1;
    for (int64_t i = 0; i < pieces; ++i) ask.pieces.push_back(a_piece(ask));
    if (is_valid(ask)) return ask;
  }
}

// What is each rank's own affair.
void Mix::own_rows(Ask* ask, size_t members) {
  ask->splits.clear();
  if (ask->kind == Kind::kAllgather) {
    for (Piece& piece : ask->pieces) piece.shape[0] = random_.from(0, 5);
  } else if (ask->kind == Kind::kAlltoall) {
    int64_t& rows = ask->pieces[0].shape[0];
    rows = random_.from(0, 2) * static_cast<int64_t>(members);
    if (random_.one_in(4)) return;
    for (size_t i = 0; i < members; ++i) ask->splits.push_back(random_.from(0, 3));
    rows = std::accumulate(ask->splits.begin(), ask->splits.end(), int64_t{0});
  }
}

bool Mix::change_once(Ask* ask, const Ranks& members) {
  const Set set = {members, {}};
  const Ask other = any(set);
  Piece& piece = ask->pieces[random_.below(ask->pieces.size())];
  switch (random_.below(8)) {
    case 0:
      *ask = other;
      break;
    case 1:
      if (ask->may_be_grouped()) ask->grouped = true;
      if (ask->grouped) ask->pieces.push_back(a_piece(*ask));
      break;
    case 2:
      piece.type = other.pieces[0].type;
      break;
    case 3:
      if (ask->reduces()) ask->op = other.op;
      break;
    case 4:
      if (ask->kind == Kind::kBroadcast) ask->root = members[random_.below(members.size())];
      break;
    case 5:
      if (ask->reduces()) ask->prescale = kFactors[random_.below(8)];
      break;
    case 6:
      if (ask->reduces()) ask->postscale = kFactors[random_.below(8)];
      break;
    default:
      piece.shape = a_piece(*ask).shape;
      break;
  }
  return is_valid(*ask);
}

void Mix::change(Ask* ask, const Ranks& members) {
  const Ask before = *ask;
  do {
    *ask = before;
  } while (!change_once(ask, members) || agree(*ask, before));
}

// One rank, or some, say something else, alike or each its own.
void Mix::dissent(Use* use) {
  const Ranks others = random_.one_in(2) ? some_ranks(use->members, 1)
                                         : Ranks{use->members[random_.below(use->members.size())]};
  const bool alike = random_.one_in(2);
  Ask other = use->ask(others[0]);
  change(&other, use->members);
  for (int rank : others) {
    use->asks[static_cast<size_t>(rank)] = other;
    if (!alike) change(&other, use->members);
  }
}

Use Mix::a_use(int set, const Ask& usual) {
  Use use;
  use.set = set;
  use.members = sets_.at(set).ranks;
  use.asks.assign(all_.size(), usual);
  use.submits.assign(all_.size(), false);
  for (int rank : use.members) use.submits[static_cast<size_t>(rank)] = true;
  use.salt = ++salt_ * 7;
  return use;
}

// At least so many, in the order of ranks.
Mix::Ranks Mix::some_ranks(const Ranks& of, size_t least) {
  Ranks some = of;
  random_.shuffle(&some);
  some.resize(static_cast<size_t>(
      random_.from(static_cast<int64_t>(least), static_cast<int64_t>(of.size()))));
  std::sort(some.begin(), some.end());
  return some;
}

void Mix::draw_uses(Round* round) {
  for (auto& [id, set] : sets_) {
    for (size_t name = 0; name < set.usual.size(); ++name) {
      if (random_.one_in(4)) continue;
      Ask& usual = set.usual[name];
      if (random_.one_in(8)) usual = any(set);
      Use use = a_use(id, usual);
      use.name = use.spoken = "tensor." + std::to_string(name);
      if (random_.one_in(7)) dissent(&use);
      if (random_.one_in(12)) usual = use.ask(use.members[0]);
      round->uses.push_back(std::move(use));
    }
    draw_unnamed(round, id);
  }
  for (Use& use : round->uses) {
    for (Ask& ask : use.asks) own_rows(&ask, use.members.size());
  }
}

// At most one of a kind: names go by the order of submission.
void Mix::draw_unnamed(Round* round, int set) {
  Ask ask;
  if (random_.one_in(3)) {
    ask.kind = Kind::kBarrier;
    round->uses.push_back(a_use(set, ask));
    round->uses.back().spoken = next_unnamed(set, name_of(ask.kind));
  }
  if (random_.one_in(5)) {
    ask = any(sets_.at(set));
    round->uses.push_back(a_use(set, ask));
    round->uses.back().spoken = next_unnamed(set, name_of(ask.kind));
  }
}

std::string Mix::next_unnamed(int set, const std::string& kind) {
  return unnamed(kind, joins_, unnamed_[{set, kind}]++);
}

// ---- joins --------------------------------------------------------------------------------------

void Mix::draw_joins(Round* round) {
  round->joins = true;
  Ranks early = some_ranks(all_, 1);
  if (early.size() == all_.size()) early.pop_back();
  for (int rank : all_) {
    Joining& joining = round->joining[static_cast<size_t>(rank)];
    joining = random_.one_in(2) ? Joining::kBeforeWaiting : Joining::kAfterWaiting;
  }
  for (int rank : early) round->joining[static_cast<size_t>(rank)] = Joining::kEarly;
  for (Use& use : round->uses) {
    for (int rank : early) {
      if (random_.one_in(2)) use.submits[static_cast<size_t>(rank)] = false;
    }
  }
  next_unnamed(0, "join");
  ++joins_;
  unnamed_.clear();
}

}  // namespace hvd::test
