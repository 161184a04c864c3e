// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes what a user writes after --horovod= (libFuzzer; tests/fuzz/run).
#include "spank/options.h"

#include <cstdint>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string value(reinterpret_cast<const char*>(data), size);
  const auto request = hvd::parse_request(value.c_str());
  if (!request.ok() && request.status().text().empty()) __builtin_trap();
  const std::string marked = hvd::mark_inherited(value.c_str());
  if (marked != hvd::mark_inherited(marked.c_str())) __builtin_trap();
  if (request.ok() && !hvd::parse_request(marked.c_str()).ok()) __builtin_trap();
  return 0;
}
