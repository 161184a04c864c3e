// SPDX-License-Identifier: Apache-2.0
//
// Formatting of error texts.
#include "libhvd/base/status.h"

#include <cstdio>
#include <cstring>

namespace hvd {

std::string vformat(const char* fmt, va_list args) {
  va_list again;
  va_copy(again, args);
  const int length = vsnprintf(nullptr, 0, fmt, args);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  if (length > 0) vsnprintf(text.data(), text.size() + 1, fmt, again);
  va_end(again);
  return text;
}

std::string format(const char* fmt, ...) {
  va_list args;
  va_start(args, fmt);
  std::string text = vformat(fmt, args);
  va_end(args);
  return text;
}

Status error(Code code, const char* fmt, ...) {
  va_list args;
  va_start(args, fmt);
  Status status(code, vformat(fmt, args));
  va_end(args);
  return status;
}

Status errno_error(int err, const char* fmt, ...) {
  va_list args;
  va_start(args, fmt);
  std::string text = vformat(fmt, args);
  va_end(args);
  char buffer[128];
  text += ": ";
  text += strerror_r(err, buffer, sizeof buffer);
  return Status(Code::kSystem, std::move(text));
}

}  // namespace hvd
