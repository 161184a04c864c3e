// SPDX-License-Identifier: Apache-2.0
//
// Values as people write them: 64M, 2ms, on, eth0:eth1. Pure, no locale, no errno. A value that
// does not parse is nullopt; the sentence about it is made where its name is known (settings.cc).
// Numbers that do not fit become the largest: they are then refused by their range.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd {

constexpr int64_t kNsPerMs = 1000000;
constexpr int64_t kNsPerSecond = 1000 * kNsPerMs;

// Without blanks at both ends.
std::string_view trim(std::string_view text);

// A decimal number: "1024".
std::optional<int64_t> parse_count(std::string_view text);

// Bytes: a number, perhaps with a fraction, and K, M, G or T (also KB, KiB, Ki; either case).
// All are powers of 1024, as in Horovod. "64M", "0.5GiB", "4096".
std::optional<int64_t> parse_size(std::string_view text);

// A duration in nanoseconds: a number, perhaps with a fraction, and ns, us, ms, s, m, min or h.
// A bare number counts in `bare_unit_ns`. "2ms", "1m", "0.5".
std::optional<int64_t> parse_duration(std::string_view text, int64_t bare_unit_ns);

// on/off, yes/no, true/false in either case; a number is true if it is not 0, as in Horovod.
std::optional<bool> parse_flag(std::string_view text);

// The parts between the `separator`s; at least one. Parts may be empty.
std::vector<std::string_view> split(std::string_view text, char separator);

// What parse_size and parse_duration read, in the largest unit that is exact: "64M", "30s".
std::string size_text(int64_t bytes);
std::string duration_text(int64_t ns);

// `ns` as a number of `unit_ns`, without trailing zeros: "1", "0.5".
std::string in_unit(int64_t ns, int64_t unit_ns);

}  // namespace hvd
