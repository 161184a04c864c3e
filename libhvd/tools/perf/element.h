// SPDX-License-Identifier: Apache-2.0
//
// The element types that can be measured: how they are called, the library's number, their size.
// One table; option parser, data and reports read it.
#pragma once

#include <cstdint>
#include <string_view>

#include "libhvd/hvd.h"

namespace hvd::perf {

struct ElementType {
  std::string_view name;
  hvd_type number;
  int64_t bytes;

  constexpr bool is_floating() const {
    return number == HVD_FLOAT32 || number == HVD_FLOAT64 || is_short_float();
  }
  // MPI has no type for these, and they hold few integers exactly.
  constexpr bool is_short_float() const { return number == HVD_FLOAT16 || number == HVD_BFLOAT16; }
};

inline constexpr ElementType kElementTypes[] = {
    {"float32", HVD_FLOAT32, 4},   {"float64", HVD_FLOAT64, 8}, {"float16", HVD_FLOAT16, 2},
    {"bfloat16", HVD_BFLOAT16, 2}, {"int8", HVD_INT8, 1},       {"int16", HVD_INT16, 2},
    {"int32", HVD_INT32, 4},       {"int64", HVD_INT64, 8},     {"uint8", HVD_UINT8, 1},
    {"uint16", HVD_UINT16, 2},     {"bool", HVD_BOOL, 1},
};

}  // namespace hvd::perf
