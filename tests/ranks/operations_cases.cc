// SPDX-License-Identifier: Apache-2.0
//
// See operations_cases.h. Sizes: none, one, a few, some KB, and several blocks of 64 KB.
#include "tests/ranks/operations_cases.h"

namespace hvd::test {
namespace {

constexpr int kFloats[] = {HVD_FLOAT16, HVD_FLOAT32, HVD_FLOAT64, HVD_BFLOAT16};

Item rows_of(int type, int64_t rows, int64_t width = 1) {
  Item item;
  item.type = type;
  item.rows = rows;
  item.width = width;
  return item;
}

Item a_scalar(int type) {
  Item item = rows_of(type, 1);
  item.scalar = true;
  return item;
}

class Cases {
 public:
  explicit Cases(int sets) : sets_(sets) {}

  // The returned case may be changed until the next one is added.
  Case& add(Kind kind, const Item& item, int op = HVD_SUM, int set = 0) {
    cases_.emplace_back();
    Case& c = cases_.back();
    c.kind = kind;
    c.items = {item};
    c.op = op;
    c.set = set < sets_ ? set : 0;
    c.seed = cases_.size();
    // Integers of all sizes, where nothing but wrapping around is done with them.
    if (!is_floating_type(item.type)) c.values = Values::kAny;
    return c;
  }

  Case& group(Kind kind, const std::vector<Item>& items, int op = HVD_SUM, int set = 0) {
    Case& c = add(kind, items[0], op, set);
    c.items = items;
    c.grouped = true;
    c.values = Values::kExact;
    return c;
  }

  std::vector<Case> take() { return std::move(cases_); }

