// SPDX-License-Identifier: Apache-2.0
//
// See record.h.
#include "libhvd/record.h"

#include <optional>

#include "libhvd/base/codec.h"
#include "libhvd/control/description.h"

namespace hvd {
namespace {

// First in every record, for ever: what tells libraries apart that speak differently.
constexpr uint32_t kMagic = 0x31445648;  // "HVD1"

std::optional<Record> decode(std::string_view bytes) {
  Reader r(bytes);
  Record record;
  if (r.u32() != kMagic) return std::nullopt;
  record.version = r.string();
  record.host = r.string();
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
  record.mpi = r.string();
  // Another version may have put more behind it; that is for the comparison of versions.
  if (!r.ok()) return std::nullopt;
  return record;
}

}  // namespace

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
  w.string(mpi);
  return w.take();
}

Expected<std::vector<Record>> read_records(const std::vector<std::string>& encoded) {
  std::vector<Record> records;
  std::vector<int> others;
  std::string other_version;
  for (size_t rank = 0; rank < encoded.size(); ++rank) {
    std::optional<Record> record = decode(encoded[rank]);
    if (!record) {
      return error(Code::kInternal,
                   "the record of rank %zu cannot be read; do all ranks load the same libhvd?",
                   rank);
    }
    if (!records.empty() && record->version != records[0].version) {
      others.push_back(static_cast<int>(rank));
      other_version = record->version;
    }
    records.push_back(std::move(*record));
  }
  if (!others.empty()) {
    return error(Code::kInternal,
                 "rank 0 on %s has libhvd %s, rank %s on %s has libhvd %s; all ranks must load the "
                 "same",
                 records[0].host.c_str(), records[0].version.c_str(), rank_list(others).c_str(),
                 records[static_cast<size_t>(others[0])].host.c_str(), other_version.c_str());
  }
  return records;
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
