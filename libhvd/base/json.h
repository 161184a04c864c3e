// SPDX-License-Identifier: Apache-2.0
//
// JSON values: what a rank says about itself (engine/describe.cc), and what hvd-info reads and
// prints. Numbers are integers (times are in milliseconds), so that no locale changes how they
// look. Reading is tolerant: what is not there, or is of another type, is null, empty or 0; the two
// sides may be of different versions. A value; no thread rule.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace hvd {

class Json {
 public:
  using Items = std::vector<Json>;
  using Members = std::vector<std::pair<std::string, Json>>;  // in the order in which they were set

  Json() = default;                                           // null
  Json(std::string text) : value_(std::move(text)) {}         // NOLINT: implicit on purpose
  Json(std::string_view text) : value_(std::string(text)) {}  // NOLINT: implicit on purpose
  Json(const char* text) : value_(std::string(text)) {}       // NOLINT: implicit on purpose
  template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
  Json(T number) {  // NOLINT: implicit on purpose
    if constexpr (std::is_same_v<T, bool>) {
      value_ = number;
    } else {
      value_ = static_cast<int64_t>(number);
    }
  }
  static Json array() { return Json(Value(Items())); }
  static Json object() { return Json(Value(Members())); }

  // Of an object: adds a member, or replaces the one of this name.
  Json& set(std::string_view key, Json value);
  // Of an array.
  Json& add(Json value);

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  const Json& operator[](std::string_view key) const;
  const std::string& text() const;
  int64_t number() const;
  bool truth() const;
  const Items& items() const;
  const Members& members() const;

  // On one line. Bytes that are no UTF-8 become U+FFFD.
  std::string dump() const;
  // Nothing if it is no JSON, has a number that is no 64-bit integer, or is nested too deep.
  static std::optional<Json> parse(std::string_view text);

 private:
  using Value = std::variant<std::monostate, bool, int64_t, std::string, Items, Members>;
  explicit Json(Value value) : value_(std::move(value)) {}

  Value value_;
};

// In quotes and escaped, as JSON has it.
std::string json_quoted(std::string_view text);

// Bytes of the character at the front of `text`; 0 if it is no UTF-8, or there is none.
size_t utf8_length(std::string_view text);

// Without what a terminal could take for a command. What comes from a program may hold anything.
std::string printable(std::string_view text);

}  // namespace hvd
