// SPDX-License-Identifier: Apache-2.0
//
// See trace_words.h.
#include "tests/unit/trace_words.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cctype>

#include "libhvd/base/clock.h"
#include "libhvd/base/fd.h"

namespace hvd::test {
namespace {

// What Json::parse takes has no fractions; those of "ts" and "dur" are three digits.
std::string without_fractions(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool fraction = text[i] == '.' && i > 0 && isdigit(text[i - 1]) && i + 3 < text.size() &&
                          isdigit(text[i + 1]) && isdigit(text[i + 2]) && isdigit(text[i + 3]);
    if (!fraction) result.push_back(text[i]);
  }
  return result;
}

}  // namespace

bool has_leases(const Folder& folder) {
  Fd fd(open(folder.file("other.json").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  return fcntl(fd.get(), F_SETLEASE, F_WRLCK) == 0;
}

std::string copied(const std::string& path, size_t piece) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::string buffer(piece, '\0');
  for (;;) {
    const ssize_t n = read(fd.get(), &buffer[0], buffer.size());
    if (n <= 0) return text;
    text.append(buffer, 0, static_cast<size_t>(n));
  }
}

std::optional<Json> parsed(const std::string& text) {
  std::optional<Json> json = Json::parse(without_fractions(text));
  return json && !json->items().empty() ? json : std::nullopt;
}

std::vector<std::string> events_of(const std::string& path) {
  const std::optional<Json> json = parsed(copied(path));
  std::vector<std::string> events;
  if (!json) return {"does not parse"};
  for (const Json& event : json->items()) {
    if (event["ph"].text() == "M") continue;
    std::string text = event["ph"].text() + " " + event["name"].text() + " " +
                       std::to_string(event["pid"].number()) + "/" +
                       std::to_string(event["tid"].number());
    if (!event["args"].is_null()) text += " " + event["args"].dump();
    events.push_back(text);
  }
  return events;
}

std::vector<std::string> names_in(const std::string& path) {
  const std::optional<Json> json = parsed(copied(path));
  std::vector<std::string> names;
  if (!json) return {"does not parse"};
  for (const Json& event : json->items()) {
    if (event["name"].text() == "process_name" && event["pid"].number() > 0) {
      names.push_back(event["args"]["name"].text());
    }
  }
  return names;
}

void tell_operation(Timeline* timeline, const std::string& tensor) {
  const int64_t now = now_ns();
  timeline->begin(tensor, "NEGOTIATE_ALLREDUCE", now);
  timeline->rank_ready(tensor, 1, now + 100);
  timeline->end(tensor, "NEGOTIATE_ALLREDUCE", now + 1000, {{"last_rank", 1}});
  timeline->begin(tensor, "QUEUE", now + 1000);
  timeline->end(tensor, "QUEUE", now + 2000);
  timeline->begin(tensor, "ALLREDUCE", now + 2000, {{"bytes", 64}, {"batch", 7}});
  timeline->stage(tensor, Timeline::Stage::kPack, now + 2000, now + 4000);
  timeline->stage(tensor, Timeline::Stage::kUnpack, now + 3000, now + 5000);
  timeline->end(tensor, "ALLREDUCE", now + 5000);
}

}  // namespace hvd::test
