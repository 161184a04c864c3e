// SPDX-License-Identifier: Apache-2.0
//
// Adasum (arXiv:2006.02924): two vectors make
//
//   (1 - a.b / (2 a.a)) a + (1 - a.b / (2 b.b)) b
//
// which is their sum where they are orthogonal and their mean where they are the same. More members
// are a binary tree over their indices: at level l = 0, 1, ... the groups of 2^l members make one
// vector of their two, by recursive halving: the members of a pair give each other half of what
// they have left, the upper one the lower half; each makes its piece of both, with dot products
// that are summed over all pieces of the merged group. Then the pieces are gathered the same way
// back. Members beyond the largest power of two are taken in by the first ones before, and get the
// result afterwards.
//
// Dot products are per tensor, in double precision, over pieces of that tensor and in one fixed
// order: the result is the same on all members, whatever else is in the batch.
//
// The user's output is the workspace; beside it there is room for what comes in, half of the
// tensors for a power of two members, else all of them. Each member sends and receives about twice
// the tensors, in 2 log2 n exchanges, and log2^2 n short messages with dot products.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "libhvd/coll/exchange.h"
#include "libhvd/coll/mail.h"

namespace hvd {

// What one member does, in order. Pure.
struct AdasumStep {
  enum class Kind : uint8_t {
    kTake,     // the input, scaled
    kMeet,     // send the peer's part of my piece, receive my part of its one
    kDot,      // of my piece and the one that came in
    kSumDots,  // exchange dot products with the peer and add them
    kCombine,  // my piece and the one that came in
    kGive,     // send my piece
    kFetch,    // receive a piece from the peer, to its place
    kSwap,     // kGive and kFetch at once
    kFinish,   // scale the result
  };
  Kind kind = Kind::kTake;
  int peer = -1;
  int depth = 0;       // pieces are the whole, halved so many times
  bool lower = false;  // I am the lower of the two
};
std::vector<AdasumStep> plan_adasum(int size, int index);

// The piece of a tensor that member `index` has after so many halvings.
Range adasum_piece(size_t elements, int index, int depth);

class Adasum final : public Exchange {
 public:
  Adasum(Slots* slots, Channel* channel, const Batch& batch);

  Expected<bool> step(bool* moved) override;

 private:
  // A tensor: where its vector is, and where the piece that comes in is put.
  struct Vector {
    char* data = nullptr;
    size_t elements = 0;
    size_t inbox = 0;  // place in it, in bytes
  };
  using Sweep = std::function<void(size_t tensor, size_t begin, size_t n)>;

  bool act(const AdasumStep& step);
  void begin(const AdasumStep& step);
  bool arrived();
  bool sweep(int index, int depth, const Sweep& fn);
  void send_pieces(int peer, int index, int depth);
  void receive_pieces(int peer, int index, int depth);
  bool combine(const AdasumStep& step);
  char* mine(size_t tensor, size_t element) const;
  char* theirs(size_t tensor, size_t element, int index, int depth) const;

  const Batch& batch_;
  const DataType type_;
  const size_t size_;  // of an element
  const int index_;
  Mail mail_;
  std::vector<AdasumStep> steps_;
  size_t at_ = 0;
  bool begun_ = false;

  std::vector<Vector> vectors_;  // by tensor
  std::vector<std::unique_ptr<char[]>> own_outputs_;
  std::unique_ptr<char[]> inbox_;
  std::vector<Mail::Transfer> transfers_;
  // By tensor three: of the lower one's vector and the upper one's, lower with lower, upper with
  // upper.
  std::vector<double> dots_;
  std::vector<double> their_dots_;
  // How far a sweep over all tensors is.
  size_t sweep_tensor_ = 0;
  size_t sweep_at_ = 0;
};

}  // namespace hvd
