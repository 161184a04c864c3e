// SPDX-License-Identifier: Apache-2.0
//
// An input as variables, so that a corpus can be read and written by hand: a line "NAME=VALUE" for
// each, a name that comes twice has both values as lines. Of the fuzz targets alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "libhvd/base/parse.h"
#include "libhvd/base/settings.h"

namespace hvd::test {

class Lines {
 public:
  Lines(const uint8_t* data, size_t size) {
    for (const std::string_view line : split({reinterpret_cast<const char*>(data), size}, '\n')) {
      const size_t equals = line.find('=');
      if (equals == std::string_view::npos) continue;
      // As an environment has it: no value goes on behind a 0.
      const std::string value(line.substr(equals + 1, line.find('\0', equals) - equals - 1));
      const auto [at, is_new] = variables_.emplace(line.substr(0, equals), value);
      if (!is_new) at->second += "\n" + value;
    }
  }

  const std::map<std::string, std::string>& variables() const { return variables_; }

  bool has(const char* name) const { return variables_.count(name) != 0; }
  const char* get(const char* name) const {
    const auto found = variables_.find(name);
    return found == variables_.end() ? nullptr : found->second.c_str();
  }
  std::string text(const char* name) const { return has(name) ? variables_.at(name) : ""; }
  int number(const char* name, int least, int most) const {
    const auto count = parse_count(text(name));
    return static_cast<int>(std::clamp<int64_t>(count.value_or(least), least, most));
  }
  Getenv getter() const {
    return [this](const char* name) { return get(name); };
  }

 private:
  std::map<std::string, std::string> variables_;
};

}  // namespace hvd::test
