// SPDX-License-Identifier: Apache-2.0
//
// Names and sizes of the element types.
#include "libhvd/data/types.h"

namespace hvd {

bool is_type(int number) {
  switch (static_cast<DataType>(number)) {
    case DataType::kInt32:
    case DataType::kInt64:
    case DataType::kFloat32:
    case DataType::kFloat64:
      return true;
  }
  return false;
}

size_t size_of(DataType type) {
  switch (type) {
    case DataType::kInt32:
    case DataType::kFloat32:
      return 4;
    case DataType::kInt64:
    case DataType::kFloat64:
      return 8;
  }
  return 0;
}

const char* name_of(DataType type) {
  switch (type) {
    case DataType::kInt32:
      return "int32";
    case DataType::kInt64:
      return "int64";
    case DataType::kFloat32:
      return "float32";
    case DataType::kFloat64:
      return "float64";
  }
  return "?";
}

const char* name_of(ReduceOp op) { return op == ReduceOp::kAverage ? "average" : "sum"; }

}  // namespace hvd
