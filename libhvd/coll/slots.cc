// SPDX-License-Identifier: Apache-2.0
//
// See slots.h.
#include "libhvd/coll/slots.h"

#include <algorithm>

namespace hvd {
namespace {

size_t page_align(size_t n) { return (n + 4095) / 4096 * 4096; }

}  // namespace

size_t Slots::bytes(int local_size, size_t block_bytes, int slots) {
  const size_t n = static_cast<size_t>(local_size);
  return page_align(n * sizeof(Flags)) + (n + 1) * static_cast<size_t>(slots) * block_bytes;
}

Slots::Slots(const Geometry& geometry, char* base, std::function<void()> rouse,
             std::function<void(int)> wake)
    : geometry_(geometry),
      flags_(reinterpret_cast<Flags*>(base)),
      slots_(base + page_align(static_cast<size_t>(geometry.local_size) * sizeof(Flags))),
      rouse_(std::move(rouse)),
      wake_(wake ? std::move(wake) : [this](int) { rouse_(); }) {}

bool Slots::all(Counter counter, uint64_t at_least, const Team& team, int count) const {
  for (int i = 0; i < count; ++i) {
    if (!one(counter, at_least, team.local_ranks[i])) return false;
  }
  return true;
}

void Slots::post(Counter counter, uint64_t value, const Team& team, int count) {
  (flags_[geometry_.local_rank].*counter).store(value, std::memory_order_seq_cst);
  // Members wait for each other; for what is done others wait too, who want the slot.
  const bool waited_for = (counter == &Flags::done ? geometry_.local_size : team.local_size()) > 1;
  if (waited_for && all(counter, value, team, count)) rouse_();
}

void Slots::announce(Counter counter, uint64_t value) {
  (flags_[geometry_.local_rank].*counter).store(value, std::memory_order_seq_cst);
  rouse_();
}

char* Slots::slot(int local_rank, uint64_t block) const {
  const uint64_t slots = static_cast<uint64_t>(geometry_.slots);
  return slots_ +
         (static_cast<uint64_t>(local_rank) * slots + block % slots) * geometry_.block_bytes;
}

std::vector<SlotUse> SlotUses::before(uint64_t first_block, uint64_t end_block) const {
  const uint64_t count = std::min<uint64_t>(last_.size(), end_block - first_block);
  std::vector<SlotUse> uses;
  uses.reserve(count);
  for (uint64_t i = 0; i < count; ++i) uses.push_back(last_[(first_block + i) % last_.size()]);
  return uses;
}

void SlotUses::note(const std::shared_ptr<const Team>& team, uint64_t first_block,
                    uint64_t end_block) {
  if (team->local_ranks.empty()) return;
  const uint64_t count = std::min<uint64_t>(last_.size(), end_block - first_block);
  for (uint64_t block = end_block - count; block < end_block; ++block) {
    last_[block % last_.size()] = {team, block + 1};
  }
}

}  // namespace hvd
