// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/gpu/order.h"

#include <algorithm>
#include <iterator>

namespace fake_gpu {

int Order::add_stream() {
  streams_.emplace_back();
  return static_cast<int>(streams_.size()) - 1;
}

void Order::join(Clock& into, const Clock& clock) {
  if (into.size() < clock.size()) into.resize(clock.size());
  for (size_t i = 0; i < clock.size(); ++i) into[i] = std::max(into[i], clock[i]);
}

void Order::step(int stream) {
  Clock& clock = streams_[static_cast<size_t>(stream)];
  join(clock, host_);
  if (clock.size() <= static_cast<size_t>(stream)) clock.resize(static_cast<size_t>(stream) + 1);
  ++clock[static_cast<size_t>(stream)];
}

bool Order::knows(int stream, const Mark& mark) const {
  const Clock& clock = this->clock(stream);
  const auto other = static_cast<size_t>(mark.stream);
  return mark.stream == stream || (other < clock.size() && clock[other] >= mark.tick);
}

std::optional<Order::Race> Order::race(int stream, std::uintptr_t begin, const Piece& piece,
                                       bool writes) const {
  if (piece.written && !knows(stream, *piece.written)) {
    return Race{piece.written->stream, piece.written->what, true, begin};
  }
  if (!writes) return std::nullopt;
  for (const Mark& mark : piece.read) {
    if (!knows(stream, mark)) return Race{mark.stream, mark.what, false, begin};
  }
  return std::nullopt;
}

// Afterwards no piece lies across the address.
void Order::split(std::uintptr_t at) {
  auto found = pieces_.upper_bound(at);
  if (found == pieces_.begin()) return;
  --found;
  if (found->first == at || found->second.end <= at) return;
  Piece right = found->second;
  found->second.end = at;
  pieces_.emplace(at, std::move(right));
}

void Order::add_read(Piece& piece, const Mark& mark) {
  for (Mark& read : piece.read) {
    if (read.stream == mark.stream) {
      read = mark;
      return;
    }
  }
  piece.read.push_back(mark);
}

std::optional<Order::Race> Order::touch(int stream, const Access& access, const std::string& what) {
  if (access.bytes == 0) return std::nullopt;
  const std::uintptr_t end = access.begin + access.bytes;
  split(access.begin);
  split(end);
  std::optional<Race> first;
  const auto from = pieces_.lower_bound(access.begin);
  const auto to = pieces_.lower_bound(end);
  for (auto piece = from; piece != to && !first; ++piece) {
    first = race(stream, piece->first, piece->second, access.writes);
  }

  const Mark mark{stream, clock(stream)[static_cast<size_t>(stream)], what};
  if (access.writes) {
    pieces_.erase(from, to);
    pieces_.emplace(access.begin, Piece{end, mark, {}});
    return first;
  }
  std::uintptr_t at = access.begin;
  for (auto piece = from; piece != to; ++piece) {
    if (at < piece->first) pieces_.emplace(at, Piece{piece->first, {}, {mark}});
    add_read(piece->second, mark);
    at = piece->second.end;
  }
  if (at < end) pieces_.emplace(at, Piece{end, {}, {mark}});
  return first;
}

void Order::forget(std::uintptr_t begin, size_t bytes) {
  split(begin);
  split(begin + bytes);
  pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(begin + bytes));
}

}  // namespace fake_gpu
