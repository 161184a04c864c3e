// SPDX-License-Identifier: Apache-2.0
//
// Numbers are a whole part and a fraction in integers, never a double: 0.1 ms is 100,000 ns.
#include "libhvd/base/parse.h"

#include <cstdio>

namespace hvd {
namespace {

struct Unit {
  std::string_view name;
  int64_t factor;
};

constexpr Unit kSizeUnits[] = {
    {"k", int64_t{1} << 10},
    {"m", int64_t{1} << 20},
    {"g", int64_t{1} << 30},
    {"t", int64_t{1} << 40},
};

constexpr Unit kTimeUnits[] = {
    {"h", 3600 * kNsPerSecond},
    {"m", 60 * kNsPerSecond},
    {"min", 60 * kNsPerSecond},
    {"s", kNsPerSecond},
    {"ms", kNsPerMs},
    {"us", 1000},
    {"ns", 1},
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

// A number with what is written behind it.
struct Decimal {
  int64_t whole = 0;
  int64_t billionths = 0;
  std::string_view unit;

  int64_t times(int64_t factor) const {
    const __int128 product = __int128{whole} * factor + __int128{billionths} * factor / 1000000000;
    return product > INT64_MAX ? INT64_MAX : static_cast<int64_t>(product);
  }
};

std::optional<Decimal> parse_decimal(std::string_view text) {
  text = trim(text);
  Decimal decimal;
  size_t at = 0;
  for (; at < text.size() && is_digit(text[at]); ++at) {
    const int64_t digit = text[at] - '0';
    const bool fits = decimal.whole <= (INT64_MAX - digit) / 10;
    decimal.whole = fits ? decimal.whole * 10 + digit : INT64_MAX;
  }
  size_t digits = at;
  if (at < text.size() && text[at] == '.') {
    int64_t worth = 100000000;  // of the next digit, in billionths; smaller ones do not count
    for (++at; at < text.size() && is_digit(text[at]); ++at, ++digits, worth /= 10) {
      decimal.billionths += worth * (text[at] - '0');
    }
  }
  if (digits == 0) return std::nullopt;
  decimal.unit = trim(text.substr(at));
  return decimal;
}

}  // namespace

std::string_view trim(std::string_view text) {
  const std::string_view blanks = " \t\r\n";
  const size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::optional<int64_t> parse_count(std::string_view text) {
  const auto decimal = parse_decimal(text);
  if (!decimal || !decimal->unit.empty() || text.find('.') != std::string_view::npos) {
    return std::nullopt;
  }
  return decimal->whole;
}

std::optional<int64_t> parse_size(std::string_view text) {
  const auto decimal = parse_decimal(text);
  if (!decimal) return std::nullopt;
  if (decimal->unit.empty() || same(decimal->unit, "b")) return decimal->times(1);
  const std::string_view binary = decimal->unit.substr(1);
  if (!binary.empty() && !same(binary, "b") && !same(binary, "i") && !same(binary, "ib")) {
    return std::nullopt;
  }
  for (const Unit& known : kSizeUnits) {
    if (same(decimal->unit.substr(0, 1), known.name)) return decimal->times(known.factor);
  }
  return std::nullopt;
}

std::optional<int64_t> parse_duration(std::string_view text, int64_t bare_unit_ns) {
  const auto decimal = parse_decimal(text);
  if (!decimal) return std::nullopt;
  if (decimal->unit.empty()) return decimal->times(bare_unit_ns);
  for (const Unit& known : kTimeUnits) {
    if (same(decimal->unit, known.name)) return decimal->times(known.factor);
  }
  return std::nullopt;
}

std::optional<bool> parse_flag(std::string_view text) {
  text = trim(text);
  for (std::string_view yes : {"on", "yes", "true"}) {
    if (same(text, yes)) return true;
  }
  for (std::string_view no : {"off", "no", "false"}) {
    if (same(text, no)) return false;
  }
  const auto number = parse_count(text);
  if (!number) return std::nullopt;
  return *number != 0;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (size_t at = text.find(separator); at != std::string_view::npos;
       at = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, at - begin));
    begin = at + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::string size_text(int64_t bytes) {
  std::string unit;
  for (const char* next : {"K", "M", "G", "T"}) {
    if (bytes == 0 || bytes % 1024 != 0) break;
    bytes /= 1024;
    unit = next;
  }
  return std::to_string(bytes) + unit;
}

std::string duration_text(int64_t ns) {
  // Not h and m: 60s is what people write and read in logs.
  for (const Unit& unit : {Unit{"s", kNsPerSecond}, Unit{"ms", kNsPerMs}, Unit{"us", 1000}}) {
    if (ns % unit.factor == 0) return std::to_string(ns / unit.factor) + std::string(unit.name);
  }
  return std::to_string(ns) + "ns";
}

std::string in_unit(int64_t ns, int64_t unit_ns) {
  std::string text = std::to_string(ns / unit_ns);
  int64_t rest = ns % unit_ns;
  if (rest == 0) return text;
  text += '.';
  while (rest != 0) {
    rest *= 10;
    text += static_cast<char>('0' + rest / unit_ns);
    rest %= unit_ns;
  }
  return text;
}

}  // namespace hvd
