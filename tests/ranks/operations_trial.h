// SPDX-License-Identifier: Apache-2.0
//
// One case of operations.cc on one rank: buffers with guarded ends, the call, and the comparison
// with the reference. Complains as text; whoever runs it says which case it was.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libhvd/hvd.h"
#include "tests/ranks/operations_reference.h"

namespace hvd::test {

// Bytes at a place that is `shift` bytes away from an aligned one, between guards.
class Buffer {
 public:
  Buffer(size_t bytes, int shift);
  explicit Buffer(const std::vector<char>& content, int shift);

  char* data() { return store_.data() + begin_; }
  const char* data() const { return store_.data() + begin_; }
  size_t size() const { return bytes_; }
  bool guards_are_whole() const;

 private:
  std::vector<char> store_;
  size_t begin_ = 0;
  size_t bytes_ = 0;
};

// A process set of the library, and this rank's place in it.
struct Members {
  int32_t id = HVD_GLOBAL;
  std::vector<int> ranks;
  int index = -1;

  int size() const { return static_cast<int>(ranks.size()); }
};

class Trial {
 public:
  // This rank is a member of the case's set.
  Trial(const Case& c, const Members& members, const Wire& wire, std::string name);

  std::string submit();
  // Waits and compares: "" or what is wrong.
  std::string finish(int64_t deadline_ms);
  // A number of the result's bits.
  uint64_t number() const { return number_; }

 private:
  void prepare(size_t item);
  int start(const char* name);
  std::string check(size_t item);
  std::string check_result(size_t item, const Expected& want, const char** got);

  Case case_;
  const Members& members_;
  const Wire wire_;
  const std::string name_;
  std::vector<std::vector<int64_t>> shapes_;
  std::vector<std::vector<char>> before_;
  std::vector<std::unique_ptr<Buffer>> inputs_;
  std::vector<std::unique_ptr<Buffer>> outputs_;  // null: in place, or the handle's
  std::vector<hvd_tensor> tensors_;
  std::vector<void*> places_;  // of outputs
  std::vector<int64_t> splits_;
  std::vector<int64_t> received_;
  hvd_handle handle_ = 0;
  uint64_t number_ = 0xcbf29ce484222325u;
};

}  // namespace hvd::test
