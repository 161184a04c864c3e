// SPDX-License-Identifier: Apache-2.0
//
// See mix_model.h.
#include "tests/ranks/mix_model.h"

#include <stdio.h>

#include <algorithm>
#include <utility>

#include "libhvd/hvd.h"
#include "tests/ranks/rounds_model.h"

namespace hvd::test {
namespace {

std::string shape_text(const Ask& ask, size_t piece) {
  std::string text;
  for (int64_t extent : ask.pieces[piece].shape) {
    const bool own = text.empty() && ask.ragged();
    text += (text.empty() ? "" : ",") + (own ? "*" : std::to_string(extent));
  }
  return "[" + text + "]";
}

std::string factor_text(double factor) {
  char text[40];
  snprintf(text, sizeof text, "%.17g", factor);
  return text;
}

// What can differ, in the order in which it is told, and what this rank says about it.
std::vector<std::pair<std::string, std::string>> aspects(const Ask& ask, size_t pieces) {
  std::vector<std::pair<std::string, std::string>> all = {
      {"the operation", ask.kind_text()},
      {"the number of tensors", std::to_string(ask.pieces.size())},
  };
  for (size_t i = 0; i < pieces; ++i) {
    const std::string of_which = pieces == 1 ? "" : " of tensor " + std::to_string(i);
    const bool there = i < ask.pieces.size();
    all.emplace_back("the type" + of_which, there ? name_of_type(ask.pieces[i].type) : "");
    all.emplace_back("the shape" + of_which, there ? shape_text(ask, i) : "");
  }
  all.emplace_back("the reduction", name_of_op(ask.op));
  all.emplace_back("the root", std::to_string(ask.root));
  all.emplace_back("the prescale factor", factor_text(ask.prescale));
  all.emplace_back("the postscale factor", factor_text(ask.postscale));
  return all;
}

int index_in(const std::vector<int>& members, int rank) {
  return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
}

int64_t rows_for(const Ask& ask, size_t members, size_t member) {
  if (!ask.splits.empty()) return ask.splits[member];
  return ask.pieces[0].shape[0] / static_cast<int64_t>(members);
}

}  // namespace

const char* name_of(Kind kind) {
  const char* names[kKinds] = {"allreduce", "allgather",     "broadcast",
                               "alltoall",  "reducescatter", "barrier"};
  return names[static_cast<int>(kind)];
}

std::string Ask::kind_text() const {
  return (grouped ? "grouped " : "") + std::string(name_of(kind));
}

bool is_valid(const Ask& ask) {
  if (ask.grouped && !ask.may_be_grouped()) return false;
  if (!ask.grouped && ask.pieces.size() != (ask.kind == Kind::kBarrier ? 0 : 1)) return false;
  for (const Piece& piece : ask.pieces) {
    if (ask.has_rows() && piece.shape.empty()) return false;
    if (!ask.reduces()) continue;
    const bool scaled = ask.prescale != 1 || ask.postscale != 1;
    if (piece.type == HVD_BOOL && (scaled || ask.op == HVD_AVERAGE)) return false;
    if (is_unsigned_type(piece.type) && (ask.prescale < 0 || ask.postscale < 0)) return false;
    if (ask.op == HVD_ADASUM &&
        (!is_floating_type(piece.type) || ask.kind == Kind::kReducescatter)) {
      return false;
    }
    // A product of eight must fit into the smallest floating type.
    if (ask.op == HVD_PRODUCT && (ask.prescale == 2 || ask.prescale == 3)) return false;
  }
  return true;
}

bool agree(const Ask& a, const Ask& b) {
  const size_t pieces = std::max(a.pieces.size(), b.pieces.size());
  return aspects(a, pieces) == aspects(b, pieces);
}

std::string unnamed(const std::string& kind, int joins, int number) {
  return kind + ".noname." + (joins == 0 ? "" : std::to_string(joins) + ".") +
         std::to_string(number);
}

Arithmetic Use::arithmetic(int rank) const {
  return {ask(rank).op, ask(rank).prescale, ask(rank).postscale, static_cast<int>(members.size())};
}

std::vector<char> Use::input(int rank, size_t piece) const {
  const Piece& p = ask(rank).pieces[piece];
  return elements(arithmetic(rank), p.type, rank, salt_of(piece), 0, p.elements());
}

// Of those that submit it; "" if all is well.
std::string Use::error() const {
  std::vector<int> here;
  std::vector<int> missing;
  for (int rank : members) (submitted_by(rank) ? here : missing).push_back(rank);
  const Ask& first = ask(here[0]);
  const std::string what = first.kind_text() + " \"" + spoken + "\"";
  size_t pieces = 0;
  for (int rank : here) pieces = std::max(pieces, ask(rank).pieces.size());
  for (size_t i = 0; i < aspects(first, pieces).size(); ++i) {
    std::vector<Said> said;
    for (int rank : here) said.push_back({rank, aspects(ask(rank), pieces)[i].second});
    std::string text = dispute(what, aspects(first, pieces)[i].first, said);
    if (!text.empty()) return text;
  }
  if (missing.empty()) return "";
  if (set == 0 && (first.kind == Kind::kAllreduce || first.kind == Kind::kBarrier)) return "";
  return what + (set == 0 ? "" : " of process set " + std::to_string(set)) + ": rank " +
         std::to_string(missing[0]) +
         " has joined; without it only allreduce and barrier of all ranks go on";
}

Outcome Use::outcome(int rank) const {
  Outcome outcome;
  if (doomed) {
    outcome.code = HVD_ERR_INVALID;
    outcome.text = "process set " + std::to_string(set) + " was removed";
    return outcome;
  }
  outcome.text = error();
  if (!outcome.text.empty()) {
    outcome.code = HVD_ERR_MISMATCH;
    return outcome;
  }
  for (size_t i = 0; i < ask(rank).pieces.size(); ++i) results_of(rank, i, &outcome);
  return outcome;
}

void Use::results_of(int rank, size_t piece, Outcome* outcome) const {
  const Ask& own = ask(rank);
  Piece result = own.pieces[piece];
  const int type = result.type;
  const int64_t row = result.shape.empty() ? 1 : result.row_elements();
  const size_t mine = static_cast<size_t>(index_in(members, rank));
  const uint64_t salt_here = salt_of(piece);
  std::vector<char> bytes;
  const auto append = [&](int from, int64_t begin, int64_t end) {
    const auto more = elements(arithmetic(from), type, from, salt_here, begin, end);
    bytes.insert(bytes.end(), more.begin(), more.end());
  };
  std::vector<int> here;
  for (int member : members) {
    if (submitted_by(member)) here.push_back(member);
  }
  const auto reduce = [&](int64_t begin, int64_t end) {
    bytes = reduced(arithmetic(rank), type, here, static_cast<int>(members.size() - here.size()),
                    salt_here, begin, end);
  };
  switch (own.kind) {
    case Kind::kAllreduce:
      reduce(0, result.elements());
      break;
    case Kind::kReducescatter: {
      const int64_t n = static_cast<int64_t>(members.size());
      const int64_t i = static_cast<int64_t>(mine);
      const int64_t rows = result.shape[0];
      const int64_t begin = i * (rows / n) + std::min(i, rows % n);
      result.shape[0] = rows / n + (i < rows % n ? 1 : 0);
      reduce(begin * row, (begin + result.shape[0]) * row);
      break;
    }
    case Kind::kBroadcast:
      append(own.root, 0, result.elements());
      break;
    case Kind::kAllgather:
      result.shape[0] = 0;
      for (int member : members) {
        const int64_t rows = ask(member).pieces[piece].shape[0];
        result.shape[0] += rows;
        append(member, 0, rows * row);
      }
      break;
    case Kind::kAlltoall:
      result.shape[0] = 0;
      for (int member : members) {
        int64_t before = 0;
        for (size_t i = 0; i < mine; ++i) before += rows_for(ask(member), members.size(), i);
        const int64_t rows = rows_for(ask(member), members.size(), mine);
        outcome->received.push_back(rows);
        result.shape[0] += rows;
        append(member, before * row, (before + rows) * row);
      }
      break;
    case Kind::kBarrier:
      break;
  }
  outcome->pieces.push_back(std::move(result));
  outcome->bytes.push_back(std::move(bytes));
}

}  // namespace hvd::test
