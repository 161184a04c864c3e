// SPDX-License-Identifier: Apache-2.0
//
// A ring of messages in shared memory: one writer, one or several readers, no locks. The writer
// publishes with one counter, each reader with its own; counters are bytes since the beginning and
// never wrap. Readers see every message, in order.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace hvd {

class ByteRing {
 public:
  ByteRing() = default;
  // `capacity` is a power of two; `data` has so many bytes. `written` is the writer's counter.
  ByteRing(std::atomic<uint64_t>* written, char* data, size_t capacity)
      : written_(written), data_(data), capacity_(capacity) {}

  // Writer: false if there is no room while a reader is still at `slowest`.
  bool push(std::string_view message, uint64_t slowest) {
    const uint64_t at = written_->load(std::memory_order_relaxed);
    const uint64_t need = sizeof(uint32_t) + message.size();
    if (at + need - slowest > capacity_) return false;
    const uint32_t length = static_cast<uint32_t>(message.size());
    copy_in(at, &length, sizeof length);
    copy_in(at + sizeof length, message.data(), message.size());
    written_->store(at + need, std::memory_order_seq_cst);
    return true;
  }

  // Reader at `*position`: the next message, if there is one; moves the position past it. False
  // also if what is there cannot be a message (then *broken is true): another process wrote it.
  bool pop(uint64_t* position, std::string* message, bool* broken) const {
    const uint64_t end = written_->load(std::memory_order_seq_cst);
    if (end == *position) return false;
    uint32_t length = 0;
    if (end - *position >= sizeof length) copy_out(*position, &length, sizeof length);
    if (end - *position > capacity_ || end - *position < sizeof length + length) {
      *broken = true;
      return false;
    }
    message->resize(length);
    copy_out(*position + sizeof length, message->data(), length);
    *position += sizeof length + length;
    return true;
  }

  bool empty(uint64_t position) const {
    return written_->load(std::memory_order_seq_cst) == position;
  }
  size_t capacity() const { return capacity_; }

 private:
  void copy_in(uint64_t at, const void* from, size_t n) {
    const size_t offset = at & (capacity_ - 1);
    const size_t first = n < capacity_ - offset ? n : capacity_ - offset;
    memcpy(data_ + offset, from, first);
    memcpy(data_, static_cast<const char*>(from) + first, n - first);
  }
  void copy_out(uint64_t at, void* to, size_t n) const {
    const size_t offset = at & (capacity_ - 1);
    const size_t first = n < capacity_ - offset ? n : capacity_ - offset;
    memcpy(to, data_ + offset, first);
    memcpy(static_cast<char*>(to) + first, data_, n - first);
  }

  std::atomic<uint64_t>* written_ = nullptr;
  char* data_ = nullptr;
  size_t capacity_ = 0;
};

}  // namespace hvd
