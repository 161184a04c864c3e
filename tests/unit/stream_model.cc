// SPDX-License-Identifier: Apache-2.0
//
// Inputs and results of the batches of stream_job.h, worked out plainly; and random schedules.
#include <string.h>

#include <algorithm>

#include "libhvd/data/kernels.h"
#include "tests/unit/stream_job.h"

namespace hvd::test {
namespace {

const DataType kTypes[] = {DataType::kUint8,   DataType::kInt8,     DataType::kUint16,
                           DataType::kInt16,   DataType::kInt32,    DataType::kInt64,
                           DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32,
                           DataType::kFloat64, DataType::kBool};

// Element `number` of something that `seed` tells from others.
double value(uint64_t seed, size_t number) {
  Random random(seed * 1000003 + number);
  return static_cast<double>(random.from(-1000, 1000)) / 512;
}

Bytes join(const std::vector<Bytes>& parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// What `parts` make, one after the other.
Bytes reduced(const Item& item, const std::vector<Bytes>& parts) {
  std::vector<const void*> from;
  for (const Bytes& part : parts) from.push_back(part.data());
  Bytes to(parts[0].size());
  kernels().reduce(item.type, item.op, to.data(), from.data(), static_cast<int>(from.size()),
                   to.size() / size_of(item.type));
  return to;
}

Bytes scaled(const Item& item, const Bytes& bytes, Scale scale) {
  Bytes to(bytes.size());
  kernels().scale(item.type, to.data(), bytes.data(), to.size() / size_of(item.type), scale);
  return to;
}

// The tree that plan.h promises: members of a node in order, then nodes.
Bytes reduced_by_all(const Item& item, const Layout& layout, size_t tensor) {
  const Team team = Team::of(layout, item.members[0], item.members);
  std::vector<Bytes> nodes;
  for (const auto& members : team.members_by_node) {
    std::vector<Bytes> parts;
    for (int member : members) {
      Bytes input = input_of(item, member, tensor);
      if (team.ranks[member] == item.joined) std::fill(input.begin(), input.end(), 0);
      parts.push_back(scaled(item, input, item.before));
    }
    nodes.push_back(reduced(item, parts));
  }
  size_t power = 1;
  while (power * 2 <= nodes.size()) power *= 2;
  for (size_t i = power; i < nodes.size(); ++i) {
    nodes[i - power] = reduced(item, {nodes[i - power], nodes[i]});
  }
  for (; power > 1; power /= 2) {
    for (size_t i = 0; i < power / 2; ++i) {
      nodes[i] = reduced(item, {nodes[2 * i], nodes[2 * i + 1]});
    }
  }
  return scaled(item, nodes[0], item.after);
}

}  // namespace

std::string Item::text() const {
  std::string text = std::string(name_of(kind)) + " of " + name_of(type) + ", " + name_of(op) + ",";
  for (int member : members) text += " " + std::to_string(member);
  return text;
}

size_t elements_of(const Item& item, int member, size_t tensor) {
  switch (item.kind) {
    case OpKind::kReducescatter:
      return item.rows[0][tensor] * item.row_elements[tensor];
    case OpKind::kAllgather:
      return item.rows[member][tensor] * item.row_elements[tensor];
    case OpKind::kAlltoall: {
      size_t rows = 0;
      for (size_t to = 0; to < item.members.size(); ++to) {
        rows += item.rows[member][to * item.tensors() + tensor];
      }
      return rows * item.row_elements[tensor];
    }
    default:
      return item.elements[tensor];
  }
}

Bytes input_of(const Item& item, int member, size_t tensor) {
  const size_t n = elements_of(item, member, tensor);
  const size_t members = item.members.size();
  const uint64_t whose = item.pattern == Item::Pattern::kSame ? 0 : static_cast<uint64_t>(member);
  const uint64_t seed =
      ((item.seed == 0 ? item.first_block + 1000 : item.seed) * 64 + whose) * 16 + tensor;
  Bytes bytes(n * size_of(item.type));
  for (size_t i = 0; i < n; ++i) {
    const bool mine =
        item.pattern != Item::Pattern::kOrthogonal || i % members == static_cast<size_t>(member);
    const double x = mine ? value(seed, i) : 0;
    char* to = bytes.data() + i * size_of(item.type);
    if (is_floating(item.type)) {
      kernels().convert(item.type, to, DataType::kFloat64, &x, 1);
    } else if (item.type == DataType::kBool) {
      *to = x > 1 ? 1 : 0;
    } else {
      const int64_t whole = static_cast<int64_t>(x * 512);
      memcpy(to, &whole, size_of(item.type));
    }
  }
  return bytes;
}

Bytes result_of(const Item& item, const Layout& layout, int member, size_t tensor) {
  const int members = static_cast<int>(item.members.size());
  std::vector<Bytes> parts;
  switch (item.kind) {
    case OpKind::kBroadcast: {
      const Team team = Team::of(layout, item.root, item.members);
      return input_of(item, team.index, tensor);
    }
    case OpKind::kAllgather:
      for (int from = 0; from < members; ++from) parts.push_back(input_of(item, from, tensor));
      return join(parts);
    case OpKind::kAlltoall:
      for (int from = 0; from < members; ++from) {
        const Bytes input = input_of(item, from, tensor);
        size_t at = 0;
        for (int to = 0; to <= member; ++to) {
          const size_t n = item.rows[from][static_cast<size_t>(to) * item.tensors() + tensor] *
                           item.row_elements[tensor] * size_of(item.type);
          const auto begin = input.begin() + static_cast<long>(at);
          if (to == member) parts.emplace_back(begin, begin + static_cast<long>(n));
          at += n;
        }
      }
      return join(parts);
    case OpKind::kReducescatter: {
      const Bytes all = reduced_by_all(item, layout, tensor);
      const Range rows = rows_of(item.rows[0][tensor], members, member);
      const size_t row = item.row_elements[tensor] * size_of(item.type);
      return Bytes(all.begin() + static_cast<long>(rows.begin * row),
                   all.begin() + static_cast<long>(rows.end * row));
    }
    default:
      return reduced_by_all(item, layout, tensor);
  }
}

namespace {

// Mostly few, sometimes none, sometimes many blocks of 4 KiB.
size_t random_size(Random* random) {
  if (random->one_in(5)) return 0;
  return random->below(random->one_in(3) ? 20000 : random->one_in(2) ? 3000 : 60);
}

std::vector<size_t> random_rows(Random* random, size_t count, size_t scale) {
  std::vector<size_t> rows;
  for (size_t i = 0; i < count; ++i) rows.push_back(random_size(random) / scale);
  return rows;
}

void random_shapes(Random* random, Item* item) {
  const size_t tensors = static_cast<size_t>(random->from(1, 4));
  const size_t members = item->members.size();
  for (size_t t = 0; t < tensors; ++t) {
    if (item->kind == OpKind::kAllreduce || item->kind == OpKind::kBroadcast) {
      item->elements.push_back(random_size(random));
    } else {
      item->row_elements.push_back(static_cast<size_t>(random->from(1, 9)));
    }
  }
  if (item->kind == OpKind::kReducescatter) item->rows = {random_rows(random, tensors, 8)};
  for (size_t i = 0; i < members; ++i) {
    if (item->kind == OpKind::kAllgather) item->rows.push_back(random_rows(random, tensors, 8));
    if (item->kind == OpKind::kAlltoall) {
      item->rows.push_back(random_rows(random, tensors * members, 8 * members));
    }
  }
}

}  // namespace

std::vector<Item> random_schedule(Random* random, const Layout& layout, int items) {
  std::vector<std::vector<int>> teams(static_cast<size_t>(random->from(1, 4)));
  for (auto& team : teams) {
    for (int rank = 0; rank < layout.size; ++rank) team.push_back(rank);
    if (&team == &teams[0]) continue;
    random->shuffle(&team);
    team.resize(static_cast<size_t>(random->from(1, layout.size)));
    std::sort(team.begin(), team.end());
  }
  const OpKind kinds[] = {OpKind::kAllreduce, OpKind::kAllreduce, OpKind::kAllgather,
                          OpKind::kBroadcast, OpKind::kAlltoall,  OpKind::kReducescatter};
  const ReduceOp ops[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct,
                          ReduceOp::kAdasum};
  std::vector<Item> schedule;
  while (static_cast<int>(schedule.size()) < items) {
    Item item;
    item.kind = kinds[random->below(6)];
    item.type = kTypes[random->below(11)];
    item.members = teams[random->below(teams.size())];
    item.root = item.members[random->below(item.members.size())];
    if (item.kind == OpKind::kAllreduce || item.kind == OpKind::kReducescatter) {
      item.op =
          ops[random->below(item.kind == OpKind::kAllreduce && is_floating(item.type) ? 5 : 4)];
      if (random->one_in(3) && item.type != DataType::kBool) item.before.multiply = 0.75;
      if (random->one_in(3) && item.type != DataType::kBool) item.after.divide = 3;
      if (random->one_in(4)) item.joined = item.members[random->below(item.members.size())];
      if (item.kind == OpKind::kReducescatter) item.joined = -1;
      if (random->one_in(3)) item.wire = WireType::kBfloat16;
    }
    random_shapes(random, &item);
    schedule.push_back(std::move(item));
  }
  return schedule;
}

}  // namespace hvd::test
