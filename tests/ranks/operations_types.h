// SPDX-License-Identifier: Apache-2.0
//
// The element types of hvd.h as a test reads and writes them: numbers in, bytes out, and back. Its
// own code, slow and simple, and none of the library's, which is what it judges.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "libhvd/hvd.h"

namespace hvd::test {

constexpr int kTypes = 11;
constexpr int kOps = 6;

inline size_t bytes_per_element(int type) {
  constexpr size_t kBytes[kTypes] = {1, 1, 2, 2, 4, 8, 2, 4, 8, 1, 2};
  return kBytes[type];
}

inline const char* type_text(int type) {
  constexpr const char* kNames[kTypes] = {"uint8",   "int8",  "uint16",  "int16",
                                          "int32",   "int64", "float16", "float32",
                                          "float64", "bool",  "bfloat16"};
  return kNames[type];
}

inline const char* op_text(int op) {
  constexpr const char* kNames[kOps] = {"average", "sum", "adasum", "min", "max", "product"};
  return kNames[op];
}

inline bool is_floating_type(int type) {
  return type == HVD_FLOAT16 || type == HVD_FLOAT32 || type == HVD_FLOAT64 || type == HVD_BFLOAT16;
}

// Half the distance between 1 and the next number.
inline double unit_roundoff(int type) {
  switch (type) {
    case HVD_FLOAT16:
      return 0x1p-11;
    case HVD_BFLOAT16:
      return 0x1p-8;
    case HVD_FLOAT32:
      return 0x1p-24;
    default:
      return 0x1p-53;
  }
}

// A 16-bit floating type: sign, exponent, `fraction` bits.
struct ShortFloat {
  int fraction;
  int bias;

  double decode(uint16_t bits) const {
    const int magnitude = bits & 0x7fff;
    const int exponent = magnitude >> fraction;
    const double part = std::ldexp(magnitude & ((1 << fraction) - 1), -fraction);
    double x = 0;
    if (exponent == (0x7fff >> fraction)) {
      x = part == 0 ? INFINITY : NAN;
    } else if (exponent == 0) {
      x = std::ldexp(part, 1 - bias);
    } else {
      x = std::ldexp(1 + part, exponent - bias);
    }
    return (bits & 0x8000) != 0 ? -x : x;
  }

  // Nearest, ties to even.
  uint16_t encode(double x) const {
    const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
    const int infinity = (0x7fff >> fraction) << fraction;
    if (std::isnan(x)) return static_cast<uint16_t>(infinity | 1 << (fraction - 1));
    if (x == 0) return sign;
    int exponent = std::isinf(x) ? bias + 2 : std::ilogb(x);
    if (exponent < 1 - bias) exponent = 1 - bias;
    const double units =
        std::isinf(x) ? 0 : std::nearbyint(std::ldexp(std::fabs(x), fraction - exponent));
    // A carry out of the fraction is one more in the exponent; there is nothing to be done for it.
    const double bits = std::ldexp(exponent + bias - 1, fraction) + units;
    return static_cast<uint16_t>(sign | (bits >= infinity ? infinity : static_cast<int>(bits)));
  }
};

inline ShortFloat short_float(int type) {
  return type == HVD_FLOAT16 ? ShortFloat{10, 15} : ShortFloat{7, 127};
}

template <typename T, typename Number>
void decode_as(const char* from, std::vector<Number>* to) {
  for (size_t i = 0; i < to->size(); ++i) {
    T x;
    memcpy(&x, from + i * sizeof(T), sizeof(T));
    (*to)[i] = static_cast<Number>(x);
  }
}

template <typename T, typename Number>
void encode_as(const std::vector<Number>& from, char* to) {
  for (size_t i = 0; i < from.size(); ++i) {
    const T x = static_cast<T>(from[i]);
    memcpy(to + i * sizeof(T), &x, sizeof(T));
  }
}

// Calls fn with a zero of the integer type (bool: of one byte).
template <typename Fn>
void with_integer(int type, Fn fn) {
  switch (type) {
    case HVD_INT8:
      return fn(int8_t{0});
    case HVD_UINT16:
      return fn(uint16_t{0});
    case HVD_INT16:
      return fn(int16_t{0});
    case HVD_INT32:
      return fn(int32_t{0});
    case HVD_INT64:
      return fn(int64_t{0});
    default:
      return fn(uint8_t{0});
  }
}

inline std::vector<int64_t> integers(int type, const char* bytes, size_t n) {
  std::vector<int64_t> numbers(n);
  with_integer(type, [&](auto zero) { decode_as<decltype(zero)>(bytes, &numbers); });
  return numbers;
}

// The low bits of each.
inline std::vector<char> bytes_of_integers(int type, const std::vector<int64_t>& numbers) {
  std::vector<char> bytes(numbers.size() * bytes_per_element(type));
  with_integer(type, [&](auto zero) { encode_as<decltype(zero)>(numbers, bytes.data()); });
  return bytes;
}

inline std::vector<double> floats(int type, const char* bytes, size_t n) {
  std::vector<double> numbers(n);
  if (type == HVD_FLOAT32) {
    decode_as<float>(bytes, &numbers);
  } else if (type == HVD_FLOAT64) {
    decode_as<double>(bytes, &numbers);
  } else {
    std::vector<uint16_t> bits(n);
    decode_as<uint16_t>(bytes, &bits);
    for (size_t i = 0; i < n; ++i) numbers[i] = short_float(type).decode(bits[i]);
  }
  return numbers;
}

// The nearest of each.
inline std::vector<char> bytes_of_floats(int type, const std::vector<double>& numbers) {
  std::vector<char> bytes(numbers.size() * bytes_per_element(type));
  if (type == HVD_FLOAT32) {
    encode_as<float>(numbers, bytes.data());
  } else if (type == HVD_FLOAT64) {
    encode_as<double>(numbers, bytes.data());
  } else {
    std::vector<uint16_t> bits;
    for (double x : numbers) bits.push_back(short_float(type).encode(x));
    encode_as<uint16_t>(bits, bytes.data());
  }
  return bytes;
}

}  // namespace hvd::test
