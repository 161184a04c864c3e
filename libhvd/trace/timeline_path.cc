// SPDX-License-Identifier: Apache-2.0
//
// See timeline_path.h.
#include "libhvd/trace/timeline_path.h"

namespace hvd {
namespace {

// The pattern without its %, and whether %r was in it.
struct Expanded {
  std::string path;
  bool has_rank = false;
};

Expected<Expanded> expand(std::string_view pattern, const TimelineNames& names) {
  Expanded expanded;
  const auto append = [&](std::string text) {
    for (char& c : text) {
      if (c == '/') c = '_';
    }
    expanded.path += text;
  };
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      expanded.path.push_back(pattern[i]);
      continue;
    }
    switch (const char letter = ++i < pattern.size() ? pattern[i] : '\0') {
      case 'r':
        append(std::to_string(names.rank));
        expanded.has_rank = true;
        break;
      case 'j':
        append(names.job);
        break;
      case 's':
        append(names.step);
        break;
      case 'h':
        append(names.host);
        break;
      case '%':
        expanded.path.push_back('%');
        break;
      default:
        return error(Code::kInvalid,
                     "the timeline's file name is \"%.*s\", and %%%.*s stands for nothing; there "
                     "are %%r (rank), %%j (job), %%s (step), %%h (host) and %%%%",
                     static_cast<int>(pattern.size()), pattern.data(), letter == '\0' ? 0 : 1,
                     &letter);
    }
  }
  return expanded;
}

}  // namespace

Expected<std::string> expand_timeline_path(std::string_view pattern, const TimelineNames& names) {
  Expected<Expanded> expanded = expand(pattern, names);
  if (!expanded.ok()) return expanded.status();
  return std::move(expanded->path);
}

Expected<std::string> timeline_path_of_rank(std::string_view pattern, const TimelineNames& names) {
  if (pattern == "DYNAMIC") return std::string();
  Expected<Expanded> expanded = expand(pattern, names);
  if (!expanded.ok()) return expanded.status();
  if (names.rank != 0 && !expanded->has_rank) return std::string();
  return std::move(expanded->path);
}

}  // namespace hvd
