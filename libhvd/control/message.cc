// SPDX-License-Identifier: Apache-2.0
//
// Encoding of reports and entries. Decoding trusts nothing: counts are checked against what is
// left before memory is taken.
#include "libhvd/control/message.h"

namespace hvd {
namespace {

int32_t read_int32(Reader* r) {
  const uint64_t v = r->varint();
  if (v > INT32_MAX) r->fail();
  return static_cast<int32_t>(v);
}

bool read_flag(Reader* r) {
  const uint8_t v = r->u8();
  if (v > 1) r->fail();
  return v == 1;
}

void write_tickets(Writer* w, const std::vector<Ready>& tickets) {
  w->varint(tickets.size());
  for (const Ready& ready : tickets) {
    const bool joined = ready.joined >= 0;
    w->varint(ready.ticket * 2 + (joined ? 1 : 0));
    w->varint(static_cast<uint32_t>(ready.last));
    if (joined) w->varint(static_cast<uint32_t>(ready.joined));
  }
}

std::vector<Ready> read_tickets(Reader* r) {
  const uint64_t count = r->varint();
  std::vector<Ready> tickets;
  if (count > r->left() / 2) {
    r->fail();
    return tickets;
  }
  tickets.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t ticket = r->varint();
    const int32_t last = read_int32(r);
    tickets.push_back({ticket / 2, last, (ticket & 1) != 0 ? read_int32(r) : -1});
  }
  return tickets;
}

void write_key(Writer* w, const OpKey& key) {
  w->varint(static_cast<uint32_t>(key.set));
  w->string(key.name);
}

OpKey read_key(Reader* r) {
  OpKey key;
  key.set = read_int32(r);
  key.name = r->string();
  return key;
}

void write_opinions(Writer* w, const std::vector<Opinion>& opinions) {
  w->u32(static_cast<uint32_t>(opinions.size()));
  for (const Opinion& opinion : opinions) {
    w->string(opinion.description);
    w->u32(static_cast<uint32_t>(opinion.ranks.size()));
    for (int rank : opinion.ranks) w->i32(rank);
  }
}

std::vector<Opinion> read_opinions(Reader* r) {
  std::vector<Opinion> opinions;
  const uint32_t count = r->u32();
  for (uint32_t i = 0; i < count && r->ok(); ++i) {
    Opinion opinion;
    opinion.description = r->string();
    const uint32_t ranks = r->u32();
    if (ranks > r->left() / sizeof(int32_t)) r->fail();
    for (uint32_t k = 0; k < ranks && r->ok(); ++k) opinion.ranks.push_back(r->i32());
    opinions.push_back(std::move(opinion));
  }
  return opinions;
}

}  // namespace

std::string Report::encode() const {
  Writer w;
  w.u8(static_cast<uint8_t>(kind));
  switch (kind) {
    case Kind::kReady:
      write_tickets(&w, tickets);
      break;
    case Kind::kSubmit:
      write_key(&w, key);
      write_opinions(&w, opinions);
      w.i32(last);
      w.i32(joined);
      break;
    case Kind::kGoodbye:
    case Kind::kPresence:
    case Kind::kJoin:
      w.i32(rank);
      break;
    case Kind::kStalled:
      write_key(&w, key);
      w.i32(rank);
      w.u8(final ? 1 : 0);
      w.string(text);
      break;
    case Kind::kAnswer:
      w.u64(question);
      w.i32(rank);
      w.u8(submitted ? 1 : 0);
      w.string(text);
      break;
    case Kind::kForgotten:
      w.u64(evictions);
      break;
    case Kind::kNews:
      w.string(text);
      break;
    case Kind::kAllGone:
    case Kind::kBye:
    case Kind::kLeave:
      break;
  }
  return w.take();
}

