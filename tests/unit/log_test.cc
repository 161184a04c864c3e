// SPDX-License-Identifier: Apache-2.0
//
// What reaches stderr, and that each line reaches it whole.
#include "libhvd/base/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "tests/unit/catch.h"

using hvd::Log;
using hvd::LogLevel;

namespace {

// A pipe that keeps packets apart: what one write(2) wrote, one read(2) returns.
class Lines {
 public:
  Lines() { REQUIRE(pipe2(ends_, O_DIRECT | O_NONBLOCK | O_CLOEXEC) == 0); }
  ~Lines() {
    close(ends_[0]);
    close(ends_[1]);
  }
  int fd() const { return ends_[1]; }
  std::string next() {
    char buffer[4096];
    const ssize_t n = read(ends_[0], buffer, sizeof buffer);
    return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : "";
  }

 private:
  int ends_[2];
};

}  // namespace

TEST_CASE("a line has level, rank and text, and is one write", "[base]") {
  Lines lines;
  const Log log(LogLevel::kInfo, true, 3, lines.fd());
  log.line(LogLevel::kWarning, "%d ranks are late", 2);
  log.line(LogLevel::kInfo, "two\nlines");
  log.line(LogLevel::kDebug, "not said");
  CHECK(lines.next() == "horovod: rank 3: warning: 2 ranks are late\n");
  CHECK(lines.next() == "horovod: rank 3: info: two lines\n");
  CHECK(lines.next() == "");
  CHECK(log.says(LogLevel::kInfo));
  CHECK_FALSE(log.says(LogLevel::kDebug));
}

TEST_CASE("the time comes first unless it is hidden", "[base]") {
  Lines lines;
  Log(LogLevel::kInfo, false, Log::kNoRank, lines.fd()).line(LogLevel::kError, "x");
  const std::string line = lines.next();
  const std::string end = "] horovod: error: x\n";
  REQUIRE(line.size() == std::string("[2026-01-31 12:00:00.123").size() + end.size());
  CHECK(line[0] == '[');
  CHECK(line.substr(line.size() - end.size()) == end);
}

TEST_CASE("a notice is said at every level and is nothing but its text", "[base]") {
  Lines lines;
  Log(LogLevel::kFatal, false, 1, lines.fd()).notice("rank %d is gone", 7);
  CHECK(lines.next() == "horovod: rank 7 is gone\n");
}

TEST_CASE("a line longer than any buffer is whole", "[base]") {
  Lines lines;
  const std::string text(3000, 'x');
  Log(LogLevel::kInfo, true, Log::kNoRank, lines.fd()).line(LogLevel::kInfo, "%s", text.c_str());
  CHECK(lines.next() == "horovod: info: " + text + "\n");
}

TEST_CASE("the settings choose level and time", "[base]") {
  hvd::Settings settings;
  CHECK_FALSE(Log::from_settings(settings, 0).says(LogLevel::kInfo));
  CHECK(Log::from_settings(settings, 0).says(LogLevel::kWarning));
  for (const char* name : {"trace", "debug", "info", "warning", "error", "fatal"}) {
    REQUIRE(settings.set(hvd::Setting::kLogLevel, name, hvd::Origin::kOption).ok());
    const LogLevel level = hvd::log_level(name);
    CHECK(Log::from_settings(settings, 0).says(level));
    if (level != LogLevel::kTrace) {
      const auto below = static_cast<LogLevel>(static_cast<int>(level) - 1);
      CHECK_FALSE(Log::from_settings(settings, 0).says(below));
    }
  }
}
