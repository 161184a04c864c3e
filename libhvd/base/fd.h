// SPDX-License-Identifier: Apache-2.0
//
// An owned file descriptor, and the list of all the descriptors the library holds, so that the
// child of a fork can close them (a child that holds a socket hides its parent's death).
#pragma once

#include <utility>

namespace hvd {

// Owns a descriptor: closes it when it goes, moves, never copies. Every descriptor that the
// library opens is held by one of these, and is opened close-on-exec.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd);
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

// Closes every descriptor held by an Fd in this process. Only for the child after fork(2):
// async-signal-safe, takes no lock; the Fd objects are left as they are and must not be used.
void close_all_fds_after_fork();

}  // namespace hvd
