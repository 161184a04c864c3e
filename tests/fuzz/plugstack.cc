// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the plugin's arguments in plugstack.conf: words between blanks (libFuzzer;
// tests/fuzz/run).
#include <cstdint>
#include <string>
#include <vector>

#include "libhvd/base/parse.h"
#include "spank/options.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::string> words;
  for (const std::string_view word : hvd::split({reinterpret_cast<const char*>(data), size}, ' ')) {
    words.emplace_back(word);
  }
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  const auto site = hvd::parse_site(static_cast<int>(arguments.size()), arguments.data());
  if (!site.ok() && site.status().text().empty()) __builtin_trap();
  if (site.ok()) (void)hvd::help_text(site->settings);
  return 0;
}
