// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes what a job prints of its nodes' reports: JSON, one report to a line, which a program can
// have written as well as the plugin (libFuzzer; tests/fuzz/run).
#include <cstdint>
#include <string>

#include "libhvd/base/parse.h"
#include "libhvd/topo/places.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hvd;
  std::vector<Json> reports;
  for (const std::string_view line : split({reinterpret_cast<const char*>(data), size}, '\n')) {
    const std::optional<Json> report = Json::parse(line);
    if (!report) continue;
    const std::string dumped = report->dump();
    const std::optional<Json> again = Json::parse(dumped);
    if (!again || again->dump() != dumped) __builtin_trap();
    reports.push_back(*report);
  }
  const std::vector<Json> nodes = merged_nodes(reports);
  if (nodes.size() > reports.size()) __builtin_trap();
  // What a terminal could take for a command is left out, line by line.
  const std::string text = places_text(nodes);
  for (const std::string_view line : split(text, '\n')) {
    if (printable(line) != line) __builtin_trap();
  }
  (void)places_json(nodes).dump();
  return 0;
}
