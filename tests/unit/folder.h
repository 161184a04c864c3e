// SPDX-License-Identifier: Apache-2.0
//
// A directory for one test that goes with all that is in it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace hvd::test {

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/hvd-unit-XXXXXX";
    path_ = mkdtemp(name) != nullptr ? name : "/nowhere";
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const char* name = "t.json") const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace hvd::test
