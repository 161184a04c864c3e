// SPDX-License-Identifier: Apache-2.0
//
// Errors as values. Status is success or (code, text); Expected<T> is a value or such an error.
// Not exceptions: both ends of the library are C, and an engine failure is data for every waiter.
// A text is lower case and has the offending value in quotes; each level may put what it was
// doing in front of it with `annotate`.
#pragma once

#include <cstdarg>
#include <optional>
#include <string>
#include <utility>

namespace hvd {

// The numbers are the C ABI's (hvd.h, HVD_ERR_*): never renumber.
enum class Code : int {
  kOk = 0,
  kInvalid = 1,   // a wrong argument, found before anything was touched
  kState = 2,     // not initialised, or already shut down
  kMismatch = 3,  // ranks disagree about an operation
  kPeerLost = 4,  // a rank died or left
  kShutDown = 5,  // the runtime was shut down while the operation was outstanding
  kTimeout = 6,   // a deadline passed
  kSystem = 7,    // the operating system, PMIx or MPI refused something
  kInternal = 8,  // a promise inside the library did not hold
  kStalled = 9,   // an operation was not submitted by all ranks in time
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string text) : code_(code), text_(std::move(text)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& text() const { return text_; }

  // The same error with what the caller was doing in front: "doing: text".
  Status annotate(const std::string& doing) const {
    return ok() ? *this : Status(code_, doing + ": " + text_);
  }

 private:
  Code code_ = Code::kOk;
  std::string text_;
};

inline Status ok_status() { return Status(); }

// printf into a std::string.
std::string format(const char* fmt, ...) __attribute__((format(printf, 1, 2)));
std::string vformat(const char* fmt, va_list args);

// An error with a formatted text.
Status error(Code code, const char* fmt, ...) __attribute__((format(printf, 2, 3)));

// kSystem with ": " and the text of `err` (an errno value) behind the formatted text.
Status errno_error(int err, const char* fmt, ...) __attribute__((format(printf, 2, 3)));

template <typename T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose
  Expected(Status status) : status_(std::move(status)) {}  // NOLINT: implicit on purpose

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() { return *value_; }
  const T& value() const { return *value_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace hvd
