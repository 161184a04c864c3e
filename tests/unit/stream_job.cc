// SPDX-License-Identifier: Apache-2.0
//
// See stream_job.h.
#include "tests/unit/stream_job.h"

#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/unit/thread_job.h"

namespace hvd::test {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);

bool copies(OpKind kind) {
  return kind == OpKind::kBroadcast || kind == OpKind::kAllgather || kind == OpKind::kAlltoall;
}

}  // namespace

// What a thread works with.
struct StreamJob::Rank {
  std::shared_ptr<char> memory;  // of its node
  std::unique_ptr<Channel> channel;
  std::unique_ptr<Stream> stream;
  // The bell: somebody rings, or the rank looks again.
  std::mutex mutex;
  std::condition_variable bell;
  uint64_t rings = 0;

  struct Tensor {
    Bytes input;
    Bytes output;
    Ragged ragged;
  };
  std::vector<std::vector<std::unique_ptr<Tensor>>> tensors;  // by item

  void ring() {
    std::lock_guard<std::mutex> lock(mutex);
    ++rings;
    bell.notify_one();
  }
};

StreamJob::StreamJob(const std::vector<int>& node_of_rank, Options options)
    : layout_(*layout_from_nodes(node_of_rank)), options_(options) {
  auto fabric = std::make_shared<FakeFabric>();
  for (int rank = 0; rank < layout_.size; ++rank) {
    ranks_.push_back(std::make_shared<Rank>());
    ranks_.back()->channel = layout_.nodes() > 1 ? fabric->channel(rank) : nullptr;
  }
  for (const auto& here : layout_.ranks) {
    const int n = static_cast<int>(here.size());
    const size_t bytes =
        (Stream::bytes(n, options.block_bytes, options.slots) + 4095) / 4096 * 4096;
    std::shared_ptr<char> memory(static_cast<char*>(aligned_alloc(4096, bytes)), free);
    memset(memory.get(), 0, bytes);
    std::vector<Rank*> local;
    for (int rank : here) local.push_back(ranks_[rank].get());
    for (int rank : here) {
      Rank& me = *ranks_[rank];
      me.memory = memory;
      me.stream = std::make_unique<Stream>(
          Geometry::of(layout_, rank, options.block_bytes, options.slots), memory.get(),
          me.channel.get(),
          [local] {
            for (Rank* rank : local) rank->ring();
          },
          [local](int local_rank) { local[local_rank]->ring(); });
    }
  }
  fabric_ = std::move(fabric);
}

void StreamJob::number_blocks() {
  for (Item& item : schedule_) {
    item.first_block = next_block_;
    if (is_exclusive(item.kind, item.op)) {
      next_block_ += kExclusiveBlocks;
      continue;
    }
    size_t elements = 0;
    for (size_t t = 0; t < item.tensors(); ++t) {
      elements += item.kind == OpKind::kReducescatter ? item.rows[0][t] * item.row_elements[t]
                                                      : item.elements[t];
    }
    const size_t each = options_.block_bytes / size_of(item.type);
    if (copies(item.kind)) {
      next_block_ +=
          (elements * size_of(item.type) + options_.block_bytes - 1) / options_.block_bytes;
    } else {
      next_block_ += (elements + each - 1) / each;
    }
  }
}

Batch StreamJob::batch_of(const Item& item, int rank, size_t number) {
  auto team = std::make_shared<const Team>(Team::of(layout_, rank, item.members));
  BatchOrder order;
  order.kind = item.kind;
  order.type = copies(item.kind) ? DataType::kUint8 : item.type;
  order.op = item.op;
  order.wire = item.wire;
  order.root = item.root;
  order.first_block = item.first_block;
  const size_t size = copies(item.kind) ? size_of(item.type) : 1;  // elements are bytes
  const bool joined = item.joined == rank;
  std::vector<Segment> segments;
  for (size_t t = 0; t < item.tensors(); ++t) {
    auto tensor = std::make_unique<Rank::Tensor>();
    Segment s;
    tensor->input = Bytes(t % 3);  // any alignment
    const Bytes input = input_of(item, team->index, t);
    tensor->input.insert(tensor->input.end(), input.begin(), input.end());
    s.input = joined ? nullptr : tensor->input.data() + t % 3;
    s.elements = elements_of(item, team->index, t) * size;
    s.before = item.before;
    s.after = item.after;
    s.cookie = number;
    if (item.kind == OpKind::kAllgather || item.kind == OpKind::kAlltoall) {
      Ragged& ragged = tensor->ragged;
      ragged.row_bytes = item.row_elements[t] * size;
      const auto& rows = item.rows[team->index];
      if (item.kind == OpKind::kAllgather) ragged.rows = static_cast<int64_t>(rows[t]);
      for (size_t to = 0; item.kind == OpKind::kAlltoall && to < item.members.size(); ++to) {
        ragged.send_rows.push_back(static_cast<int64_t>(rows[to * item.tensors() + t]));
      }
      s.ragged = &ragged;
    } else {
      if (item.kind == OpKind::kReducescatter) {
        s.rows = item.rows[0][t];
        const Range mine = rows_of(s.rows, team->size, team->index);
        s.keep = {mine.begin * item.row_elements[t], mine.end * item.row_elements[t]};
      }
      const size_t results = item.kind == OpKind::kReducescatter ? s.keep.size() : s.elements;
      tensor->output = Bytes(results * size_of(order.type) + 2, 'x');
      // Every other tensor in place, where that can be.
      if (!joined && item.kind != OpKind::kReducescatter && (t + item.first_block) % 2 == 0) {
        std::copy(input.begin(), input.end(), tensor->output.begin() + 1);
        s.input = tensor->output.data() + 1;
      }
      s.output = joined ? nullptr : tensor->output.data() + 1;
    }
    order.elements += s.elements;
    segments.push_back(s);
    ranks_[rank]->tensors[number].push_back(std::move(tensor));
  }
  const Geometry geometry = Geometry::of(layout_, rank, options_.block_bytes, options_.slots);
  const BatchPlan plan = plan_batch(geometry, *team, order);
  return Batch(std::move(team), plan, std::move(segments));
}

