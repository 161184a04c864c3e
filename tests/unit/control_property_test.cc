// SPDX-License-Identifier: Apache-2.0
//
// What holds for every schedule, description and message, asked of ten thousand random ones each.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "libhvd/control/message.h"
#include "libhvd/control/scheduler.h"
#include "tests/unit/catch.h"
#include "tests/unit/control_words.h"
#include "tests/unit/random_cases.h"

using namespace hvd;
using namespace hvd::test;

namespace {

constexpr int kCases = 10000;

TensorShape random_tensor(Random* random) {
  TensorShape tensor;
  tensor.type = static_cast<DataType>(random->below(11));
  for (int64_t dims = random->from(0, random->one_in(5) ? 16 : 3); dims > 0; --dims) {
    tensor.shape.push_back(random->one_in(10) ? 0 : random->from(1, 9));
  }
  return tensor;
}

Description random_description(Random* random) {
  Description d;
  d.kind = static_cast<OpKind>(random->below(kOpKinds));
  d.op = static_cast<ReduceOp>(random->below(kOpCount));
  d.device = random->one_in(4) ? DeviceClass::kGpu : DeviceClass::kHost;
  d.root = static_cast<int32_t>(random->below(random->one_in(2) ? 3 : 100000));
  if (random->one_in(3)) d.prescale = static_cast<double>(random->from(-1000, 1000)) / 8;
  if (random->one_in(3)) d.postscale = static_cast<double>(random->from(-1000, 1000)) / 8;
  if (d.kind <= OpKind::kReducescatter) {
    d.grouped = random->one_in(3);
    for (int64_t n = d.grouped ? random->from(1, 5) : 1; n > 0; --n) {
      d.tensors.push_back(random_tensor(random));
      if (!d.ragged()) continue;
      std::vector<int64_t>& shape = d.tensors.back().shape;
      shape.insert(shape.begin(), 0);
    }
  }
  if (d.kind == OpKind::kAddSet) {
    for (int rank = 0; rank < 40; ++rank) {
      if (random->one_in(3)) d.ranks.push_back(rank * (random->one_in(2) ? 1 : 1000));
    }
    std::sort(d.ranks.begin(), d.ranks.end());
    d.ranks.erase(std::unique(d.ranks.begin(), d.ranks.end()), d.ranks.end());
  }
  return d;
}

bool same(const Description& a, const Description& b) {
  return a.kind == b.kind && a.op == b.op && a.root == b.root && a.prescale == b.prescale &&
         a.postscale == b.postscale && a.device == b.device && a.grouped == b.grouped &&
         a.tensors == b.tensors && a.ranks == b.ranks;
}

int32_t random_rank(Random* random) { return static_cast<int32_t>(random->next() >> 33); }

OpKey random_key(Random* random) {
  return key(random->bytes(random->below(30)), random->one_in(2) ? 0 : random_rank(random));
}

std::vector<Ready> random_tickets(Random* random, size_t least) {
  std::vector<Ready> tickets;
  for (size_t n = least + random->below(5); n > 0; --n) {
    tickets.push_back(
        {random->next() >> 1, random_rank(random), random->one_in(2) ? -1 : random_rank(random)});
  }
  return tickets;
}

Report random_report(Random* random) {
  Report report;
  report.kind = static_cast<Report::Kind>(random->from(1, 12));
  report.tickets = random_tickets(random, 0);
  report.key = random_key(random);
  for (int64_t n = random->from(1, 4); n > 0; --n) {
    Opinion opinion;
    opinion.description = random_description(random).encode();
    for (size_t k = random->below(4); k > 0; --k) opinion.ranks.push_back(random_rank(random));
    report.opinions.push_back(opinion);
  }
  report.last = random_rank(random);
  report.joined = random->one_in(2) ? -1 : random_rank(random);
  report.rank = random_rank(random);
  report.evictions = random->next();
  report.final = random->one_in(2);
  report.question = random->next();
  report.submitted = random->one_in(2);
  report.text = random->bytes(random->below(100));
  return report;
}

Entry random_entry(Random* random) {
  Entry entry;
  entry.kind = static_cast<Entry::Kind>(random->from(1, 13));
  entry.ticket = random->next();
  entry.key = random_key(random);
  entry.description = random_description(random).encode();
  entry.set = random_rank(random);
  entry.tickets = random_tickets(random, 1);
  entry.first_block = random->next();
  entry.end_block = entry.first_block + random->below(1000);
  entry.rank = random_rank(random);
  entry.text = random->bytes(random->below(100));
  return entry;
}

std::string encoded(const std::vector<Entry>& entries) {
  Writer writer;
  for (const Entry& entry : entries) entry.encode(&writer);
  return writer.take();
}

// Nothing if the bytes are no sequence of entries.
std::optional<std::vector<Entry>> decoded(const std::string& bytes) {
  Reader reader(bytes);
  std::vector<Entry> entries;
  while (reader.ok() && !reader.at_end()) entries.push_back(Entry::decode(&reader));
  if (!reader.ok()) return std::nullopt;
  return entries;
}

// `bytes` with something wrong.
std::string damaged(std::string bytes, Random* random) {
  switch (random->below(3)) {
    case 0:
      return bytes.substr(0, random->below(bytes.size() + 1));
    case 1:
      return bytes + random->bytes(1 + random->below(8));
    default:
      for (int64_t n = random->from(1, 3); n > 0 && !bytes.empty(); --n) {
        bytes[random->below(bytes.size())] = static_cast<char>(random->next());
      }
      return bytes;
  }
}

}  // namespace

