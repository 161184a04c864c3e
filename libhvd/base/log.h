// SPDX-License-Identifier: Apache-2.0
//
// Lines on stderr. A Log is a small value that is passed around; there is no global one. A line is
// one write(2), so that lines of several ranks on one terminal do not mix. What a run without
// trouble has to say is below the default level. Any thread may call any function.
#pragma once

#include <cstdarg>
#include <string_view>

#include "libhvd/base/settings.h"

namespace hvd {

// Horovod's names and order.
enum class LogLevel { kTrace, kDebug, kInfo, kWarning, kError, kFatal };

class Log {
 public:
  static constexpr int kNoRank = -1;

  // At level warning, with the time, before the rank is known.
  Log() = default;
  Log(LogLevel least, bool hide_time, int rank, int fd = 2)
      : least_(least), hide_time_(hide_time), rank_(rank), fd_(fd) {}
  // As HOROVOD_LOG_LEVEL and HOROVOD_LOG_HIDE_TIME say.
  static Log from_settings(const Settings& settings, int rank);

  // False: a line of this level is not written, and its text need not be made.
  bool says(LogLevel level) const { return level >= least_; }

  // "[2026-01-31 12:00:00.123] horovod: rank 3: warning: TEXT". Line breaks become blanks.
  void line(LogLevel level, const char* fmt, ...) const __attribute__((format(printf, 3, 4)));

  // "horovod: TEXT", at every level, without time and rank: what users and tests look for, as the
  // one line about a lost rank.
  void notice(const char* fmt, ...) const __attribute__((format(printf, 2, 3)));

 private:
  LogLevel least_ = LogLevel::kWarning;
  bool hide_time_ = false;
  int rank_ = kNoRank;
  int fd_ = 2;
};

// The level with this name, as settings.def spells it; kWarning if there is none.
LogLevel log_level(std::string_view name);

}  // namespace hvd
