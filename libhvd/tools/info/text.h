// SPDX-License-Identifier: Apache-2.0
//
// What hvd-info prints for people, made of the same JSON that --json prints. Pure.
#pragma once

#include <string>
#include <string_view>

#include "libhvd/base/json.h"

namespace hvd::info {

std::string text_of_place(const Json& facts);  // hvd-info alone
std::string text_of_rank(const Json& facts);   // hvd-info --pid

}  // namespace hvd::info
