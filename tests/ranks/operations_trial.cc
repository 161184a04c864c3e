// SPDX-License-Identifier: Apache-2.0
//
// See operations_trial.h.
#include "tests/ranks/operations_trial.h"

#include <algorithm>
#include <utility>

namespace hvd::test {
namespace {

constexpr size_t kAlign = 64;
constexpr char kGuard = 0x5a;

std::string said() { return std::string("\"") + hvd_last_error() + "\""; }

// FNV-1a, of eight bytes at a time.
uint64_t number_of(const char* bytes, size_t n, uint64_t number) {
  for (size_t i = 0; i < n; i += 8) {
    uint64_t word = 0;
    memcpy(&word, bytes + i, std::min<size_t>(8, n - i));
    number = (number ^ word) * 0x100000001b3u;
    number ^= number >> 29;
  }
  return number;
}

}  // namespace

Buffer::Buffer(size_t bytes, int shift) : store_(bytes + 4 * kAlign, kGuard), bytes_(bytes) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(store_.data()) + kAlign;
  begin_ = kAlign + (kAlign - at % kAlign) + static_cast<size_t>(shift);
}

Buffer::Buffer(const std::vector<char>& content, int shift) : Buffer(content.size(), shift) {
  std::copy(content.begin(), content.end(), data());
}

bool Buffer::guards_are_whole() const {
  const auto whole = [](char c) { return c == kGuard; };
  return std::all_of(store_.begin(), store_.begin() + static_cast<ptrdiff_t>(begin_), whole) &&
         std::all_of(store_.begin() + static_cast<ptrdiff_t>(begin_ + bytes_), store_.end(), whole);
}

Trial::Trial(const Case& c, const Members& members, const Wire& wire, std::string name)
    : case_(c), members_(members), wire_(wire), name_(std::move(name)) {
  if (case_.root < 0) case_.root += members.size();
  if (case_.kind == Kind::kBarrier) return;
  shapes_.resize(case_.items.size());
  for (size_t i = 0; i < case_.items.size(); ++i) prepare(i);
}

void Trial::prepare(size_t item) {
  const Item& shape = case_.items[item];
  const int index = members_.index;
  const int size = members_.size();
  const Kind kind = case_.kind;
  const int64_t rows = rows_in(case_, shape, index, size);
  if (!shape.scalar) shapes_[item].push_back(rows);
  if (shape.width != 1) shapes_[item].push_back(shape.width);
  before_.push_back(input_of(case_, item, index, size));
  const std::vector<char>& input = before_.back();
  inputs_.push_back(std::make_unique<Buffer>(input, case_.shift));
  outputs_.push_back(nullptr);
  const bool has_output =
      kind == Kind::kAllreduce || kind == Kind::kBroadcast || kind == Kind::kReducescatter;
  if (has_output && !case_.in_place) {
    size_t bytes = input.size();
    if (kind == Kind::kReducescatter) {
      const Rows kept = rows_kept(rows, index, size);
      bytes = static_cast<size_t>((kept.end - kept.begin) * shape.width) *
              bytes_per_element(shape.type);
    }
    outputs_.back() = std::make_unique<Buffer>(bytes, case_.shift);
  }
  hvd_tensor tensor = {};
  tensor.data = input.empty() ? nullptr : inputs_.back()->data();
  // Nobody reads what others than the root have.
  if (kind == Kind::kBroadcast && !case_.in_place && index != case_.root) tensor.data = nullptr;
  tensor.shape = shapes_[item].empty() ? nullptr : shapes_[item].data();
  tensor.ndim = static_cast<int32_t>(shapes_[item].size());
  tensor.type = shape.type;
  tensors_.push_back(tensor);
  places_.push_back(case_.in_place               ? tensor.data
                    : outputs_.back() == nullptr ? nullptr
                                                 : outputs_.back()->data());
  if (kind != Kind::kAlltoall) return;
  for (int to = 0; to < size; ++to) splits_.push_back(rows_sent(case_, shape, index, to));
  received_.assign(static_cast<size_t>(size), -1);
}

