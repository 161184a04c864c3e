// SPDX-License-Identifier: Apache-2.0
//
// See stall_watch.h.
#include "libhvd/control/stall_watch.h"

#include <algorithm>
#include <utility>

#include "libhvd/base/rank_list.h"
#include "libhvd/base/status.h"

namespace hvd {
namespace {

// What a rank that is not stopped may take to answer.
constexpr int64_t kPatienceNs = 2000 * 1000000LL;
// Ranks that are told with their host and what they wait in; of more there are only numbers.
constexpr size_t kMostPlaces = 8;

std::string missing_text(const Stall::Missing& missing) {
  if (!missing.answered) return "does not answer: is it stopped?";
  if (missing.waits_in.empty()) return "waits in no operation";
  return "waits in " + missing.waits_in;
}

}  // namespace

std::string stall_text(const Stall& stall, double seconds,
                       const std::function<std::string(int rank)>& place) {
  std::string text = format(
      "%s \"%s\"%s is not submitted by all ranks after %g s: ", stall.kind.c_str(),
      stall.key.name.c_str(),
      stall.key.set == 0 ? "" : format(" of process set %d", stall.key.set).c_str(), seconds);
  text += "missing ";
  std::vector<int> rest;
  for (size_t i = 0; i < stall.missing.size(); ++i) {
    const Stall::Missing& missing = stall.missing[i];
    if (i >= kMostPlaces) {
      rest.push_back(missing.rank);
      continue;
    }
    if (i > 0) text += ", ";
    text += place(missing.rank) + " (" + missing_text(missing) + ")";
  }
  if (!rest.empty()) text += " and rank " + rank_list(rest);
  text += "; submitted by ";
  if (stall.ready.size() <= kMostPlaces) {
    for (size_t i = 0; i < stall.ready.size(); ++i) {
      text += (i > 0 ? ", " : "") + place(stall.ready[i]);
    }
  } else {
    text += "rank " + rank_list(stall.ready);
  }
  return text;
}

Entry StallWatch::ask(const Report& report, std::vector<int> members,
                      const std::vector<int>& joined, int64_t now_ns) {
  Question& question = open_[next_];
  question.stall.key = report.key;
  question.stall.kind = report.text;
  question.stall.final = report.final;
  question.stall.reporter = report.rank;
  for (int rank : members) {
    const bool has_joined = std::find(joined.begin(), joined.end(), rank) != joined.end();
    (has_joined ? question.stall.ready : question.asked).push_back(rank);
  }
  question.due_ns = now_ns + kPatienceNs;
  Entry entry;
  entry.kind = Entry::Kind::kAsk;
  entry.ticket = next_++;
  entry.key = report.key;
  return entry;
}

void StallWatch::take(const Report& answer) {
  const auto question = open_.find(answer.question);
  if (question == open_.end()) return;
  const std::vector<int>& asked = question->second.asked;
  if (std::find(asked.begin(), asked.end(), answer.rank) == asked.end()) return;
  question->second.answers[answer.rank] = answer;
}

std::vector<Stall> StallWatch::finished(int64_t now_ns) {
  std::vector<Stall> stalls;
  for (auto it = open_.begin(); it != open_.end();) {
    Question& question = it->second;
    if (question.answers.size() < question.asked.size() && now_ns < question.due_ns) {
      ++it;
      continue;
    }
    Stall& stall = question.stall;
    for (int rank : question.asked) {
      const auto answer = question.answers.find(rank);
      if (answer == question.answers.end()) {
        stall.missing.push_back({rank, false, ""});
      } else if (answer->second.submitted) {
        stall.ready.push_back(rank);
      } else {
        stall.missing.push_back({rank, true, answer->second.text});
      }
    }
    std::sort(stall.ready.begin(), stall.ready.end());
    // Otherwise it came while we asked.
    const bool still = std::binary_search(stall.ready.begin(), stall.ready.end(), stall.reporter);
    if (still && !stall.missing.empty()) stalls.push_back(std::move(stall));
    it = open_.erase(it);
  }
  return stalls;
}

int64_t StallWatch::due_ns() const {
  int64_t due = INT64_MAX;
  for (const auto& [id, question] : open_) due = std::min(due, question.due_ns);
  return due;
}

}  // namespace hvd