TEST_CASE("every description comes back as it was, and only its own bytes stand for it") {
  for_random_cases("descriptions", kCases, [](Random* random) -> std::string {
    const Description d = random_description(random);
    const std::string bytes = d.encode();
    const std::optional<Description> back = Description::decode(bytes);
    if (!back || !same(d, *back)) return "another description came back";
    for (const std::string& other : {damaged(bytes, random), random->bytes(random->below(80))}) {
      const std::optional<Description> read = Description::decode(other);
      if (!read) continue;
      if (read->encode() != other) return "two encodings of one description";
      if (read->bytes() < 0) return "a number of bytes below 0";
    }
    return "";
  });
}

TEST_CASE("every report comes back as it was, and any bytes are a report or are refused") {
  for_random_cases("reports", kCases, [](Random* random) -> std::string {
    const std::string bytes = random_report(random).encode();
    const std::optional<Report> back = Report::decode(bytes);
    if (!back || back->encode() != bytes) return "another report came back";
    for (const std::string& other : {damaged(bytes, random), random->bytes(random->below(80))}) {
      const std::optional<Report> read = Report::decode(other);
      if (read && read->encode() != other) return "two encodings of one report";
    }
    return "";
  });
}

TEST_CASE("every schedule comes back as it was, and any bytes are a schedule or are refused") {
  for_random_cases("entries", kCases, [](Random* random) -> std::string {
    std::vector<Entry> entries;
    for (int64_t n = random->from(1, 4); n > 0; --n) entries.push_back(random_entry(random));
    const std::string bytes = encoded(entries);
    const auto back = decoded(bytes);
    if (!back || back->size() != entries.size() || encoded(*back) != bytes) {
      return "another schedule came back";
    }
    for (const std::string& other : {damaged(bytes, random), random->bytes(random->below(80))}) {
      const auto read = decoded(other);
      if (read && encoded(*read) != other) return "two encodings of one schedule";
    }
    return "";
  });
}

namespace {

// What fits_together promises, said again.
std::string class_of(const OpKey& key, const Description& d, bool fuse_groups, Ticket ticket) {
  std::string text = std::to_string(key.set) + "/" + std::to_string(static_cast<int>(d.kind)) +
                     "/" + name_of(d.device);
  if (d.kind == OpKind::kAllreduce || d.kind == OpKind::kReducescatter) {
    text += std::string("/") + name_of(d.tensors[0].type) + "/" +
            name_of(d.op == ReduceOp::kAverage ? ReduceOp::kSum : d.op);
  }
  if (d.kind == OpKind::kBroadcast) text += "/" + std::to_string(d.root);
  if (d.grouped && !fuse_groups) text += "/alone " + std::to_string(ticket);
  return text;
}

int64_t bytes_of(const Description& d) {
  int64_t bytes = 0;
  for (const TensorShape& tensor : d.tensors) {
    bytes += tensor.elements() * static_cast<int64_t>(size_of(tensor.type));
  }
  return bytes;
}

// Blocks that the batch takes: of each type that is computed with for itself.
uint64_t blocks_of(const std::vector<Description>& batch, uint64_t block_bytes) {
  const OpKind kind = batch[0].kind;
  const bool computes = kind == OpKind::kAllreduce || kind == OpKind::kReducescatter;
  std::map<DataType, int64_t> bytes;
  for (const Description& d : batch) {
    for (const TensorShape& tensor : d.tensors) {
      bytes[computes ? tensor.type : DataType::kUint8] +=
          tensor.elements() * static_cast<int64_t>(size_of(tensor.type));
    }
  }
  const bool unknown = kind == OpKind::kAllgather || kind == OpKind::kAlltoall ||
                       (kind == OpKind::kAllreduce && batch[0].op == ReduceOp::kAdasum);
  uint64_t blocks = 0;
  for (const auto& [type, n] : bytes) {
    blocks += unknown ? kUnknownBlocks : (static_cast<uint64_t>(n) + block_bytes - 1) / block_bytes;
  }
  return blocks;
}

// The job as its root sees it: names become complete in some order and are put into batches.
class Schedule {
 public:
  Schedule(Scheduler::Limits limits, Random* random)
      : limits_(limits), random_(*random), scheduler_(limits, 4) {}

