// SPDX-License-Identifier: Apache-2.0
//
// The registry is a bitmap of atomics indexed by descriptor: adding, removing and the sweep in a
// forked child need no lock and no memory.
#include "libhvd/base/fd.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace hvd {
namespace {

constexpr int kMaxTracked = 1 << 16;  // descriptors above are owned, but not closed after a fork
std::atomic<uint64_t> tracked[kMaxTracked / 64];

void track(int fd, bool held) {
  if (fd < 0 || fd >= kMaxTracked) return;
  const uint64_t bit = uint64_t{1} << (fd % 64);
  if (held) {
    tracked[fd / 64].fetch_or(bit, std::memory_order_relaxed);
  } else {
    tracked[fd / 64].fetch_and(~bit, std::memory_order_relaxed);
  }
}

}  // namespace

Fd::Fd(int fd) : fd_(fd) { track(fd, true); }

void Fd::reset() {
  if (fd_ < 0) return;
  track(fd_, false);
  close(fd_);
  fd_ = -1;
}

void close_all_fds_after_fork() {
  for (int word = 0; word < kMaxTracked / 64; ++word) {
    uint64_t bits = tracked[word].exchange(0, std::memory_order_relaxed);
    for (; bits != 0; bits &= bits - 1) close(word * 64 + __builtin_ctzll(bits));
  }
}

}  // namespace hvd
