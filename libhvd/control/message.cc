// SPDX-License-Identifier: Apache-2.0
//
// Encoding of reports and entries. Decoding trusts nothing: counts are checked against what is
// left before memory is taken.
#include "libhvd/control/message.h"

namespace hvd {
namespace {

void write_tickets(Writer* w, const std::vector<Ticket>& tickets) {
  w->u32(static_cast<uint32_t>(tickets.size()));
  for (Ticket ticket : tickets) w->u64(ticket);
}

std::vector<Ticket> read_tickets(Reader* r) {
  const uint32_t count = r->u32();
  std::vector<Ticket> tickets;
  if (count > r->left() / sizeof(Ticket)) {
    r->fail();
    return tickets;
  }
  tickets.reserve(count);
  for (uint32_t i = 0; i < count; ++i) tickets.push_back(r->u64());
  return tickets;
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
      w.string(name);
      write_opinions(&w, opinions);
      break;
    case Kind::kGoodbye:
    case Kind::kPresence:
      w.i32(rank);
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
  if (kind < static_cast<uint8_t>(Kind::kReady) || kind > static_cast<uint8_t>(Kind::kForgotten)) {
    return std::nullopt;
  }
  report.kind = static_cast<Kind>(kind);
  switch (report.kind) {
    case Kind::kReady:
      report.tickets = read_tickets(&r);
      break;
    case Kind::kSubmit:
      report.name = r.string();
      report.opinions = read_opinions(&r);
      if (report.opinions.empty()) r.fail();
      for (const Opinion& opinion : report.opinions) {
        if (!Description::decode(opinion.description)) r.fail();
      }
      break;
    case Kind::kGoodbye:
    case Kind::kPresence:
      report.rank = r.i32();
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
      w->string(name);
      w->string(description);
      break;
    case Kind::kEvict:
      w->u64(ticket);
      break;
    case Kind::kBatch:
      w->u64(first_block);
      write_tickets(w, tickets);
      break;
    case Kind::kFail:
      w->string(name);
      w->string(text);
      break;
    case Kind::kLeft:
    case Kind::kPresence:
      w->i32(rank);
      break;
    case Kind::kNews:
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
  if (kind < static_cast<uint8_t>(Kind::kDefine) || kind > static_cast<uint8_t>(Kind::kPresence)) {
    r->fail();
    return entry;
  }
  entry.kind = static_cast<Kind>(kind);
  switch (entry.kind) {
    case Kind::kDefine:
      entry.ticket = r->u64();
      entry.name = r->string();
      entry.description = r->string();
      if (!Description::decode(entry.description)) r->fail();
      break;
    case Kind::kEvict:
      entry.ticket = r->u64();
      break;
    case Kind::kBatch:
      entry.first_block = r->u64();
      entry.tickets = read_tickets(r);
      if (entry.tickets.empty()) r->fail();
      break;
    case Kind::kFail:
      entry.name = r->string();
      entry.text = r->string();
      break;
    case Kind::kLeft:
    case Kind::kPresence:
      entry.rank = r->i32();
      break;
    case Kind::kNews:
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
