// SPDX-License-Identifier: Apache-2.0
//
// See gather.h.
#include "libhvd/coll/gather.h"

#include <algorithm>
#include <numeric>

namespace hvd {
namespace {

using Flags = Slots::Flags;

// A shard is worth a message of its own from this size on.
constexpr size_t kMinShardBytes = 8 << 10;

size_t round_up(size_t n, size_t align) { return (n + align - 1) / align * align; }

}  // namespace

Range GatherPlan::part_of(int member, uint64_t round) const {
  const size_t end = bytes[member];
  const size_t chunk = chunks[member];
  if (chunk == 0 || round >= (end + chunk - 1) / chunk) return {end, end};
  return {round * chunk, std::min<size_t>(end, (round + 1) * chunk)};
}

GatherPlan plan_gather(const Team& team, std::vector<size_t> bytes, size_t block_bytes) {
  GatherPlan plan;
  plan.bytes = std::move(bytes);
  const size_t n = plan.bytes.size();
  // Chunks begin at whole cache lines, unless that would cost more than half of the block.
  size_t align = 64;
  while (align > 1 && n * align > block_bytes / 2) align /= 2;
  plan.possible = n * align <= block_bytes / 2;
  if (!plan.possible) return plan;
  const size_t total = std::accumulate(plan.bytes.begin(), plan.bytes.end(), size_t{0});
  const size_t room = block_bytes - n * align;
  plan.rounds = (total + room - 1) / room;
  const size_t rounds = std::max<size_t>(1, plan.rounds);
  plan.shards = static_cast<int>(
      std::clamp<size_t>(total / rounds / kMinShardBytes, 1, static_cast<size_t>(team.max_shards)));
  for (size_t b : plan.bytes) plan.chunks.push_back(round_up((b + rounds - 1) / rounds, align));
  plan.places.resize(n);
  size_t at = 0;
  for (int shard = 0; shard < plan.shards; ++shard) {
    for (const auto& members : team.members_by_node) {
      plan.regions.push_back(at);
      for (size_t place = static_cast<size_t>(shard); place < members.size();
           place += static_cast<size_t>(plan.shards)) {
        plan.places[members[place]] = at;
        at += plan.chunks[members[place]];
      }
    }
  }
  plan.regions.push_back(at);
  return plan;
}

std::vector<SpreadStep> plan_spread(int nodes, int node) {
  std::vector<SpreadStep> steps;
  for (int distance = 1; distance < nodes; distance *= 2) {
    SpreadStep step;
    step.to = (node - distance + nodes) % nodes;
    step.give = node;
    step.from = step.take = (node + distance) % nodes;
    step.count = std::min(distance, nodes - distance);
    steps.push_back(step);
  }
  return steps;
}

std::vector<Range> regions_of(const GatherPlan& plan, int nodes, int shard, int first, int count) {
  const size_t* region = plan.regions.data() + static_cast<size_t>(shard * nodes);
  std::vector<Range> ranges = {{region[first], region[std::min(nodes, first + count)]}};
  if (first + count > nodes) ranges.push_back({region[0], region[first + count - nodes]});
  return ranges;
}

Gather::Gather(Slots* slots, Channel* channel, const Team* team, uint64_t batch_block,
               uint64_t first_block, GatherPlan plan, Ends* ends)
    : slots_(slots),
      channel_(channel),
      team_(team),
      batch_block_(batch_block),
      first_block_(first_block),
      plan_(std::move(plan)),
      ends_(ends),
      spreads_(static_cast<size_t>(slots->geometry().slots)) {
  if (owner()) steps_ = plan_spread(team->nodes, team->node);
}

Expected<bool> Gather::step(bool* moved) {
  if (read_one()) *moved = true;
  if (Status s = spread_some(moved); !s.ok()) return s;
  if (start_spread()) *moved = true;
  if (write_one()) *moved = true;
  return read_ == plan_.rounds;
}

bool Gather::write_one() {
  if (written_ == plan_.rounds) return false;
  const uint64_t b = block(written_);
  const uint64_t slots = spreads_.size();
  if (b >= batch_block_ + slots && !slots_->all(&Flags::done, b + 1 - slots, *team_)) return false;
  const Range part = plan_.part_of(team_->index, written_);
  if (part.size() > 0) ends_->read(part, slots_->result(b) + plan_.places[team_->index]);
  slots_->post(&Flags::packed, b + 1, *team_, team_->local_size());
  ++written_;
  return true;
}

bool Gather::start_spread() {
  if (started_ == written_) return false;
  if (owner()) {
    if (!slots_->all(&Flags::packed, block(started_) + 1, *team_)) return false;
    spreads_[started_ % spreads_.size()] = Spread();
  }
  ++started_;
  return true;
}

Status Gather::spread_some(bool* moved) {
  if (!owner()) {
    spread_ = started_;
    return ok_status();
  }
  for (uint64_t round = spread_; round < started_; ++round) {
    Expected<bool> done = advance(round, moved);
    if (!done.ok()) return done.status();
    if (!*done || round != spread_) continue;
    slots_->post(&Flags::reduced, block(round) + 1, *team_, plan_.shards);
    ++spread_;
    *moved = true;
  }
  return ok_status();
}

Expected<bool> Gather::advance(uint64_t round, bool* moved) {
  Spread& spread = spreads_[round % spreads_.size()];
  while (spread.step < steps_.size()) {
    if (!spread.begun) {
      if (Status s = begin(round, &spread); !s.ok()) return s;
      spread.begun = true;
      *moved = true;
    }
    auto& requests = spread.requests;
    requests.erase(std::remove_if(requests.begin(), requests.end(),
                                  [this](auto request) { return channel_->done(request); }),
                   requests.end());
    if (!requests.empty()) return false;
    spread.begun = false;
    ++spread.step;
  }
  return true;
}

Status Gather::begin(uint64_t round, Spread* spread) {
  const SpreadStep& step = steps_[spread->step];
  const int shard = team_->local_index;
  const int tag = cross_tag(block(round), CrossStep::Kind::kSpread);
  char* slot = slots_->result(block(round));
  for (Range r : regions_of(plan_, team_->nodes, shard, step.take, step.count)) {
    if (r.size() == 0) continue;
    Expected<Channel::Request> request =
        channel_->receive(team_->ranks_by_node[step.from][shard], tag, slot + r.begin, r.size());
    if (!request.ok()) return request.status();
    spread->requests.push_back(*request);
  }
  for (Range r : regions_of(plan_, team_->nodes, shard, step.give, step.count)) {
    if (r.size() == 0) continue;
    Expected<Channel::Request> request =
        channel_->send(team_->ranks_by_node[step.to][shard], tag, slot + r.begin, r.size());
    if (!request.ok()) return request.status();
    spread->requests.push_back(*request);
  }
  return ok_status();
}

bool Gather::read_one() {
  if (read_ == written_) return false;
  const uint64_t b = block(read_);
  const bool ready = team_->nodes > 1 ? slots_->all(&Flags::reduced, b + 1, *team_, plan_.shards)
                                      : slots_->all(&Flags::packed, b + 1, *team_);
  if (!ready) return false;
  // The stages of those who own no shard follow without work.
  for (int member = 0; member < team_->size; ++member) {
    const Range part = plan_.part_of(member, read_);
    if (part.size() > 0) ends_->write(member, part, slots_->result(b) + plan_.places[member]);
  }
  slots_->post(&Flags::done, b + 1, *team_, team_->local_size());
  ++read_;
  return true;
}

}  // namespace hvd
