// SPDX-License-Identifier: Apache-2.0
//
// Element types and reductions as the library knows them. The numbers are the C ABI's (hvd.h),
// which are Horovod's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hvd {

enum class DataType : uint8_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBool = 9,
  kBfloat16 = 10
};
constexpr int kTypeCount = 11;

enum class ReduceOp : uint8_t {
  kAverage = 0,
  kSum = 1,
  kAdasum = 2,
  kMin = 3,
  kMax = 4,
  kProduct = 5
};
constexpr int kOpCount = 6;

// True if `number` (an hvd_type, an hvd_op of the caller) is one.
bool is_type(int number);
bool is_op(int number);

size_t size_of(DataType type);       // bytes of one element
bool is_floating(DataType type);     // float16, bfloat16, float32, float64
const char* name_of(DataType type);  // "float32"
const char* name_of(ReduceOp op);    // "sum"

}  // namespace hvd
