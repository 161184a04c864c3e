// SPDX-License-Identifier: Apache-2.0
//
// See allgather.h.
#include "libhvd/coll/allgather.h"

#include <string.h>

#include <algorithm>

namespace hvd {

// Every member's numbers of rows, by tensor.
class Allgather::Sizes final : public Gather::Ends {
 public:
  Sizes(const Batch& batch, std::vector<int64_t>* rows) : rows_(rows) {
    for (const Segment& segment : batch.segments()) mine_.push_back(segment.ragged->rows);
  }
  void read(Range mine, char* to) override {
    memcpy(to, reinterpret_cast<const char*>(mine_.data()) + mine.begin, mine.size());
  }
  void write(int member, Range range, const char* from) override {
    char* row = reinterpret_cast<char*>(rows_->data() + static_cast<size_t>(member) * mine_.size());
    memcpy(row + range.begin, from, range.size());
  }

 private:
  std::vector<int64_t> mine_;
  std::vector<int64_t>* rows_;
};

// Every member's rows.
class Allgather::Rows final : public Gather::Ends {
 public:
  Rows(const Batch& batch, const std::vector<int64_t>& rows) : batch_(batch) {
    const size_t tensors = batch.segments().size();
    std::vector<size_t> filled(tensors, 0);  // of each result, by the members before
    for (int member = 0; member < batch.team().size; ++member) {
      size_t at = 0;
      for (size_t t = 0; t < tensors; ++t) {
        const size_t bytes = static_cast<size_t>(rows[static_cast<size_t>(member) * tensors + t]) *
                             batch.segments()[t].ragged->row_bytes;
        begins_.push_back(at);
        places_.push_back(filled[t]);
        at += bytes;
        filled[t] += bytes;
      }
      begins_.push_back(at);
      places_.push_back(0);
    }
  }
  void read(Range mine, char* to) override {
    for_each_run(batch_.team().index, mine, [&](const Segment& s, size_t within, size_t, size_t n) {
      memcpy(to, s.input + within, n);
      to += n;
    });
  }
  void write(int member, Range range, const char* from) override {
    for_each_run(member, range, [&](const Segment& s, size_t within, size_t place, size_t n) {
      memcpy(s.ragged->data.get() + place + within, from, n);
      from += n;
    });
  }
  size_t bytes_of(int member) const { return begins_[row(member) + batch_.segments().size()]; }

 private:
  size_t row(int member) const {
    return static_cast<size_t>(member) * (batch_.segments().size() + 1);
  }
  // Calls fn(segment, first byte within the member's rows of it, where those begin in the result,
  // bytes) for each tensor that the range touches.
  template <typename Fn>
  void for_each_run(int member, Range range, Fn fn) const {
    const auto first = begins_.begin() + static_cast<long>(row(member));
    const auto last = first + static_cast<long>(batch_.segments().size());
    size_t t = static_cast<size_t>(std::upper_bound(first, last, range.begin) - first) - 1;
    for (size_t at = range.begin; at < range.end; ++t) {
      const size_t n = std::min(first[t + 1], range.end) - at;
      if (n == 0) continue;
      fn(batch_.segments()[t], at - first[t], places_[row(member) + t], n);
      at += n;
    }
  }

  const Batch& batch_;
  // By member, tensors + 1 each: where the tensor begins in the member's bytes, and where the
  // member's rows begin in the tensor's result.
  std::vector<size_t> begins_;
  std::vector<size_t> places_;
};

Allgather::Allgather(Slots* slots, Channel* channel, const Batch& batch)
    : slots_(slots),
      channel_(channel),
      batch_(batch),
      rows_(static_cast<size_t>(batch.team().size) * batch.segments().size()),
      end_block_(batch.plan().first_block) {}

Expected<bool> Allgather::step(bool* moved) {
  if (gather_ == nullptr) {
    const size_t each = batch_.segments().size() * sizeof(int64_t);
    if (Status s = start(end_block_, std::vector<size_t>(batch_.team().ranks.size(), each),
                         std::make_unique<Sizes>(batch_, &rows_));
        !s.ok()) {
      return s;
    }
  }
  Expected<bool> done = gather_->step(moved);
  if (!done.ok() || !*done || sizes_known_) return done;
  sizes_known_ = true;
  *moved = true;
  if (Status s = start_rows(); !s.ok()) return s;
  return false;
}

Status Allgather::start(uint64_t first_block, std::vector<size_t> bytes,
                        std::unique_ptr<Gather::Ends> ends) {
  const size_t block_bytes = slots_->geometry().block_bytes;
  GatherPlan plan = plan_gather(batch_.team(), std::move(bytes), block_bytes);
  if (!plan.possible) {
    return error(Code::kInvalid,
                 "an allgather of %d ranks needs blocks of %d bytes at least, and they have %zu. "
                 "Set HOROVOD_BLOCK_SIZE",
                 batch_.team().size, 2 * batch_.team().size, block_bytes);
  }
  end_block_ = first_block + plan.rounds;
  ends_ = std::move(ends);
  gather_ = std::make_unique<Gather>(slots_, channel_, &batch_.team(), batch_.plan().first_block,
                                     first_block, std::move(plan), ends_.get());
  return ok_status();
}

Status Allgather::start_rows() {
  const size_t tensors = batch_.segments().size();
  const size_t members = batch_.team().ranks.size();
  for (size_t t = 0; t < tensors; ++t) {
    Ragged* ragged = batch_.segments()[t].ragged;
    ragged->total_rows = 0;
    ragged->rows_from.clear();
    for (size_t member = 0; member < members; ++member) {
      ragged->rows_from.push_back(rows_[member * tensors + t]);
      ragged->total_rows += ragged->rows_from.back();
    }
    ragged->data.allocate(static_cast<size_t>(ragged->total_rows) * ragged->row_bytes);
  }
  auto rows = std::make_unique<Rows>(batch_, rows_);
  std::vector<size_t> bytes;
  for (size_t member = 0; member < members; ++member) {
    bytes.push_back(rows->bytes_of(static_cast<int>(member)));
  }
  return start(end_block_, std::move(bytes), std::move(rows));
}

}  // namespace hvd
