// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/gpu/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "tests/fakes/gpu/nccl_abi.h"

namespace fake_gpu {
namespace {

// How elements of a type are read, computed with, and written.
template <class T>
struct Plain {
  using Value = T;
  using Bits = T;
  static Value read(Bits bits) { return bits; }
  static Bits write(Value value) { return value; }
};
struct Half {
  using Value = float;
  using Bits = std::uint16_t;
  static Value read(Bits bits) { return from_float16(bits); }
  static Bits write(Value value) { return to_float16(value); }
};
struct Brain {
  using Value = float;
  using Bits = std::uint16_t;
  static Value read(Bits bits) { return from_bfloat16(bits); }
  static Bits write(Value value) { return to_bfloat16(value); }
};

// Integers wrap around.
template <class T>
T combine(int op, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::uint64_t;
    if (op == kProd) return static_cast<T>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
    if (op == kSum || op == kAvg) {
      return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    }
  }
  switch (op) {
    case kProd:
      return static_cast<T>(a * b);
    case kMax:
      return std::max(a, b);
    case kMin:
      return std::min(a, b);
    default:
      return static_cast<T>(a + b);
  }
}

template <class Type>
void reduce_as(int op, const std::vector<const char*>& in, size_t count, char* out) {
  using Value = typename Type::Value;
  using Bits = typename Type::Bits;
  for (size_t i = 0; i < count; ++i) {
    const auto read = [&](const char* from) {
      Bits bits;
      memcpy(&bits, from + i * sizeof(Bits), sizeof bits);
      return Type::read(bits);
    };
    Value value = read(in[0]);
    for (size_t rank = 1; rank < in.size(); ++rank) value = combine(op, value, read(in[rank]));
    if (op == kAvg) value = static_cast<Value>(value / static_cast<Value>(in.size()));
    const Bits bits = Type::write(value);
    memcpy(out + i * sizeof(Bits), &bits, sizeof bits);
  }
}

std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

}  // namespace

size_t size_of_type(int type) {
  switch (type) {
    case kInt8:
    case kUint8:
      return 1;
    case kFloat16:
    case kBfloat16:
      return 2;
    case kInt32:
    case kUint32:
    case kFloat32:
      return 4;
    case kInt64:
    case kUint64:
    case kFloat64:
      return 8;
    default:
      return 0;
  }
}

void reduce(int type, int op, const std::vector<const char*>& in, size_t count, char* out) {
  switch (type) {
    case kInt8:
      return reduce_as<Plain<std::int8_t>>(op, in, count, out);
    case kUint8:
      return reduce_as<Plain<std::uint8_t>>(op, in, count, out);
    case kInt32:
      return reduce_as<Plain<std::int32_t>>(op, in, count, out);
    case kUint32:
      return reduce_as<Plain<std::uint32_t>>(op, in, count, out);
    case kInt64:
      return reduce_as<Plain<std::int64_t>>(op, in, count, out);
    case kUint64:
      return reduce_as<Plain<std::uint64_t>>(op, in, count, out);
    case kFloat16:
      return reduce_as<Half>(op, in, count, out);
    case kFloat32:
      return reduce_as<Plain<float>>(op, in, count, out);
    case kFloat64:
      return reduce_as<Plain<double>>(op, in, count, out);
    default:
      return reduce_as<Brain>(op, in, count, out);
  }
}

float from_bfloat16(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

// To nearest, ties to even.
std::uint16_t to_bfloat16(float value) {
  const std::uint32_t bits = bits_of(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float from_float16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const float mantissa = static_cast<float>(bits & 0x3ff);
  float value = 0;
  if (exponent == 31) {
    value = mantissa == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, -24);
  } else {
    value = std::ldexp(mantissa + 1024, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

// The spacing of float16 where the value is, and nearbyint's ties to even, do the rounding.
std::uint16_t to_float16(float value) {
  const auto sign = static_cast<std::uint16_t>(bits_of(value) >> 16 & 0x8000);
  const float size = std::fabs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00);
  if (size >= 65520) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (size == 0) return sign;
  int exponent = 0;
  std::frexp(size, &exponent);
  exponent = std::max(exponent, -13);  // below 2^-14 the spacing stays
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(size, 11 - exponent)));
  return static_cast<std::uint16_t>(sign + (exponent + 13) * 1024 + steps);
}

}  // namespace fake_gpu