std::string StreamJob::run(std::vector<Item> schedule) {
  schedule_ = std::move(schedule);
  number_blocks();
  outputs_.assign(schedule_.size(), {});
  for (size_t i = 0; i < schedule_.size(); ++i) {
    outputs_[i].resize(schedule_[i].members.size(), std::vector<Bytes>(schedule_[i].tensors()));
  }
  for (auto& rank : ranks_) {
    rank->tensors.clear();
    rank->tensors.resize(schedule_.size());
  }
  Complaints complaints;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < layout_.size; ++rank) {
    threads.emplace_back([&, rank] {
      const std::string wrong = run_rank(rank);
      if (!wrong.empty()) complaints.add(rank, wrong);
    });
  }
  for (auto& thread : threads) thread.join();
  return complaints.all();
}

std::string StreamJob::run_rank(int rank) {
  Rank& me = *ranks_[rank];
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  size_t next = 0;
  int steps = 0;
  while (next < schedule_.size() || !me.stream->idle()) {
    // The schedule comes bit by bit.
    if (next < schedule_.size() && steps % 3 == 0) {
      const Item& item = schedule_[next];
      if (std::count(item.members.begin(), item.members.end(), rank) > 0) {
        me.stream->add(batch_of(item, rank, next));
      } else {
        const uint64_t end =
            next + 1 < schedule_.size() ? schedule_[next + 1].first_block : next_block_;
        me.stream->pass(std::make_shared<const Team>(Team::of(layout_, rank, item.members)),
                        item.first_block, end);
      }
      ++next;
    }
    if (++steps == options_.abandon_after) {
      me.stream->abandon();
      me.tensors.clear();  // as a user may
      me.tensors.resize(schedule_.size());
    }
    uint64_t rings = 0;
    {
      std::lock_guard<std::mutex> lock(me.mutex);
      rings = me.rings;
    }
    bool moved = false;
    const Status s = me.stream->step(&moved, [&](const Batch& batch) { collect(batch, rank); });
    if (!s.ok()) return s.text();
    if (moved || next < schedule_.size() || me.stream->idle()) continue;
    std::unique_lock<std::mutex> lock(me.mutex);
    const auto limit = me.stream->must_poll() || options_.abandon_after >= 0
                           ? std::chrono::steady_clock::now() + std::chrono::microseconds(100)
                           : deadline;
    me.bell.wait_until(lock, limit, [&] { return me.rings != rings; });
    if (std::chrono::steady_clock::now() > deadline) return "waits for ever";
  }
  return "";
}

void StreamJob::collect(const Batch& batch, int rank) {
  const size_t number = batch.segments()[0].cookie;
  const auto& tensors = ranks_[rank]->tensors[number];
  for (size_t t = 0; t < tensors.size(); ++t) {
    Bytes& to = outputs_[number][batch.team().index][t];
    const Rank::Tensor& from = *tensors[t];
    if (batch.segments()[t].ragged != nullptr) {
      const size_t bytes = static_cast<size_t>(from.ragged.total_rows) * from.ragged.row_bytes;
      to.assign(from.ragged.data.get(), from.ragged.data.get() + bytes);
    } else if (from.output.front() == 'x' && from.output.back() == 'x') {
      to.assign(from.output.begin() + 1, from.output.end() - 1);
    }
  }
}

const Bytes& StreamJob::output(size_t item, int member, size_t tensor) const {
  return outputs_[item][member][tensor];
}

std::string StreamJob::wrong_results() const {
  for (size_t i = 0; i < schedule_.size(); ++i) {
    const Item& item = schedule_[i];
    const bool exact = item.op != ReduceOp::kAdasum && item.wire == WireType::kOwn;
    int first = -1;  // with a result
    for (int member = 0; member < static_cast<int>(item.members.size()); ++member) {
      if (item.members[member] == item.joined) continue;
      if (first < 0) first = member;
      for (size_t t = 0; t < item.tensors(); ++t) {
        if (!exact && item.kind == OpKind::kReducescatter) continue;
        const Bytes want = exact ? result_of(item, layout_, member, t) : output(i, first, t);
        if (const Bytes& got = output(i, member, t); got != want) {
          const auto at = std::mismatch(got.begin(), got.end(), want.begin(), want.end()).first;
          return "item " + std::to_string(i) + ", " + item.text() + ": tensor " +
                 std::to_string(t) + " of " + std::to_string(want.size()) +
                 " bytes is wrong on member " + std::to_string(member) + " from byte " +
                 std::to_string(at - got.begin()) + " of " + std::to_string(got.size()) + " on";
        }
      }
    }
  }
  return "";
}

}  // namespace hvd::test
