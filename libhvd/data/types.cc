// SPDX-License-Identifier: Apache-2.0
//
// Names and sizes of the element types, names of the reductions.
#include "libhvd/data/types.h"

namespace hvd {
namespace {

struct TypeRow {
  const char* name;
  size_t size;
  bool floating;
};

// In the order of the numbers.
constexpr TypeRow kTypes[kTypeCount] = {
    {"uint8", 1, false},  {"int8", 1, false},  {"uint16", 2, false},  {"int16", 2, false},
    {"int32", 4, false},  {"int64", 8, false}, {"float16", 2, true},  {"float32", 4, true},
    {"float64", 8, true}, {"bool", 1, false},  {"bfloat16", 2, true},
};
constexpr const char* kOps[kOpCount] = {"average", "sum", "adasum", "min", "max", "product"};

const TypeRow& row(DataType type) { return kTypes[static_cast<int>(type)]; }

}  // namespace

bool is_type(int number) { return number >= 0 && number < kTypeCount; }
bool is_op(int number) { return number >= 0 && number < kOpCount; }

size_t size_of(DataType type) { return row(type).size; }
bool is_floating(DataType type) { return row(type).floating; }
const char* name_of(DataType type) { return row(type).name; }
const char* name_of(ReduceOp op) { return kOps[static_cast<int>(op)]; }

}  // namespace hvd
