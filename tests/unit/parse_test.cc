// SPDX-License-Identifier: Apache-2.0
//
// Values as people write them, and the words nearest to what they meant.
#include "libhvd/base/parse.h"

#include "libhvd/base/nearest.h"
#include "tests/unit/catch.h"

namespace {

constexpr int64_t kRefused = -1;

}  // namespace

TEST_CASE("a size is bytes or a number with a unit of 1024", "[base]") {
  const struct {
    const char* text;
    int64_t bytes;
  } cases[] = {
      {"0", 0},
      {"4096", 4096},
      {" 64M ", 64 << 20},
      {"64MB", 64 << 20},
      {"64Mi", 64 << 20},
      {"64MiB", 64 << 20},
      {"64mb", 64 << 20},
      {"64 M", 64 << 20},
      {"1b", 1},
      {"3K", 3 << 10},
      {"0.5G", 1 << 29},
      {".5k", 512},
      {"2T", int64_t{2} << 40},
      {"9223372036854775807", INT64_MAX},
      {"9223372036854775808", INT64_MAX},
      {"99999999999999999999999T", INT64_MAX},
      {"", kRefused},
      {"M", kRefused},
      {".", kRefused},
      {"12X", kRefused},
      {"12MM", kRefused},
      {"12bb", kRefused},
      {"12i", kRefused},
      {"-1", kRefused},
      {"+1", kRefused},
      {"0x10", kRefused},
      {"1e6", kRefused},
      {"1,5", kRefused},
      {"1.2.3", kRefused},
  };
  for (const auto& c : cases) {
    INFO(c.text);
    CHECK(hvd::parse_size(c.text).value_or(kRefused) == c.bytes);
  }
}

TEST_CASE("a duration has a unit, or the setting's own", "[base]") {
  const struct {
    const char* text;
    int64_t bare;
    int64_t ns;
  } cases[] = {
      {"2ms", hvd::kNsPerSecond, 2 * hvd::kNsPerMs},
      {"2", hvd::kNsPerSecond, 2 * hvd::kNsPerSecond},
      {"2", hvd::kNsPerMs, 2 * hvd::kNsPerMs},
      {"0.1", hvd::kNsPerMs, 100000},
      {"1m", hvd::kNsPerMs, 60 * hvd::kNsPerSecond},
      {"1min", hvd::kNsPerMs, 60 * hvd::kNsPerSecond},
      {"1.5h", hvd::kNsPerMs, 5400 * hvd::kNsPerSecond},
      {"30 s", hvd::kNsPerMs, 30 * hvd::kNsPerSecond},
      {"7us", hvd::kNsPerMs, 7000},
      {"7ns", hvd::kNsPerMs, 7},
      {"0", hvd::kNsPerMs, 0},
      {"9999999999999999h", hvd::kNsPerMs, INT64_MAX},
      {"", hvd::kNsPerMs, kRefused},
      {"s", hvd::kNsPerMs, kRefused},
      {"5d", hvd::kNsPerMs, kRefused},
      {"-5s", hvd::kNsPerMs, kRefused},
  };
  for (const auto& c : cases) {
    INFO(c.text);
    CHECK(hvd::parse_duration(c.text, c.bare).value_or(kRefused) == c.ns);
  }
}

TEST_CASE("a count is digits only", "[base]") {
  CHECK(hvd::parse_count("1024") == 1024);
  CHECK(hvd::parse_count(" 7 ") == 7);
  for (const char* text : {"", "1.0", "1K", "-1", "x"}) {
    INFO(text);
    CHECK_FALSE(hvd::parse_count(text));
  }
}

TEST_CASE("a flag is a word or a number", "[base]") {
  for (const char* yes : {"on", "ON", "Yes", "true", "1", "2", " on "}) {
    INFO(yes);
    CHECK(hvd::parse_flag(yes) == true);
  }
  for (const char* no : {"off", "No", "FALSE", "0"}) {
    INFO(no);
    CHECK(hvd::parse_flag(no) == false);
  }
  for (const char* neither : {"", "y", "onn", "-1"}) {
    INFO(neither);
    CHECK_FALSE(hvd::parse_flag(neither));
  }
}

TEST_CASE("what is shown is read back as the same value", "[base]") {
  for (int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{1000}, int64_t{4096}, int64_t{3} << 19,
                        int64_t{1} << 40, int64_t{5} << 41}) {
    INFO(bytes);
    CHECK(hvd::parse_size(hvd::size_text(bytes)) == bytes);
  }
  CHECK(hvd::size_text(128 << 20) == "128M");
  for (int64_t ns : {int64_t{0}, int64_t{1}, int64_t{1500}, 2 * hvd::kNsPerMs,
                     90 * hvd::kNsPerSecond, 1500 * hvd::kNsPerMs}) {
    INFO(ns);
    CHECK(hvd::parse_duration(hvd::duration_text(ns), 1) == ns);
    CHECK(hvd::parse_duration(hvd::in_unit(ns, hvd::kNsPerSecond), hvd::kNsPerSecond) == ns);
    CHECK(hvd::parse_duration(hvd::in_unit(ns, hvd::kNsPerMs), hvd::kNsPerMs) == ns);
  }
  CHECK(hvd::duration_text(1500 * hvd::kNsPerMs) == "1500ms");
  CHECK(hvd::in_unit(100000, hvd::kNsPerMs) == "0.1");
}

TEST_CASE("splitting keeps empty parts", "[base]") {
  using Parts = std::vector<std::string_view>;
  CHECK(hvd::split("a:b", ':') == Parts{"a", "b"});
  CHECK(hvd::split("", ':') == Parts{""});
  CHECK(hvd::split(":a:", ':') == Parts{"", "a", ""});
}

TEST_CASE("the distance counts letters to insert, delete, change or swap", "[base]") {
  CHECK(hvd::edit_distance("", "") == 0);
  CHECK(hvd::edit_distance("", "abc") == 3);
  CHECK(hvd::edit_distance("abc", "") == 3);
  CHECK(hvd::edit_distance("abc", "abc") == 0);
  CHECK(hvd::edit_distance("abc", "acb") == 1);
  CHECK(hvd::edit_distance("kitten", "sitting") == 3);
  CHECK(hvd::edit_distance("fusion-treshold", "fusion-threshold") == 1);
}

TEST_CASE("the nearest word is one that a slip of the finger explains", "[base]") {
  const std::vector<std::string_view> words = {"off", "help", "cycle-time", "fusion-threshold"};
  CHECK(hvd::nearest("fusion-treshold", words) == "fusion-threshold");
  CHECK(hvd::nearest("cylce-time", words) == "cycle-time");
  CHECK(hvd::nearest("hlep", words) == "help");
  CHECK(hvd::nearest("of", words) == "off");
  CHECK(hvd::nearest("banana", words).empty());
  CHECK(hvd::nearest("", words).empty());
  CHECK(hvd::nearest(std::string(100000, 'x'), words).empty());
}
