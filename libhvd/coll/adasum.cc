// SPDX-License-Identifier: Apache-2.0
//
// See adasum.h.
#include "libhvd/coll/adasum.h"

#include <string.h>

#include <algorithm>

namespace hvd {
namespace {

// Elements at a time. Dot products are summed piece by piece, so this is part of the result.
constexpr size_t kPieceElements = 32 << 10;

double coefficient(double dot, double norm) { return norm == 0 ? 1 : 1 - dot / (2 * norm); }

}  // namespace

std::vector<AdasumStep> plan_adasum(int size, int index) {
  using Kind = AdasumStep::Kind;
  std::vector<AdasumStep> steps = {{Kind::kTake}};
  const int power = largest_power_of_two(size);
  const int extra = index + power;
  if (index >= power) {
    steps.push_back({Kind::kGive, index - power});
    steps.push_back({Kind::kFetch, index - power});
    steps.push_back({Kind::kFinish});
    return steps;
  }
  if (extra < size) {
    steps.push_back({Kind::kMeet, extra});
    steps.push_back({Kind::kDot, extra, 0, true});
    steps.push_back({Kind::kCombine, extra, 0, true});
  }
  int depth = 0;
  for (int distance = 1; distance < power; distance *= 2) {
    const int peer = index ^ distance;
    const bool lower = index < peer;
    ++depth;
    steps.push_back({Kind::kMeet, peer, depth, lower});
    steps.push_back({Kind::kDot, peer, depth, lower});
    for (int d = 1; d <= distance; d *= 2) steps.push_back({Kind::kSumDots, index ^ d});
    steps.push_back({Kind::kCombine, peer, depth, lower});
  }
  for (int distance = power / 2; distance >= 1; distance /= 2, --depth) {
    steps.push_back({Kind::kSwap, index ^ distance, depth});
  }
  if (extra < size) steps.push_back({Kind::kGive, extra});
  steps.push_back({Kind::kFinish});
  return steps;
}

Range adasum_piece(size_t elements, int index, int depth) {
  Range piece = {0, elements};
  for (int level = 0; level < depth; ++level) {
    const size_t middle = piece.begin + piece.size() / 2;
    ((index >> level & 1) == 0 ? piece.end : piece.begin) = middle;
  }
  return piece;
}

Adasum::Adasum(Slots* slots, Channel* channel, const Batch& batch)
    : batch_(batch),
      type_(batch.plan().type),
      size_(size_of(type_)),
      index_(batch.team().index),
      mail_(slots, channel, &batch.team(), batch.plan().first_block),
      steps_(plan_adasum(batch.team().size, index_)),
      dots_(3 * batch.segments().size()),
      their_dots_(dots_.size()) {
  const int power = largest_power_of_two(batch.team().size);
  const bool whole = batch.team().size - power > index_ % power;  // a pair with one beyond
  size_t room = 0;
  for (const Segment& segment : batch.segments()) {
    char* data = segment.output;
    if (data == nullptr) {
      own_outputs_.emplace_back(new char[segment.elements * size_]);
      data = own_outputs_.back().get();
    }
    vectors_.push_back({data, segment.elements, room});
    room += (whole ? segment.elements : (segment.elements + 1) / 2) * size_;
  }
  if (batch.team().size > 1) inbox_.reset(new char[room]);
}

Expected<bool> Adasum::step(bool* moved) {
  if (Status s = mail_.step(moved); !s.ok()) return s;
  while (at_ < steps_.size()) {
    const AdasumStep& step = steps_[at_];
    if (!begun_) begin(step);
    begun_ = true;
    if (!arrived()) return false;
    *moved = true;
    // A sweep does not go on without a look at the rest of the world.
    if (!act(step)) return false;
    begun_ = false;
    ++at_;
  }
  return true;
}

void Adasum::begin(const AdasumStep& step) {
  using Kind = AdasumStep::Kind;
  const size_t bytes = dots_.size() * sizeof(double);
  switch (step.kind) {
    case Kind::kMeet:
      if (step.depth > 0) send_pieces(step.peer, step.peer, step.depth);
      receive_pieces(step.peer, index_, step.depth);
      break;
    case Kind::kSumDots:
      transfers_.push_back(mail_.send(step.peer, dots_.data(), bytes));
      transfers_.push_back(mail_.receive(step.peer, their_dots_.data(), bytes));
      break;
    case Kind::kGive:
      send_pieces(step.peer, index_, step.depth);
      break;
    case Kind::kFetch:
      receive_pieces(step.peer, step.peer, step.depth);
      break;
    case Kind::kSwap:
      send_pieces(step.peer, index_, step.depth);
      receive_pieces(step.peer, step.peer, step.depth);
      break;
    case Kind::kDot:
      std::fill(dots_.begin(), dots_.end(), 0);
      break;
    case Kind::kTake:
    case Kind::kCombine:
    case Kind::kFinish:
      break;
  }
}

bool Adasum::arrived() {
  transfers_.erase(std::remove_if(transfers_.begin(), transfers_.end(),
                                  [this](auto transfer) { return mail_.done(transfer); }),
                   transfers_.end());
  return transfers_.empty();
}

// What is to be done once everything has come; false: call again.
bool Adasum::act(const AdasumStep& step) {
  using Kind = AdasumStep::Kind;
  switch (step.kind) {
    case Kind::kTake:
      return sweep(index_, 0, [this](size_t t, size_t begin, size_t n) {
        const Segment& s = batch_.segments()[t];
        if (s.input == nullptr) {
          memset(mine(t, begin), 0, n * size_);
        } else {
          kernels().scale(type_, mine(t, begin), s.input + begin * size_, n, s.before);
        }
      });
    case Kind::kDot:
      return sweep(index_, step.depth, [this, &step](size_t t, size_t begin, size_t n) {
        const char* own = mine(t, begin);
        const char* other = theirs(t, begin, index_, step.depth);
        kernels().dot(type_, step.lower ? own : other, step.lower ? other : own, n, &dots_[3 * t]);
      });
    case Kind::kSumDots:
      for (size_t i = 0; i < dots_.size(); ++i) dots_[i] += their_dots_[i];
      return true;
    case Kind::kCombine:
      return combine(step);
    case Kind::kFetch:
    case Kind::kSwap:
      return sweep(step.peer, step.depth, [this, &step](size_t t, size_t begin, size_t n) {
        memcpy(mine(t, begin), theirs(t, begin, step.peer, step.depth), n * size_);
      });
    case Kind::kFinish:
      return sweep(index_, 0, [this](size_t t, size_t begin, size_t n) {
        const Segment& s = batch_.segments()[t];
        if (!s.after.identity()) {
          kernels().scale(type_, mine(t, begin), mine(t, begin), n, s.after);
        }
      });
    case Kind::kMeet:
    case Kind::kGive:
      return true;
  }
  return true;
}

bool Adasum::combine(const AdasumStep& step) {
  return sweep(index_, step.depth, [this, &step](size_t t, size_t begin, size_t n) {
    const double* dots = &dots_[3 * t];
    char* own = mine(t, begin);
    const char* other = theirs(t, begin, index_, step.depth);
    kernels().combine(type_, own, coefficient(dots[0], dots[1]), step.lower ? own : other,
                      coefficient(dots[0], dots[2]), step.lower ? other : own, n);
  });
}

// Calls fn for the next of the pieces that member `index` has at this depth, about kPieceElements
// in all. True once all are done.
bool Adasum::sweep(int index, int depth, const Sweep& fn) {
  size_t budget = kPieceElements;
  while (sweep_tensor_ < vectors_.size()) {
    const Range piece = adasum_piece(vectors_[sweep_tensor_].elements, index, depth);
    const size_t n = std::min(piece.size() - sweep_at_, kPieceElements);
    if (n > 0) {
      if (budget == 0) return false;
      fn(sweep_tensor_, piece.begin + sweep_at_, n);
    }
    budget -= std::min(budget, n);
    sweep_at_ += n;
    if (sweep_at_ < piece.size()) continue;
    sweep_at_ = 0;
    ++sweep_tensor_;
  }
  sweep_tensor_ = 0;
  return true;
}

void Adasum::send_pieces(int peer, int index, int depth) {
  for (size_t t = 0; t < vectors_.size(); ++t) {
    const Range piece = adasum_piece(vectors_[t].elements, index, depth);
    transfers_.push_back(mail_.send(peer, mine(t, piece.begin), piece.size() * size_));
  }
}

void Adasum::receive_pieces(int peer, int index, int depth) {
  for (size_t t = 0; t < vectors_.size(); ++t) {
    const Range piece = adasum_piece(vectors_[t].elements, index, depth);
    char* to = inbox_.get() + vectors_[t].inbox;
    transfers_.push_back(mail_.receive(peer, to, piece.size() * size_));
  }
}

char* Adasum::mine(size_t tensor, size_t element) const {
  return vectors_[tensor].data + element * size_;
}

// In the piece of member `index` at this depth, which came in.
char* Adasum::theirs(size_t tensor, size_t element, int index, int depth) const {
  const Range piece = adasum_piece(vectors_[tensor].elements, index, depth);
  return inbox_.get() + vectors_[tensor].inbox + (element - piece.begin) * size_;
}

}  // namespace hvd
