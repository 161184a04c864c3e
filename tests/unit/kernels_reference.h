// SPDX-License-Identifier: Apache-2.0
//
// What the kernels are tested against: the same operations, one element at a time, written to be
// seen to be right and not to be fast. Nothing of libhvd/data but the types' names is used. Values
// are doubles: all floating types and the narrow integers fit, int64 is handled apart.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "libhvd/data/kernels.h"

namespace hvd::reference {

// The element as a number, and the number's nearest element (ties to even). Floating types only.
double number_at(DataType type, const void* element);
void put_number(DataType type, void* element, double number);

std::string reduce(DataType type, ReduceOp op, const std::vector<std::string>& sources);
std::string scale(DataType type, const std::string& from, Scale scale);
std::string convert(DataType to_type, DataType from_type, const std::string& from);
std::string combine(DataType type, double ca, const std::string& a, double cb,
                    const std::string& b);

// The bytes of n elements: any bits for integers and bool; numbers of many sizes for floating
// types, one in sixteen of them special (zeros, infinities, NaNs, subnormals, the largest).
std::string random_elements(DataType type, size_t n, std::mt19937_64* random);

}  // namespace hvd::reference
