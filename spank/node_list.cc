// SPDX-License-Identifier: Apache-2.0
//
// Nothing is expanded: how many names an element stands for is a product of sums, so that a name
// is found by division, and a list that promises a billion nodes costs nothing.
#include "spank/node_list.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "libhvd/base/parse.h"

namespace hvd {
namespace {

constexpr int64_t kMost = INT32_MAX;

// "08-11": the numbers are as wide as the first.
struct Range {
  int64_t first;
  int64_t count;
  size_t width;
};

// "rack[0-1]": a text and what may follow it; behind the last bracket nothing does.
struct Part {
  std::string_view text;
  std::vector<Range> ranges;
  int64_t count = 1;
};

bool parse_range(std::string_view text, Range* range) {
  const size_t dash = text.find('-');
  const std::string_view low = text.substr(0, dash);
  const auto first = parse_count(low);
  const auto last = dash == std::string_view::npos ? first : parse_count(text.substr(dash + 1));
  if (!first || !last || *last < *first || *last >= kMost) return false;
  *range = {*first, *last - *first + 1, low.size()};
  return true;
}

bool parse_ranges(std::string_view text, Part* part) {
  part->count = 0;
  for (std::string_view one : split(text, ',')) {
    Range range;
    if (!parse_range(one, &range)) return false;
    part->count += range.count;
    part->ranges.push_back(range);
  }
  return part->count <= kMost;
}

// All of an element of the list; at most kMost names.
bool parse_element(std::string_view text, std::vector<Part>* parts, int64_t* names) {
  if (text.empty()) return false;
  *names = 1;
  while (!text.empty()) {
    Part part;
    const size_t open = text.find_first_of("[]");
    part.text = text.substr(0, open);
    size_t end = text.size();
    if (open != std::string_view::npos) {
      const size_t close = text.find(']', open);
      if (text[open] != '[' || close == std::string_view::npos) return false;
      if (!parse_ranges(text.substr(open + 1, close - open - 1), &part)) return false;
      end = close + 1;
    }
    text.remove_prefix(end);
    *names *= part.count;
    if (*names > kMost) return false;
    parts->push_back(std::move(part));
  }
  return true;
}

std::string number_of(const Part& part, int64_t index) {
  for (const Range& range : part.ranges) {
    if (index < range.count) {
      const std::string digits = std::to_string(range.first + index);
      return std::string(range.width - std::min(range.width, digits.size()), '0') + digits;
    }
    index -= range.count;
  }
  return "";
}

std::string name_of(const std::vector<Part>& parts, int64_t index) {
  std::string name;
  for (size_t i = parts.size(); i-- > 0;) {
    const Part& part = parts[i];
    name = std::string(part.text) + number_of(part, index % part.count) + name;
    index /= part.count;
  }
  return name;
}

// Up to the comma that is not in brackets, or the end.
std::string_view first_element(std::string_view list) {
  bool inside = false;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') inside = true;
    if (list[i] == ']') inside = false;
    if (list[i] == ',' && !inside) return list.substr(0, i);
  }
  return list;
}

}  // namespace

Expected<std::string> name_in_list(std::string_view list, int index) {
  int64_t before = 0;
  for (std::string_view rest = list;;) {
    const std::string_view element = first_element(rest);
    std::vector<Part> parts;
    int64_t names = 0;
    if (!parse_element(element, &parts, &names)) {
      return error(Code::kInvalid, "\"%.*s\" is not a list of nodes", static_cast<int>(list.size()),
                   list.data());
    }
    if (index - before < names) return name_of(parts, index - before);
    before += names;
    if (element.size() == rest.size()) break;
    rest.remove_prefix(element.size() + 1);
  }
  return error(Code::kInvalid, "\"%.*s\" has %lld nodes, and number %d is none of them",
               static_cast<int>(list.size()), list.data(), static_cast<long long>(before), index);
}

}  // namespace hvd
