// SPDX-License-Identifier: Apache-2.0
//
// The reader may be root's and the writer anybody: it trusts nothing, and its recursion is bounded.
#include "libhvd/base/json.h"

#include "libhvd/base/status.h"

namespace hvd {
namespace {

constexpr int kMaxDepth = 32;
constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

void append_utf8(uint32_t code, std::string* text) {
  const auto tail = [&](int shift) {
    text->push_back(static_cast<char>(0x80 | ((code >> shift) & 0x3f)));
  };
  if (code < 0x80) {
    text->push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    text->push_back(static_cast<char>(0xc0 | (code >> 6)));
    tail(0);
  } else if (code < 0x10000) {
    text->push_back(static_cast<char>(0xe0 | (code >> 12)));
    tail(6), tail(0);
  } else {
    text->push_back(static_cast<char>(0xf0 | (code >> 18)));
    tail(12), tail(6), tail(0);
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  std::optional<Json> all() {
    std::optional<Json> json = value(kMaxDepth);
    skip_blanks();
    return json && rest_.empty() ? json : std::nullopt;
  }

 private:
  void skip_blanks() {
    const size_t first = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(first == std::string_view::npos ? rest_.size() : first);
  }

  bool take(std::string_view word) {
    if (rest_.substr(0, word.size()) != word) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  bool take_after_blanks(std::string_view word) {
    skip_blanks();
    return take(word);
  }

  std::optional<Json> value(int depth) {
    if (depth == 0) return std::nullopt;
    skip_blanks();
    if (take("null")) return Json();
    if (take("true")) return Json(true);
    if (take("false")) return Json(false);
    if (take("[")) return items(depth);
    if (take("{")) return members(depth);
    if (take("\"")) {
      std::optional<std::string> text = string();
      return text ? std::optional<Json>(std::move(*text)) : std::nullopt;
    }
    return number();
  }

  std::optional<Json> items(int depth) {
    Json array = Json::array();
    if (take_after_blanks("]")) return array;
    do {
      std::optional<Json> item = value(depth - 1);
      if (!item) return std::nullopt;
      array.add(std::move(*item));
    } while (take_after_blanks(","));
    return take("]") ? std::optional<Json>(std::move(array)) : std::nullopt;
  }

  std::optional<Json> members(int depth) {
    Json object = Json::object();
    if (take_after_blanks("}")) return object;
    do {
      if (!take_after_blanks("\"")) return std::nullopt;
      const std::optional<std::string> key = string();
      if (!key || !take_after_blanks(":")) return std::nullopt;
      std::optional<Json> member = value(depth - 1);
      if (!member) return std::nullopt;
      object.set(*key, std::move(*member));
    } while (take_after_blanks(","));
    return take("}") ? std::optional<Json>(std::move(object)) : std::nullopt;
  }

  std::optional<Json> number() {
    const bool negative = take("-");
    size_t digits = 0;
    int64_t number = 0;
    for (; digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9'; ++digits) {
      const int64_t digit = rest_[digits] - '0';
      // Downwards, where there is room for one more.
      if (__builtin_mul_overflow(number, 10, &number) ||
          __builtin_sub_overflow(number, digit, &number)) {
        return std::nullopt;
      }
    }
    if (digits == 0 || (!negative && number == INT64_MIN)) return std::nullopt;
    rest_.remove_prefix(digits);
    if (!rest_.empty() && std::string_view(".eE").find(rest_[0]) != std::string_view::npos) {
      return std::nullopt;
    }
    return Json(negative ? number : -number);
  }

  std::optional<uint32_t> four_digits() {
    if (rest_.size() < 4) return std::nullopt;
    uint32_t code = 0;
    for (const char c : rest_.substr(0, 4)) {
      const size_t digit = std::string_view("0123456789abcdef")
                               .find(static_cast<char>(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c));
      if (digit == std::string_view::npos) return std::nullopt;
      code = code * 16 + static_cast<uint32_t>(digit);
    }
    rest_.remove_prefix(4);
    return code;
  }

  // Behind \u.
  bool escaped_code(std::string* text) {
    std::optional<uint32_t> code = four_digits();
    if (!code) return false;
    if (*code >= 0xd800 && *code < 0xdc00 && take("\\u")) {
      const std::optional<uint32_t> low = four_digits();
      if (!low || *low < 0xdc00 || *low > 0xdfff) return false;
      code = 0x10000 + ((*code - 0xd800) << 10) + (*low - 0xdc00);
    } else if (*code >= 0xd800 && *code < 0xe000) {
      return false;
    }
    append_utf8(*code, text);
    return true;
  }

  // Behind the opening quote.
  std::optional<std::string> string() {
    static constexpr std::string_view kLetters = "\"\\/bfnrt";
    static constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    std::string text;
    while (!rest_.empty()) {
      const char c = rest_[0];
      rest_.remove_prefix(1);
      if (c == '"') return text;
      if (static_cast<unsigned char>(c) < 0x20) return std::nullopt;
      if (c != '\\') {
        text.push_back(c);
      } else if (take("u")) {
        if (!escaped_code(&text)) return std::nullopt;
      } else {
        const size_t letter = rest_.empty() ? std::string_view::npos : kLetters.find(rest_[0]);
        if (letter == std::string_view::npos) return std::nullopt;
        text.push_back(kMeanings[letter]);
        rest_.remove_prefix(1);
      }
    }
    return std::nullopt;
  }

  std::string_view rest_;
};

void append_quoted(std::string_view text, std::string* out) {
  out->push_back('"');
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text[0]);
    const size_t length = utf8_length(text);
    if (length == 0) {
      out->append(kReplacement);
    } else if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(text[0]);
    } else if (c < 0x20) {
      out->append(c == '\n' ? "\\n" : c == '\t' ? "\\t" : format("\\u%04x", c));
    } else {
      out->append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out->push_back('"');
}

}  // namespace

size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first < 0xc2   ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer than needed, half of a pair, or beyond the last character.
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0) ||
      (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90)) {
    return 0;
  }
  return length;
}