std::optional<Report> Report::decode(std::string_view bytes) {
  Reader r(bytes);
  Report report;
  const uint8_t kind = r.u8();
  if (kind < static_cast<uint8_t>(Kind::kReady) || kind > static_cast<uint8_t>(Kind::kAnswer)) {
    return std::nullopt;
  }
  report.kind = static_cast<Kind>(kind);
  switch (report.kind) {
    case Kind::kReady:
      report.tickets = read_tickets(&r);
      break;
    case Kind::kSubmit:
      report.key = read_key(&r);
      report.opinions = read_opinions(&r);
      report.last = r.i32();
      report.joined = r.i32();
      if (report.opinions.empty()) r.fail();
      for (const Opinion& opinion : report.opinions) {
        if (!Description::decode(opinion.description)) r.fail();
      }
      break;
    case Kind::kGoodbye:
    case Kind::kPresence:
    case Kind::kJoin:
      report.rank = r.i32();
      break;
    case Kind::kStalled:
      report.key = read_key(&r);
      report.rank = r.i32();
      report.final = read_flag(&r);
      report.text = r.string();
      break;
    case Kind::kAnswer:
      report.question = r.u64();
      report.rank = r.i32();
      report.submitted = read_flag(&r);
      report.text = r.string();
      break;
    case Kind::kForgotten:
      report.evictions = r.u64();
      break;
    case Kind::kNews:
      report.text = r.string();
      break;
    case Kind::kAllGone:
    case Kind::kBye:
    case Kind::kLeave:
      break;
  }
  if (!r.ok() || !r.at_end()) return std::nullopt;
  return report;
}

void Entry::encode(Writer* w) const {
  w->u8(static_cast<uint8_t>(kind));
  switch (kind) {
    case Kind::kDefine:
      w->u64(ticket);
      write_key(w, key);
      w->string(description);
      break;
    case Kind::kEvict:
      w->u64(ticket);
      break;
    case Kind::kBatch:
      w->varint(static_cast<uint32_t>(set));
      w->varint(first_block);
      w->varint(end_block - first_block);
      write_tickets(w, tickets);
      break;
    case Kind::kFail:
      write_key(w, key);
      w->string(text);
      break;
    case Kind::kLeft:
    case Kind::kPresence:
    case Kind::kJoined:
      w->i32(rank);
      break;
    case Kind::kAsk:
      w->u64(ticket);
      write_key(w, key);
      break;
    case Kind::kNews:
    case Kind::kStop:
      w->string(text);
      break;
    case Kind::kEpochEnd:
    case Kind::kFinalize:
    case Kind::kGranted:
      break;
  }
}

Entry Entry::decode(Reader* r) {
  Entry entry;
  const uint8_t kind = r->u8();
  if (kind < static_cast<uint8_t>(Kind::kDefine) || kind > static_cast<uint8_t>(Kind::kStop)) {
    r->fail();
    return entry;
  }
  entry.kind = static_cast<Kind>(kind);
  switch (entry.kind) {
    case Kind::kDefine:
      entry.ticket = r->u64();
      entry.key = read_key(r);
      entry.description = r->string();
      if (!Description::decode(entry.description)) r->fail();
      break;
    case Kind::kEvict:
      entry.ticket = r->u64();
      break;
    case Kind::kBatch:
      entry.set = read_int32(r);
      entry.first_block = r->varint();
      entry.end_block = entry.first_block + r->varint();
      entry.tickets = read_tickets(r);
      if (entry.tickets.empty()) r->fail();
      break;
    case Kind::kFail:
      entry.key = read_key(r);
      entry.text = r->string();
      break;
    case Kind::kLeft:
    case Kind::kPresence:
    case Kind::kJoined:
      entry.rank = r->i32();
      break;
    case Kind::kAsk:
      entry.ticket = r->u64();
      entry.key = read_key(r);
      break;
    case Kind::kNews:
    case Kind::kStop:
      entry.text = r->string();
      break;
    case Kind::kEpochEnd:
    case Kind::kFinalize:
    case Kind::kGranted:
      break;
  }
  return entry;
}

}  // namespace hvd
