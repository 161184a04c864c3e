// SPDX-License-Identifier: Apache-2.0
//
// A line is put together in memory and leaves with one write. A stderr that cannot take it loses
// it: there is nowhere else to say so.
#include "libhvd/base/log.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <string>

#include "libhvd/base/status.h"

namespace hvd {
namespace {

constexpr const char* kNames[] = {"trace", "debug", "info", "warning", "error", "fatal"};

std::string time_prefix() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm local;
  localtime_r(&now.tv_sec, &local);
  char day_and_time[32];
  strftime(day_and_time, sizeof day_and_time, "%Y-%m-%d %H:%M:%S", &local);
  return format("[%s.%03ld] ", day_and_time, now.tv_nsec / 1000000);
}

void write_line(int fd, std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  text += '\n';
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}

}  // namespace

LogLevel log_level(std::string_view name) {
  for (int level = 0; level <= static_cast<int>(LogLevel::kFatal); ++level) {
    if (name == kNames[level]) return static_cast<LogLevel>(level);
  }
  return LogLevel::kWarning;
}

Log Log::from_settings(const Settings& settings, int rank) {
  return Log(log_level(settings.text(Setting::kLogLevel)), settings.flag(Setting::kLogHideTime),
             rank);
}

void Log::line(LogLevel level, const char* fmt, ...) const {
  if (!says(level)) return;
  std::string text = hide_time_ ? "" : time_prefix();
  text += "horovod: ";
  if (rank_ != kNoRank) text += format("rank %d: ", rank_);
  text += kNames[static_cast<int>(level)];
  text += ": ";
  va_list args;
  va_start(args, fmt);
  text += vformat(fmt, args);
  va_end(args);
  write_line(fd_, std::move(text));
}

void Log::notice(const char* fmt, ...) const {
  va_list args;
  va_start(args, fmt);
  write_line(fd_, "horovod: " + vformat(fmt, args));
  va_end(args);
}

}  // namespace hvd
