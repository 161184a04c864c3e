// SPDX-License-Identifier: Apache-2.0
#include "libhvd/tools/info/procfs.h"

#include <climits>
#include <vector>

#include "libhvd/base/parse.h"

namespace hvd::info {
namespace {

constexpr uint64_t kListens = 0x10000;  // __SO_ACCEPTCON

// Takes the next word off the front.
std::string_view next_word(std::string_view* rest) {
  const size_t first = rest->find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  rest->remove_prefix(first);
  const std::string_view word = rest->substr(0, rest->find(' '));
  rest->remove_prefix(word.size());
  return word;
}

std::optional<uint64_t> parse_hex(std::string_view text) {
  if (text.empty() || text.size() > 16) return std::nullopt;
  uint64_t number = 0;
  for (const char c : text) {
    const size_t digit = std::string_view("0123456789abcdefABCDEF").find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    number = number * 16 + (digit < 16 ? digit : digit - 6);
  }
  return number;
}

bool is_library(std::string_view name, std::string_view stem) {
  return name.substr(0, stem.size()) == stem &&
         (name.size() == stem.size() || name[stem.size()] == '.');
}

}  // namespace

// Num RefCount Protocol Flags Type St Inode Path
std::optional<UnixSocket> parse_unix_socket(std::string_view line) {
  std::string_view rest = line;
  for (int i = 0; i < 3; ++i) next_word(&rest);
  const auto flags = parse_hex(next_word(&rest));
  for (int i = 0; i < 2; ++i) next_word(&rest);
  const auto inode = parse_count(next_word(&rest));
  if (!flags || !inode) return std::nullopt;
  UnixSocket found;
  found.inode = static_cast<uint64_t>(*inode);
  found.listens = (*flags & kListens) != 0;
  if (rest.substr(0, 2) == " @") found.name = rest.substr(2);
  return found;
}

std::optional<uint64_t> socket_inode(std::string_view target) {
  constexpr std::string_view kPrefix = "socket:[";
  if (target.substr(0, kPrefix.size()) != kPrefix || target.back() != ']') return std::nullopt;
  target.remove_prefix(kPrefix.size());
  target.remove_suffix(1);
  const auto inode = parse_count(target);
  return inode ? std::optional<uint64_t>(*inode) : std::nullopt;
}

// address permissions offset device inode path
std::string mapped_file(std::string_view maps, std::string_view stems) {
  const std::vector<std::string_view> wanted = split(stems, ' ');
  for (const std::string_view line : split(maps, '\n')) {
    const size_t slash = line.find('/');
    if (slash == std::string_view::npos) continue;
    const std::string_view path = line.substr(slash);
    for (const std::string_view stem : wanted) {
      if (is_library(path.substr(path.rfind('/') + 1), stem)) return std::string(path);
    }
  }
  return "";
}

ProcessStat parse_stat(std::string_view stat) {
  ProcessStat process;
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return process;
  std::string_view rest = stat.substr(name_end + 1);
  const std::string_view state = next_word(&rest);
  if (!state.empty()) process.state = state[0];
  const auto parent = parse_count(next_word(&rest));
  if (parent && *parent <= INT_MAX) process.parent = static_cast<int>(*parent);
  return process;
}

std::string variable_in(std::string_view environ, std::string_view name) {
  for (const std::string_view entry : split(environ, '\0')) {
    if (entry.substr(0, name.size()) == name && entry.substr(name.size(), 1) == "=") {
      return std::string(entry.substr(name.size() + 1));
    }
  }
  return "";
}

}  // namespace hvd::info
