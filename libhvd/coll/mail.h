// SPDX-License-Identifier: Apache-2.0
//
// Bytes from one member to another while an exclusive batch runs, whoever the two are. Between a
// pair of members transfers arrive in the order in which both start them, and both know how long
// each is; nothing else needs to be agreed on.
//
// Between nodes a transfer is messages of at most 4 MiB, a few under way at a time. On a node it
// goes through a box: a ring in the sender's own slots, one for each other member there, with a
// count of bytes written and one of bytes read. A box is empty when its owner has posted the first
// block of the batch as packed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libhvd/coll/slots.h"
#include "libhvd/transport/channel.h"

namespace hvd {

class Mail {
 public:
  // Empties the own boxes and says so. `channel` may be null on one node.
  Mail(Slots* slots, Channel* channel, const Team* team, uint64_t first_block);

  using Transfer = int;
  // Starts to move bytes to or from another member. The memory must stay until it is done. Nothing
  // moves yet.
  Transfer send(int member, const void* data, size_t bytes);
  Transfer receive(int member, void* data, size_t bytes);
  // True once it is done; the number is then free for another.
  bool done(Transfer transfer);

  // Moves about a block's worth.
  Status step(bool* moved);

 private:
  struct Item {
    char* data = nullptr;
    size_t bytes = 0;
    size_t at = 0;   // so many are moved, or on their way in messages
    int flying = 0;  // messages under way
    int next = -1;   // in its lane
  };
  // What a member and this one have to move in one direction, in order.
  struct Lane {
    int first = -1;
    int last = -1;
    int flying = 0;
    bool active = false;
  };
  struct Message {
    Channel::Request request;
    int item;
    int lane;
  };
  struct Box;

  Transfer start(int lane, char* data, size_t bytes);
  bool local(int member) const { return team_->node_of[member] == team_->node; }
  Box* box(int from, int to) const;
  void land(bool* moved);
  Status fly(int lane, bool* moved);
  Status post(int lane, Item* item, int number);
  template <typename Copy>
  uint64_t pass(Lane* lane, uint64_t from, uint64_t end, size_t* budget, Copy copy);
  void put(int lane, size_t* budget, bool* moved);
  void take(int lane, size_t* budget, bool* moved);
  void drop_moved(Lane* lane);

  Slots* slots_;
  Channel* channel_;
  const Team* team_;
  const uint64_t first_block_;
  const int tag_;
  size_t box_bytes_ = 0;  // that a ring holds
  bool open_ = false;     // all members of the node have emptied their boxes
  std::vector<Item> items_;
  std::vector<int> free_;
  std::vector<Lane> lanes_;        // by 2 * member, + 1 to receive
  std::vector<int> active_;        // lanes with items
  std::vector<Message> messages_;  // under way
  size_t turn_ = 0;                // of the lanes, so that none is always last
};

}  // namespace hvd
