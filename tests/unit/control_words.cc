// SPDX-License-Identifier: Apache-2.0
//
// See control_words.h.
#include "tests/unit/control_words.h"

#include <algorithm>

namespace hvd::test {

Description described(OpKind kind, std::vector<TensorShape> tensors) {
  Description d;
  d.kind = kind;
  d.tensors = std::move(tensors);
  return d;
}

Description described(OpKind kind, std::vector<int64_t> shape) {
  return described(kind, std::vector<TensorShape>{{DataType::kFloat32, std::move(shape)}});
}

Description group(OpKind kind, std::vector<TensorShape> tensors) {
  Description d = described(kind, std::move(tensors));
  d.grouped = true;
  return d;
}

Description changed(Description description, void (*change)(Description*)) {
  change(&description);
  return description;
}

std::string floats(int64_t n) {
  return described(OpKind::kAllreduce, std::vector<int64_t>{n}).encode();
}

std::string adding(std::vector<int32_t> ranks) {
  Description d;
  d.kind = OpKind::kAddSet;
  d.ranks = std::move(ranks);
  return d.encode();
}

std::string removing(int32_t set) {
  Description d;
  d.kind = OpKind::kRemoveSet;
  d.root = set;
  return d.encode();
}

std::string barrier_text() {
  return described(OpKind::kBarrier, std::vector<TensorShape>()).encode();
}

OpKey key(const std::string& name, int32_t set) {
  OpKey key;
  key.set = set;
  key.name = name;
  return key;
}

Report submitted(const OpKey& key, const std::string& description, int32_t joined) {
  Report report;
  report.kind = Report::Kind::kSubmit;
  report.key = key;
  report.opinions.push_back({description, {}});
  report.joined = joined;
  return report;
}

Report submitted(const std::string& name, const std::string& description) {
  return submitted(key(name), description);
}

Report ready(std::vector<Ready> tickets) {
  Report report;
  report.tickets = std::move(tickets);
  return report;
}

Report ready(Ticket ticket) { return ready(std::vector<Ready>{{ticket, 0, -1}}); }

Report joins(int rank) {
  Report report;
  report.kind = Report::Kind::kJoin;
  report.rank = rank;
  return report;
}

Report stalled(const OpKey& key, int rank, bool final) {
  Report report;
  report.kind = Report::Kind::kStalled;
  report.key = key;
  report.rank = rank;
  report.final = final;
  report.text = "allreduce";
  return report;
}

Report forgotten(uint64_t evictions) {
  Report report;
  report.kind = Report::Kind::kForgotten;
  report.evictions = evictions;
  return report;
}

Entry defined(Ticket ticket, const OpKey& key, const std::string& description) {
  Entry entry;
  entry.kind = Entry::Kind::kDefine;
  entry.ticket = ticket;
  entry.key = key;
  entry.description = description;
  return entry;
}

Entry defined(Ticket ticket, const std::string& name, const std::string& description) {
  return defined(ticket, key(name), description);
}

Entry evicted(Ticket ticket) {
  Entry entry;
  entry.kind = Entry::Kind::kEvict;
  entry.ticket = ticket;
  return entry;
}

Entry batch(std::vector<Ready> tickets, int32_t set) {
  Entry entry;
  entry.kind = Entry::Kind::kBatch;
  entry.tickets = std::move(tickets);
  entry.set = set;
  return entry;
}

Entry failed(const OpKey& key) {
  Entry entry;
  entry.kind = Entry::Kind::kFail;
  entry.key = key;
  return entry;
}

Entry of_kind(Entry::Kind kind) {
  Entry entry;
  entry.kind = kind;
  return entry;
}

namespace {

std::string text_of(const OpKey& key) {
  return (key.set == 0 ? "" : std::to_string(key.set) + ":") + key.name;
}

void append(std::string* text, const std::string& more) {
  if (!text->empty()) *text += "; ";
  *text += more;
}

}  // namespace

std::string Told::operator()(const std::vector<Entry>& entries) {
  std::string text;
  for (const Entry& entry : entries) {
    switch (entry.kind) {
      case Entry::Kind::kDefine:
        names_.resize(std::max<size_t>(names_.size(), entry.ticket + 1));
        names_[entry.ticket] = text_of(entry.key);
        append(&text, "define " + names_[entry.ticket]);
        break;
      case Entry::Kind::kBatch:
        append(&text, "batch");
        for (const Ready& ready : entry.tickets) text += " " + names_[ready.ticket];
        break;
      case Entry::Kind::kEvict:
        append(&text, "evict " + names_[entry.ticket]);
        break;
      case Entry::Kind::kFail:
        append(&text, "fail " + text_of(entry.key));
        break;
      case Entry::Kind::kLeft:
        append(&text, "left " + std::to_string(entry.rank));
        break;
      case Entry::Kind::kJoined:
        append(&text, "joined " + std::to_string(entry.rank));
        break;
      case Entry::Kind::kEpochEnd:
        append(&text, "epoch");
        break;
      default:
        append(&text, "other");
    }
  }
  return text;
}

std::string told(const std::vector<Report>& reports) {
  std::string text;
  const auto joined = [](int32_t rank) {
    return rank < 0 ? "" : ", " + std::to_string(rank) + " joined";
  };
  for (const Report& report : reports) {
    switch (report.kind) {
      case Report::Kind::kReady:
        append(&text, "ready");
        for (const Ready& ready : report.tickets) {
          text += " " + std::to_string(ready.ticket) + joined(ready.joined);
        }
        break;
      case Report::Kind::kSubmit:
        append(&text, "submit " + text_of(report.key) + joined(report.joined));
        break;
      case Report::Kind::kJoin:
        append(&text, "join " + std::to_string(report.rank));
        break;
      case Report::Kind::kStalled:
        append(&text, (report.final ? "given up " : "stalled ") + text_of(report.key));
        break;
      case Report::Kind::kForgotten:
        append(&text, "forgotten " + std::to_string(report.evictions));
        break;
      default:
        append(&text, "other");
    }
  }
  return text;
}

}  // namespace hvd::test
