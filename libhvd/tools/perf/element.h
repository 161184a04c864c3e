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
};

inline constexpr ElementType kElementTypes[] = {
    {"float32", HVD_FLOAT32, 4},
    {"float64", HVD_FLOAT64, 8},
    {"int32", HVD_INT32, 4},
    {"int64", HVD_INT64, 8},
};

}  // namespace hvd::perf