  std::string run() {
    const int names = static_cast<int>(random_.from(1, 16));
    for (int submitted = 0; submitted < names || finished_ < scheduler_.formed();) {
      if (submitted < names && random_.one_in(2)) {
        submit(submitted++);
      } else if (finished_ < scheduler_.formed() && random_.one_in(2)) {
        ++finished_;
      }
      scheduler_.form(finished_, 0);
      for (const Entry& entry : scheduler_.drain()) {
        if (std::string wrong = take(entry); !wrong.empty()) return wrong;
      }
      if (scheduler_.formed() - finished_ > static_cast<uint64_t>(limits_.batches_in_flight)) {
        return "too many batches in flight";
      }
    }
    return complete_.empty() ? "" : "a name in no batch";
  }

 private:
  void submit(int name) {
    Description d = random_description(&random_);
    if (d.kind > OpKind::kBarrier) d = last_;
    for (TensorShape& tensor : d.tensors) {
      if (tensor.elements() > 1000) tensor.shape = {7};
    }
    d.root = static_cast<int32_t>(random_.below(2));
    if (random_.one_in(2)) d = last_;
    last_ = d;
    scheduler_.take(submitted(key(std::to_string(name), random_.one_in(4) ? 1 : 0), d.encode()), 0);
  }

  std::string take(const Entry& entry) {
    if (entry.kind == Entry::Kind::kDefine) {
      said_[entry.ticket] = *Description::decode(entry.description);
      keys_[entry.ticket] = entry.key;
      complete_.push_back(entry.ticket);
      return "";
    }
    if (entry.kind == Entry::Kind::kEvict) {
      if (said_.erase(entry.ticket) == 0) return "an unknown ticket was evicted";
      if (std::count(complete_.begin(), complete_.end(), entry.ticket) > 0) {
        return "a ticket was evicted before it was in a batch";
      }
      return "";
    }
    if (entry.kind != Entry::Kind::kBatch) return "an entry that nobody asked for";
    return take_batch(entry);
  }

  std::string take_batch(const Entry& batch) {
    if (batch.tickets.empty() || complete_.empty() || batch.tickets[0].ticket != complete_[0]) {
      return "a batch that does not begin with what is complete for longest";
    }
    const auto class_of_ticket = [this](Ticket ticket) {
      return class_of(keys_[ticket], said_[ticket], limits_.fuse_groups, ticket);
    };
    const std::string what = class_of_ticket(complete_[0]);
    if (batch.set != keys_[complete_[0]].set) return "a batch of another process set";
    std::vector<Description> together;
    std::vector<Ticket> rest;
    size_t next = 0;
    int64_t bytes = 0;
    for (Ticket ticket : complete_) {
      const Description& d = said_[ticket];
      if (next < batch.tickets.size() && batch.tickets[next].ticket == ticket) {
        ++next;
        bytes += bytes_of(d);
        together.push_back(d);
        if (class_of_ticket(ticket) != what) return "a batch of different kinds";
        continue;
      }
      rest.push_back(ticket);
      if (class_of_ticket(ticket) == what && bytes + bytes_of(d) <= limits_.fusion_bytes) {
        return "a tensor that fits was left out";
      }
    }
    if (next != batch.tickets.size()) return "a ticket twice, unknown or out of order";
    if (next > 1 && bytes > limits_.fusion_bytes) return "a batch above the threshold";
    if (batch.first_block != next_block_) return "blocks with a gap";
    next_block_ += blocks_of(together, limits_.block_bytes);
    if (batch.end_block != next_block_) return "other blocks than its tensors need";
    complete_ = rest;
    return "";
  }

  const Scheduler::Limits limits_;
  Random& random_;
  Scheduler scheduler_;
  Description last_;
  std::map<Ticket, Description> said_;
  std::map<Ticket, OpKey> keys_;
  std::vector<Ticket> complete_;  // in no batch yet, in order
  uint64_t finished_ = 0;
  uint64_t next_block_ = 0;
};

}  // namespace

TEST_CASE("every schedule has each ticket in one batch, of one kind, as full as it may be") {
  for_random_cases("schedules", kCases, [](Random* random) -> std::string {
    Scheduler::Limits limits;
    const int64_t thresholds[] = {0, 100, 1000, 1 << 20};
    limits.fusion_bytes = thresholds[random->below(4)];
    limits.cache_capacity = random->below(8);
    limits.batches_in_flight = static_cast<int>(random->from(1, 3));
    limits.fuse_groups = random->one_in(2);
    limits.block_bytes = 64 * static_cast<uint64_t>(random->from(1, 8));
    return Schedule(limits, random).run();
  });
}
