// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the timeline and of its file share: readers of a trace, and an operation's
// story.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "libhvd/base/json.h"
#include "libhvd/trace/timeline.h"
#include "tests/unit/folder.h"

namespace hvd::test {

bool has_leases(const Folder& folder);

// As a copying program reads, `piece` bytes at a time.
std::string copied(const std::string& path, size_t piece = 128 << 10);

// Nothing if it is no JSON, or says nothing.
std::optional<Json> parsed(const std::string& text);

// The events of a file, as "ph name pid/tid" and their arguments; not those about names.
std::vector<std::string> events_of(const std::string& path);

// Of process 1, 2, ...
std::vector<std::string> names_in(const std::string& path);

class Warnings {
 public:
  Timeline::Warn taker() {
    return [this](const std::string& text) {
      std::lock_guard<std::mutex> lock(mutex_);
      texts_.push_back(text);
    };
  }
  std::vector<std::string> texts() {
    std::lock_guard<std::mutex> lock(mutex_);
    return texts_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> texts_;
};

// An allreduce from submit to end.
void tell_operation(Timeline* timeline, const std::string& tensor);

}  // namespace hvd::test
