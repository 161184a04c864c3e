// SPDX-License-Identifier: Apache-2.0
//
// See record.h.
#include "libhvd/record.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "libhvd/base/codec.h"

namespace hvd {
namespace {

// First in every record, for ever: what tells libraries apart that speak differently.
constexpr uint32_t kMagic = 0x31445648;  // "HVD1"

constexpr size_t kMostNamed = 4;  // ranks in one text

// The beginning of a record, which all versions share.
bool decode_head(Reader* r, Record* record) {
  if (r->u32() != kMagic) return false;
  record->version = r->string();
  record->host = r->string();
  return r->ok();
}

std::optional<Record> decode(std::string_view bytes) {
  Reader r(bytes);
  Record record;
  if (!decode_head(&r, &record)) return std::nullopt;
  record.node = r.i32();
  record.secret = r.string();
  record.listener = r.string();
  const uint32_t addresses = r.u32();
  for (uint32_t i = 0; i < addresses && r.ok(); ++i) record.addresses.emplace_back(r.string());
  record.port = r.i32();
  record.block_bytes = r.i64();
  record.slots = r.i32();
  record.fusion_bytes = r.i64();
  record.cache_capacity = r.i64();
  record.cycle_ns = r.i64();
  record.fuse_groups = r.u8() != 0;
  record.wire = r.string();
  record.stall_warn_ns = r.i64();
  record.stall_stop_ns = r.i64();
  record.mpi = r.string();
  record.program_mpi.state = static_cast<ProgramMpi::State>(r.i32());
  record.program_mpi.rank = r.i32();
  record.program_mpi.size = r.i32();
  record.again = r.u8() != 0;
  record.report = r.string();
  record.objection = r.string();
  if (!r.ok()) return std::nullopt;
  return record;
}

// "rank 1 on node0, rank 2 on node1 and 3 more", by `text` for each.
template <typename Text>
std::string list_of(const std::vector<int>& ranks, Text text) {
  std::string list;
  for (size_t i = 0; i < ranks.size() && i < kMostNamed; ++i) {
    list += (i == 0 ? "" : ", ") + text(ranks[i]);
  }
  if (ranks.size() > kMostNamed) list += format(" and %zu more", ranks.size() - kMostNamed);
  return list;
}

// The versions, each with its ranks, in the order of their lowest ranks.
Status compare_versions(const std::vector<Record>& heads) {
  std::vector<std::pair<std::string, std::vector<int>>> camps;
  for (size_t rank = 0; rank < heads.size(); ++rank) {
    const std::string& version = heads[rank].version;
    auto camp =
        std::find_if(camps.begin(), camps.end(), [&](const auto& c) { return c.first == version; });
    if (camp == camps.end()) camp = camps.insert(camps.end(), {version, {}});
    camp->second.push_back(static_cast<int>(rank));
  }
  if (camps.size() < 2) return ok_status();
  std::string text;
  for (const auto& [version, ranks] : camps) {
    text += (text.empty() ? "" : "; ") +
            list_of(ranks, [&](int rank) { return rank_on_host(heads, rank); }) +
            (ranks.size() == 1 ? " has" : " have") + " libhvd " + version;
  }
  return Status(Code::kMismatch, text + ". All ranks must load the same");
}

const char* name_of(ProgramMpi::State state) {
  switch (state) {
    case ProgramMpi::State::kSingle:
      return "MPI_THREAD_SINGLE";
    case ProgramMpi::State::kFunneled:
      return "MPI_THREAD_FUNNELED";
    case ProgramMpi::State::kSerialized:
      return "MPI_THREAD_SERIALIZED";
    default:
      return "MPI_THREAD_MULTIPLE";
  }
}

}  // namespace

std::string rank_on_host(const std::vector<Record>& records, int rank) {
  return format("rank %d on %s", rank, records[static_cast<size_t>(rank)].host.c_str());
}

std::string Record::encode() const {
  Writer w;
  w.u32(kMagic);
  w.string(version);
  w.string(host);
  w.i32(node);
  w.string(secret);
  w.string(listener);
  w.u32(static_cast<uint32_t>(addresses.size()));
  for (const std::string& address : addresses) w.string(address);
  w.i32(port);
  w.i64(block_bytes);
  w.i32(slots);
  w.i64(fusion_bytes);
  w.i64(cache_capacity);
  w.i64(cycle_ns);
  w.u8(fuse_groups ? 1 : 0);
  w.string(wire);
  w.i64(stall_warn_ns);
  w.i64(stall_stop_ns);
  w.string(mpi);
  w.i32(static_cast<int32_t>(program_mpi.state));
  w.i32(program_mpi.rank);
  w.i32(program_mpi.size);
  w.u8(again ? 1 : 0);
  w.string(report);
  w.string(objection);
  return w.take();
}

Expected<std::vector<Record>> read_records(const std::vector<std::string>& encoded) {
  std::vector<Record> records(encoded.size());
  for (size_t rank = 0; rank < encoded.size(); ++rank) {
    Reader head(encoded[rank]);
    if (!decode_head(&head, &records[rank])) {
      return error(Code::kInternal,
                   "the record of rank %zu cannot be read; do all ranks load the same libhvd?",
                   rank);
    }
  }
  if (Status s = compare_versions(records); !s.ok()) return s;
  for (size_t rank = 0; rank < encoded.size(); ++rank) {
    std::optional<Record> record = decode(encoded[rank]);
    if (!record) {
      return error(Code::kInternal, "the record of %s cannot be read",
                   rank_on_host(records, static_cast<int>(rank)).c_str());
    }
    records[rank] = std::move(*record);
  }
  for (size_t rank = 0; rank < records.size(); ++rank) {
    if (records[rank].objection.empty()) continue;
    return Status(Code::kMismatch,
                  rank_on_host(records, static_cast<int>(rank)) + ": " + records[rank].objection);
  }
  return records;
}

Status check_program_mpi(const std::vector<Record>& records, bool needed) {
  const int size = static_cast<int>(records.size());
  std::vector<int> strangers, finalised, narrow;
  for (int rank = 0; rank < size; ++rank) {
    const ProgramMpi& mpi = records[static_cast<size_t>(rank)].program_mpi;
    if (mpi.up() && (mpi.rank != rank || mpi.size != size)) strangers.push_back(rank);
    if (mpi.state == ProgramMpi::State::kFinalised) finalised.push_back(rank);
    if (mpi.up() && mpi.state != ProgramMpi::State::kMultiple) narrow.push_back(rank);
  }
  if (!strangers.empty()) {
    const auto both = [&](int rank) {
      const ProgramMpi& mpi = records[static_cast<size_t>(rank)].program_mpi;
      return format("%s is rank %d of %d for PMIx and rank %d of %d for MPI",
                    rank_on_host(records, rank).c_str(), rank, size, mpi.rank, mpi.size);
    };
    return Status(Code::kMismatch,
                  list_of(strangers, both) +
                      ". Is this MPI built with the launcher's PMIx? srun --mpi=list and ompi_info "
                      "tell");
  }
  if (!needed) return ok_status();
  const auto name = [&](int rank) { return rank_on_host(records, rank); };
  if (!finalised.empty()) {
    return Status(Code::kState, list_of(finalised, name) +
                                    ": the program has finalised MPI before hvd_init, and tensors "
                                    "travel between nodes by it. Finalise it after hvd_shutdown, "
                                    "or leave MPI to hvd_init");
  }
  if (!narrow.empty()) {
    const auto level = [&](int rank) {
      return rank_on_host(records, rank) + " with " +
             name_of(records[static_cast<size_t>(rank)].program_mpi.state);
    };
    return Status(Code::kState,
                  "the program has initialised MPI for too few threads: " + list_of(narrow, level) +
                      ". Two users of MPI in a process need MPI_THREAD_MULTIPLE: "
                      "call MPI_Init_thread with it, or leave MPI to hvd_init");
  }
  return ok_status();
}

Status check_again(const std::vector<Record>& records, bool needed) {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < records.size(); ++rank) {
    if (records[rank].again) ranks.push_back(static_cast<int>(rank));
  }
  if (!needed || ranks.empty()) return ok_status();
  return Status(Code::kState,
                list_of(ranks, [&](int rank) { return rank_on_host(records, rank); }) +
                    ": another program of this step has run there before, and MPI, by which "
                    "tensors travel between nodes, starts once in a task. Start each program with "
                    "an srun of its own");
}

Expected<Layout> layout_of(const std::vector<Record>& records) {
  std::vector<int> nodes;
  std::vector<std::string> hosts;
  bool known = true;
  for (const Record& record : records) {
    nodes.push_back(record.node);
    hosts.push_back(record.host);
    known = known && record.node >= 0;
  }
  if (known) return layout_from_nodes(nodes);
  return layout_from_names(hosts);
}

}  // namespace hvd