int Trial::start(const char* name) {
  const int32_t count = static_cast<int32_t>(tensors_.size());
  const hvd_tensor* tensors = tensors_.data();
  void* const* places = places_.data();
  const int32_t set = members_.id;
  const Case& c = case_;
  switch (c.kind) {
    case Kind::kAllreduce:
      return c.grouped ? hvd_grouped_allreduce_async(name, count, tensors, places, c.op, c.prescale,
                                                     c.postscale, set, &handle_)
                       : hvd_allreduce_async(name, tensors, places[0], c.op, c.prescale,
                                             c.postscale, set, &handle_);
    case Kind::kReducescatter:
      return c.grouped ? hvd_grouped_reducescatter_async(name, count, tensors, places, c.op,
                                                         c.prescale, c.postscale, set, &handle_)
                       : hvd_reducescatter_async(name, tensors, places[0], c.op, c.prescale,
                                                 c.postscale, set, &handle_);
    case Kind::kAllgather:
      return c.grouped ? hvd_grouped_allgather_async(name, count, tensors, set, &handle_)
                       : hvd_allgather_async(name, tensors, set, &handle_);
    case Kind::kBroadcast:
      return hvd_broadcast_async(name, tensors, places[0],
                                 members_.ranks[static_cast<size_t>(c.root)], set, &handle_);
    case Kind::kAlltoall:
      return hvd_alltoall_async(name, tensors, c.null_splits ? nullptr : splits_.data(),
                                received_.data(), set, &handle_);
    case Kind::kBarrier:
      return hvd_barrier_async(set, &handle_);
  }
  return HVD_ERR_INVALID;
}

std::string Trial::submit() {
  if (start(name_.c_str()) != HVD_OK) return "was refused: " + said();
  // Shapes and splits are copied.
  for (std::vector<int64_t>& shape : shapes_) std::fill(shape.begin(), shape.end(), -7);
  std::fill(splits_.begin(), splits_.end(), -7);
  return "";
}

std::string Trial::finish(int64_t deadline_ms) {
  if (hvd_wait(handle_, deadline_ms) != HVD_OK) return "ended with " + said();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const std::string wrong = check(i);
    if (!wrong.empty()) return (case_.grouped ? "tensor " + std::to_string(i) + ": " : "") + wrong;
  }
  const bool has_result = case_.kind == Kind::kAllgather || case_.kind == Kind::kAlltoall;
  if (has_result && hvd_release(handle_) != HVD_OK) return "is not released: " + said();
  if (hvd_poll(handle_) != -1) return "has a handle that is still there";
  return "";
}

std::string Trial::check(size_t item) {
  const Item& shape = case_.items[item];
  const Expected want = expected_of(case_, item, members_.index, members_.size(), wire_);
  const size_t elements = static_cast<size_t>(want.rows * shape.width);
  const size_t bytes = elements * bytes_per_element(shape.type);
  const char* got = static_cast<const char*>(places_[item]);
  if (case_.kind == Kind::kAllgather || case_.kind == Kind::kAlltoall) {
    const std::string wrong = check_result(item, want, &got);
    if (!wrong.empty()) return wrong;
  }
  number_ = number_of(got, bytes, number_);
  const std::string wrong = wrong_with(shape.type, got, want);
  if (!wrong.empty()) return wrong;
  if (!inputs_[item]->guards_are_whole()) return "wrote beside its input";
  if (outputs_[item] != nullptr && !outputs_[item]->guards_are_whole()) {
    return "wrote beside its output";
  }
  const std::vector<char>& before = before_[item];
  if (!case_.in_place && !std::equal(before.begin(), before.end(), inputs_[item]->data())) {
    return "changed its input";
  }
  return "";
}

std::string Trial::check_result(size_t item, const Expected& want, const char** got) {
  const Item& shape = case_.items[item];
  hvd_tensor result = {};
  if (hvd_result(handle_, static_cast<int32_t>(item), &result) != HVD_OK) {
    return "has no result: " + said();
  }
  if (result.type != shape.type || result.device != HVD_HOST) return "has a result of another type";
  if (result.ndim != (shape.width == 1 ? 1 : 2) || result.shape[0] != want.rows ||
      (shape.width != 1 && result.shape[1] != shape.width)) {
    return "has a result of another shape: " + std::to_string(result.shape[0]) + " rows, not " +
           std::to_string(want.rows);
  }
  if (reinterpret_cast<uintptr_t>(result.data) % kAlign != 0) return "has an unaligned result";
  *got = static_cast<const char*>(result.data);
  for (size_t from = 0; from < received_.size(); ++from) {
    const int64_t rows = rows_sent(case_, shape, static_cast<int>(from), members_.index);
    if (received_[from] == rows) continue;
    return "received " + std::to_string(received_[from]) + " rows from member " +
           std::to_string(from) + ", not " + std::to_string(rows);
  }
  return "";
}

}  // namespace hvd::test