 private:
  int sets_;
  std::vector<Case> cases_;
};

bool reduces(int type, int op) {
  if (op == HVD_ADASUM) return false;  // has cases of its own
  return type != HVD_BOOL || op != HVD_AVERAGE;
}

void scale(Case* c, double prescale, double postscale) {
  c->prescale = prescale;
  c->postscale = postscale;
  c->values = Values::kExact;
}

void allreduces(Cases* cases) {
  constexpr Kind kKind = Kind::kAllreduce;
  for (int type = 0; type < kTypes; ++type) {
    for (int op = 0; op < kOps; ++op) {
      if (!reduces(type, op)) continue;
      cases->add(kKind, rows_of(type, 7), op).in_place = true;
      cases->add(kKind, rows_of(type, 1027), op).shift = 1;
      cases->add(kKind, rows_of(type, 10, 13), op, 1).in_place = true;
      cases->add(kKind, rows_of(type, 33), op, 2).shift = 3;
      if (type == HVD_BOOL || op == HVD_PRODUCT) continue;
      scale(&cases->add(kKind, rows_of(type, 100), op), 2, 0.75);
      Case& halved = cases->add(kKind, rows_of(type, 50, 2), op, 1);
      scale(&halved, 0.5, 3);
      halved.in_place = true;
    }
    cases->add(kKind, rows_of(type, 0));
    cases->add(kKind, rows_of(type, 3, 0)).in_place = true;
    cases->add(kKind, a_scalar(type)).shift = 1;
  }
  for (int type : kFloats) {
    for (int op : {HVD_SUM, HVD_MIN, HVD_MAX}) {
      cases->add(kKind, rows_of(type, 500), op).values = Values::kSpecial;
    }
  }
  cases->add(kKind, rows_of(HVD_FLOAT32, 300, 1000)).shift = 1;
  cases->add(kKind, rows_of(HVD_INT8, 300000)).in_place = true;
  cases->add(kKind, rows_of(HVD_BFLOAT16, 40000)).in_place = true;
  cases->add(kKind, rows_of(HVD_FLOAT16, 40000), HVD_MAX).shift = 2;
  cases->add(kKind, rows_of(HVD_FLOAT64, 40000), HVD_AVERAGE).in_place = true;
  cases->add(kKind, rows_of(HVD_INT64, 40000), HVD_PRODUCT, 1).shift = 5;
  cases->add(kKind, rows_of(HVD_BOOL, 100000), HVD_MIN, 2);
}

void adasums(Cases* cases) {
  for (int type : kFloats) {
    for (int set : {0, 1, 2}) {
      for (int64_t n : {1, 7, 1027, 20000}) {
        Case& c = cases->add(Kind::kAllreduce, rows_of(type, n), HVD_ADASUM, set);
        c.values = Values::kRandom;
        c.in_place = n == 7 || set == 1;
        c.shift = n == 1027 ? 1 : 0;
      }
    }
    Case& c = cases->add(Kind::kAllreduce, rows_of(type, 20, 10), HVD_ADASUM);
    scale(&c, 0.5, 2);
    c.values = Values::kRandom;
    cases->add(Kind::kAllreduce, rows_of(type, 0), HVD_ADASUM);
  }
  const std::vector<Item> items = {rows_of(HVD_FLOAT32, 100), rows_of(HVD_FLOAT64, 3, 5),
                                   rows_of(HVD_BFLOAT16, 0), rows_of(HVD_FLOAT16, 64)};
  cases->group(Kind::kAllreduce, items, HVD_ADASUM).values = Values::kRandom;
}

std::vector<Item> mixed_items() {
  return {rows_of(HVD_FLOAT32, 37, 3), rows_of(HVD_INT8, 5),    rows_of(HVD_FLOAT16, 3, 7),
          rows_of(HVD_INT64, 0),       rows_of(HVD_UINT16, 70), rows_of(HVD_BFLOAT16, 1),
          rows_of(HVD_FLOAT64, 1000)};
}

void groups(Cases* cases) {
  std::vector<Item> items = mixed_items();
  for (int set : {0, 1, 2}) {
    for (int op : {HVD_AVERAGE, HVD_SUM, HVD_MIN, HVD_MAX, HVD_PRODUCT}) {
      cases->group(Kind::kAllreduce, items, op, set).in_place = op != HVD_SUM;
      cases->group(Kind::kReducescatter, items, op, set).in_place = op == HVD_MIN;
    }
    for (Spread spread : {Spread::kEven, Spread::kUneven, Spread::kEmpty}) {
      cases->group(Kind::kAllgather, items, HVD_SUM, set).spread = spread;
    }
    cases->group(Kind::kAllreduce, {rows_of(HVD_INT32, 9)}, HVD_SUM, set).shift = 1;
  }
  scale(&cases->group(Kind::kAllreduce, items), 2, 0.75);
  scale(&cases->group(Kind::kReducescatter, items, HVD_AVERAGE), 0.5, 3);
  items.push_back(rows_of(HVD_BOOL, 12));
  items.push_back(a_scalar(HVD_INT32));
  cases->group(Kind::kAllreduce, items, HVD_MAX).shift = 1;
}

void allgathers(Cases* cases) {
  constexpr Kind kKind = Kind::kAllgather;
  for (int type = 0; type < kTypes; ++type) {
    cases->add(kKind, rows_of(type, 7));
    Case& uneven = cases->add(kKind, rows_of(type, 11, 3));
    uneven.spread = Spread::kUneven;
    uneven.shift = 1;
    cases->add(kKind, rows_of(type, 1, 5)).spread = Spread::kEmpty;
    cases->add(kKind, rows_of(type, 9, 2), HVD_SUM, 1).spread = Spread::kUneven;
    cases->add(kKind, rows_of(type, 1027), HVD_SUM, 2).shift = 1;
  }
  cases->add(kKind, rows_of(HVD_FLOAT32, 6, 0));
  cases->add(kKind, rows_of(HVD_FLOAT32, 2000, 13)).spread = Spread::kUneven;
  cases->add(kKind, rows_of(HVD_UINT8, 70000), HVD_SUM, 1).spread = Spread::kUneven;
}

// `root` counts in the set: 0, and one that is another one where there are others.
void broadcasts(Cases* cases) {
  constexpr Kind kKind = Kind::kBroadcast;
  for (int type = 0; type < kTypes; ++type) {
    cases->add(kKind, rows_of(type, 7)).in_place = true;
    Case& last = cases->add(kKind, rows_of(type, 1027));
    last.root = -1;
    last.shift = 1;
    Case& in_set = cases->add(kKind, rows_of(type, 11, 3), HVD_SUM, 1);
    in_set.root = -1;
    in_set.in_place = true;
    cases->add(kKind, a_scalar(type), HVD_SUM, 2);
    cases->add(kKind, rows_of(type, 0)).root = -1;
  }
  cases->add(kKind, rows_of(HVD_INT8, 300000)).root = -1;
  cases->add(kKind, rows_of(HVD_FLOAT64, 40000), HVD_SUM, 1).in_place = true;
}

void alltoalls(Cases* cases) {
  constexpr Kind kKind = Kind::kAlltoall;
  for (int type = 0; type < kTypes; ++type) {
    cases->add(kKind, rows_of(type, 7)).null_splits = true;
    cases->add(kKind, rows_of(type, 5, 3)).shift = 1;
    cases->add(kKind, rows_of(type, 4, 2)).spread = Spread::kUneven;
    cases->add(kKind, rows_of(type, 1)).spread = Spread::kEmpty;
    cases->add(kKind, rows_of(type, 100, 3), HVD_SUM, 1).spread = Spread::kUneven;
    cases->add(kKind, rows_of(type, 1), HVD_SUM, 2).null_splits = true;
  }
  cases->add(kKind, rows_of(HVD_FLOAT32, 6, 0));
  cases->add(kKind, rows_of(HVD_FLOAT32, 3000, 7)).spread = Spread::kUneven;
  cases->add(kKind, rows_of(HVD_UINT8, 70001), HVD_SUM, 1).spread = Spread::kUneven;
}

void reducescatters(Cases* cases) {
  constexpr Kind kKind = Kind::kReducescatter;
  for (int type = 0; type < kTypes; ++type) {
    for (int op = 0; op < kOps; ++op) {
      if (!reduces(type, op)) continue;
      cases->add(kKind, rows_of(type, 11, 3), op).shift = 1;
      cases->add(kKind, rows_of(type, 1), op, 1).in_place = true;  // fewer than members
      if (type == HVD_BOOL || op == HVD_PRODUCT) continue;
      scale(&cases->add(kKind, rows_of(type, 24), op), 2, 0.75);
    }
    cases->add(kKind, rows_of(type, 0, 4));
    cases->add(kKind, rows_of(type, 35, 30), HVD_SUM, 2).in_place = true;
  }
  cases->add(kKind, rows_of(HVD_FLOAT32, 301, 700)).shift = 1;
  cases->add(kKind, rows_of(HVD_INT16, 100001), HVD_MAX).in_place = true;
  cases->add(kKind, rows_of(HVD_BFLOAT16, 7, 5000), HVD_SUM, 1);
}

}  // namespace

std::vector<std::vector<int>> sets_for(int size) {
  std::vector<std::vector<int>> sets(1);
  for (int rank = 0; rank < size; ++rank) sets[0].push_back(rank);
  if (size < 2) return sets;
  sets.emplace_back(sets[0].begin() + 1, sets[0].end());
  if (size < 3) return sets;
  sets.emplace_back();
  for (int rank = 0; rank < size; rank += 2) sets[2].push_back(rank);
  return sets;
}

std::vector<Case> all_cases(int sets) {
  Cases cases(sets);
  allreduces(&cases);
  adasums(&cases);
  groups(&cases);
  allgathers(&cases);
  broadcasts(&cases);
  alltoalls(&cases);
  reducescatters(&cases);
  for (int set = 0; set < sets; ++set) cases.add(Kind::kBarrier, Item(), HVD_SUM, set);
  return cases.take();
}

std::vector<Case> random_cases(int sets) {
  Cases cases(sets);
  for (int type : kFloats) {
    for (int op : {HVD_AVERAGE, HVD_SUM, HVD_PRODUCT}) {
      for (int set : {0, 1}) {
        for (int64_t n : {7, 1027, 20000}) {
          Case& c = cases.add(Kind::kAllreduce, rows_of(type, n), op, set);
          c.values = Values::kRandom;
          c.in_place = n == 7;
        }
      }
      cases.add(Kind::kReducescatter, rows_of(type, 37, 30), op).values = Values::kRandom;
    }
    Case& c = cases.add(Kind::kAllreduce, rows_of(type, 777), HVD_ADASUM);
    c.values = Values::kRandom;
    c.in_place = true;
  }
  return cases.take();
}

std::vector<Case> wire_cases() {
  Cases cases(1);
  for (int type : {HVD_FLOAT32, HVD_FLOAT64}) {
    for (int op : {HVD_AVERAGE, HVD_SUM}) {
      for (int64_t n : {1, 7, 1027, 40000}) {
        Case& c = cases.add(Kind::kAllreduce, rows_of(type, n), op);
        c.values = Values::kRandom;
        c.in_place = n == 7;
        Case& scattered = cases.add(Kind::kReducescatter, rows_of(type, n, 3), op);
        scattered.values = Values::kRandom;
      }
    }
    cases.add(Kind::kBroadcast, rows_of(type, 1027)).values = Values::kRandom;
    cases.add(Kind::kAllgather, rows_of(type, 1027)).values = Values::kRandom;
    cases.add(Kind::kAlltoall, rows_of(type, 100)).values = Values::kRandom;
  }
  for (int type : {HVD_INT32, HVD_INT64, HVD_FLOAT16, HVD_BFLOAT16}) {
    cases.add(Kind::kAllreduce, rows_of(type, 1027));
  }
  return cases.take();
}

}  // namespace hvd::test