std::string json_quoted(std::string_view text) {
  std::string quoted;
  append_quoted(text, &quoted);
  return quoted;
}

Json& Json::set(std::string_view key, Json value) {
  if (!std::holds_alternative<Members>(value_)) value_ = Members();
  Members& members = std::get<Members>(value_);
  for (auto& [name, member] : members) {
    if (name != key) continue;
    member = std::move(value);
    return *this;
  }
  members.emplace_back(key, std::move(value));
  return *this;
}

Json& Json::add(Json value) {
  if (!std::holds_alternative<Items>(value_)) value_ = Items();
  std::get<Items>(value_).push_back(std::move(value));
  return *this;
}

const Json& Json::operator[](std::string_view key) const {
  static const Json nothing;
  for (const auto& [name, member] : members()) {
    if (name == key) return member;
  }
  return nothing;
}

const std::string& Json::text() const {
  static const std::string nothing;
  const auto* text = std::get_if<std::string>(&value_);
  return text == nullptr ? nothing : *text;
}

int64_t Json::number() const {
  const auto* number = std::get_if<int64_t>(&value_);
  return number == nullptr ? 0 : *number;
}

bool Json::truth() const {
  const auto* truth = std::get_if<bool>(&value_);
  return truth != nullptr && *truth;
}

const Json::Items& Json::items() const {
  static const Items nothing;
  const auto* items = std::get_if<Items>(&value_);
  return items == nullptr ? nothing : *items;
}

const Json::Members& Json::members() const {
  static const Members nothing;
  const auto* members = std::get_if<Members>(&value_);
  return members == nullptr ? nothing : *members;
}

std::string Json::dump() const {
  std::string out;
  if (const auto* text = std::get_if<std::string>(&value_)) {
    append_quoted(*text, &out);
  } else if (const auto* number = std::get_if<int64_t>(&value_)) {
    out = std::to_string(*number);
  } else if (const auto* truth = std::get_if<bool>(&value_)) {
    out = *truth ? "true" : "false";
  } else if (std::holds_alternative<Items>(value_)) {
    for (const Json& item : items()) out += (out.empty() ? "" : ", ") + item.dump();
    out = "[" + out + "]";
  } else if (std::holds_alternative<Members>(value_)) {
    for (const auto& [name, member] : members()) {
      out += (out.empty() ? "" : ", ") + json_quoted(name) + ": " + member.dump();
    }
    out = "{" + out + "}";
  } else {
    out = "null";
  }
  return out;
}

std::optional<Json> Json::parse(std::string_view text) { return Parser(text).all(); }

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text[0]);
    const size_t length = utf8_length(text);
    // C0, DEL, and C1 as UTF-8 has it: c2 80 .. c2 9f.
    const bool control =
        byte < 0x20 || byte == 0x7f ||
        (byte == 0xc2 && length == 2 && static_cast<unsigned char>(text[1]) < 0xa0);
    if (length == 0 || control) {
      shown += '?';
    } else {
      shown.append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return shown;
}

}  // namespace hvd
