// SPDX-License-Identifier: Apache-2.0
//
// Element types and reductions as the library knows them. The numbers are the C ABI's (hvd.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace hvd {

enum class DataType : uint8_t { kInt32 = 4, kInt64 = 5, kFloat32 = 7, kFloat64 = 8 };
enum class ReduceOp : uint8_t { kAverage = 0, kSum = 1 };

// True if `number` (an hvd_type of the caller) is a type this library can work on.
bool is_type(int number);

size_t size_of(DataType type);       // bytes of one element
const char* name_of(DataType type);  // "float32"
const char* name_of(ReduceOp op);    // "sum"

}  // namespace hvd
