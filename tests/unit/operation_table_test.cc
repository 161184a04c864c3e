// SPDX-License-Identifier: Apache-2.0
//
// The table of operations in flight: what names those get that have none.
#include <memory>
#include <string>

#include "libhvd/engine/operation.h"
#include "tests/unit/catch.h"

using namespace hvd;

namespace {

OperationPtr added(OperationTable* table, OpKind kind, int32_t set = 0) {
  auto operation = std::make_shared<Operation>();
  operation->key.set = set;
  operation->description.kind = kind;
  CHECK(table->add(operation).ok());
  return operation;
}

std::string name_of_next(OperationTable* table, OpKind kind, int32_t set = 0) {
  const OperationPtr operation = added(table, kind, set);
  table->finish(operation.get(), ok_status());
  return operation->key.name;
}

}  // namespace

TEST_CASE("unnamed operations are counted by process set and kind") {
  OperationTable table;
  CHECK(name_of_next(&table, OpKind::kBarrier) == "barrier.noname.0");
  CHECK(name_of_next(&table, OpKind::kBarrier) == "barrier.noname.1");
  CHECK(name_of_next(&table, OpKind::kBarrier, 2) == "barrier.noname.0");
  CHECK(name_of_next(&table, OpKind::kAllreduce) == "allreduce.noname.0");
}

TEST_CASE("a rank that has joined and missed unnamed operations counts as all others afterwards") {
  OperationTable here;
  OperationTable joined;
  for (int join = 1; join <= 2; ++join) {
    const OperationPtr early = added(&joined, OpKind::kJoin);
    name_of_next(&here, OpKind::kBarrier);
    name_of_next(&here, OpKind::kAllreduce, 3);
    name_of_next(&here, OpKind::kJoin);
    joined.finish(early.get(), ok_status());
    for (OperationTable* table : {&here, &joined}) {
      const std::string number = std::to_string(join) + ".0";
      CHECK(name_of_next(table, OpKind::kBarrier) == "barrier.noname." + number);
      CHECK(name_of_next(table, OpKind::kAllreduce, 3) == "allreduce.noname." + number);
    }
  }
  for (OperationTable* table : {&here, &joined}) {
    table->begin_epoch();
    CHECK(name_of_next(table, OpKind::kBarrier) == "barrier.noname.0");
  }
}
