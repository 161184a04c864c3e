// SPDX-License-Identifier: Apache-2.0
//
// See the header.
#include "tests/unit/kernels_reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace hvd::reference {
namespace {

template <typename T>
T read(const void* from) {
  T x;
  memcpy(&x, from, sizeof(x));
  return x;
}

template <typename T>
void write(void* to, T x) {
  memcpy(to, &x, sizeof(x));
}

// A 16-bit floating type: bits of its fraction, exponents of its smallest and largest normals.
struct Format {
  int fraction;
  int smallest;
  int largest;
};
constexpr Format kHalf = {10, -14, 15};
constexpr Format kBrain = {7, -126, 127};

double number_of(Format f, uint16_t bits) {
  const int fraction = bits & ((1 << f.fraction) - 1);
  const int exponent = (bits & 0x7fff) >> f.fraction;
  double x = std::ldexp(fraction, f.smallest - f.fraction);
  if (exponent > 0) {
    x = std::ldexp(fraction + (1 << f.fraction), exponent - 1 + f.smallest - f.fraction);
  }
  if (exponent - 1 + f.smallest > f.largest) {
    x = fraction == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
  }
  return (bits & 0x8000) != 0 ? -x : x;
}

uint16_t bits_of(Format f, double x) {
  const int infinity = (f.largest - f.smallest + 2) << f.fraction;
  if (std::isnan(x)) return static_cast<uint16_t>(infinity | 1 << (f.fraction - 1));
  const int sign = std::signbit(x) ? 0x8000 : 0;
  x = std::fabs(x);
  if (std::isinf(x)) return static_cast<uint16_t>(sign | infinity);
  // In units of its last bit; the default rounding of nearbyint is to nearest, ties to even. A
  // fraction that rounds up to the next power of two carries into the exponent, as it should.
  const int exponent = x == 0 ? f.smallest : std::max(std::ilogb(x), f.smallest);
  const double units = std::nearbyint(std::ldexp(x, f.fraction - exponent));
  const int bits = ((exponent - f.smallest) << f.fraction) + static_cast<int>(units);
  return static_cast<uint16_t>(sign | std::min(bits, infinity));
}

float one_nan(float x) { return std::isnan(x) ? std::numeric_limits<float>::quiet_NaN() : x; }
double one_nan(double x) { return std::isnan(x) ? std::numeric_limits<double>::quiet_NaN() : x; }

bool before(double a, double b) { return a < b || (a == b && std::signbit(a) && !std::signbit(b)); }

// float or double; op is one that computes.
template <typename T>
T apply(ReduceOp op, T a, T b) {
  if (op == ReduceOp::kProduct) return a * b;
  if (op == ReduceOp::kSum || op == ReduceOp::kAverage) return a + b;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  return before(a, b) == (op == ReduceOp::kMin) ? a : b;
}

template <typename T>
T apply_integer(ReduceOp op, T a, T b) {
  if (op == ReduceOp::kMin) return std::min(a, b);
  if (op == ReduceOp::kMax) return std::max(a, b);
  const auto x = static_cast<uint64_t>(a);
  const auto y = static_cast<uint64_t>(b);
  return static_cast<T>(op == ReduceOp::kProduct ? x * y : x + y);
}

using Sources = std::vector<const char*>;

template <typename T>
void reduce_integer(ReduceOp op, void* to, const Sources& from) {
  T result = read<T>(from[0]);
  for (size_t i = 1; i < from.size(); ++i) result = apply_integer(op, result, read<T>(from[i]));
  write(to, result);
}

template <typename T>
void reduce_float(DataType type, ReduceOp op, void* to, const Sources& from) {
  T result = static_cast<T>(number_at(type, from[0]));
  for (size_t i = 1; i < from.size(); ++i) {
    result = apply(op, result, static_cast<T>(number_at(type, from[i])));
  }
  put_number(type, to, result);
}

void reduce_truth(ReduceOp op, void* to, const Sources& from) {
  size_t count = 0;
  for (const char* source : from) count += *source != 0;
  const bool all = op == ReduceOp::kMin || op == ReduceOp::kProduct;
  write(to, static_cast<uint8_t>(all ? count == from.size() : count > 0));
}

void reduce_element(DataType type, ReduceOp op, void* to, const Sources& from) {
  switch (type) {
    case DataType::kUint8:
      return reduce_integer<uint8_t>(op, to, from);
    case DataType::kInt8:
      return reduce_integer<int8_t>(op, to, from);
    case DataType::kUint16:
      return reduce_integer<uint16_t>(op, to, from);
    case DataType::kInt16:
      return reduce_integer<int16_t>(op, to, from);
    case DataType::kInt32:
      return reduce_integer<int32_t>(op, to, from);
    case DataType::kInt64:
      return reduce_integer<int64_t>(op, to, from);
    case DataType::kFloat64:
      return reduce_float<double>(type, op, to, from);
    case DataType::kBool:
      return reduce_truth(op, to, from);
    default:
      return reduce_float<float>(type, op, to, from);
  }
}

template <typename T>
void scale_integer(void* to, const void* from, Scale scale) {
  const T x = read<T>(from);
  if (scale.multiply == 1) return write(to, static_cast<T>(x / scale.divide));
  const double y =
      std::trunc(static_cast<double>(x) * scale.multiply / static_cast<double>(scale.divide));
  if (std::isnan(y)) return write(to, T{0});
  if (y <= static_cast<double>(std::numeric_limits<T>::min())) {
    return write(to, std::numeric_limits<T>::min());
  }
  if (y >= static_cast<double>(std::numeric_limits<T>::max())) {
    return write(to, std::numeric_limits<T>::max());
  }
  write(to, static_cast<T>(y));
}

void scale_element(DataType type, void* to, const void* from, Scale scale) {
  const double quotient = scale.multiply / static_cast<double>(scale.divide);
  switch (type) {
    case DataType::kUint8:
      return scale_integer<uint8_t>(to, from, scale);
    case DataType::kInt8:
      return scale_integer<int8_t>(to, from, scale);
    case DataType::kUint16:
      return scale_integer<uint16_t>(to, from, scale);
    case DataType::kInt16:
      return scale_integer<int16_t>(to, from, scale);
    case DataType::kInt32:
      return scale_integer<int32_t>(to, from, scale);
    case DataType::kInt64:
      return scale_integer<int64_t>(to, from, scale);
    case DataType::kFloat64:
      return put_number(type, to, number_at(type, from) * quotient);
    case DataType::kBool:
      return write(to, read<uint8_t>(from));
    default:
      return put_number(type, to,
                        static_cast<float>(number_at(type, from)) * static_cast<float>(quotient));
  }
}

double special(std::mt19937_64* random) {
  const double kSpecial[] = {0.0,   -0.0,    HUGE_VAL, -HUGE_VAL, std::nan(""), -std::nan(""),
                             1e-40, -6e-8,   5e-324,   65504,     -65520,       3e38,
                             -3e38, 1.7e308, 1e-45,    1};
  return kSpecial[(*random)() % 16];
}

}  // namespace

double number_at(DataType type, const void* element) {
  if (type == DataType::kFloat16) return number_of(kHalf, read<uint16_t>(element));
  if (type == DataType::kBfloat16) return number_of(kBrain, read<uint16_t>(element));
  if (type == DataType::kFloat32) return static_cast<double>(read<float>(element));
  return read<double>(element);
}

void put_number(DataType type, void* element, double x) {
  if (type == DataType::kFloat16) return write(element, bits_of(kHalf, x));
  if (type == DataType::kBfloat16) return write(element, bits_of(kBrain, x));
  if (type == DataType::kFloat32) return write(element, one_nan(static_cast<float>(x)));
  write(element, one_nan(x));
}

std::string reduce(DataType type, ReduceOp op, const std::vector<std::string>& sources) {
  if (sources.size() == 1 && type != DataType::kBool) return sources[0];
  std::string to = sources[0];
  Sources from(sources.size());
  for (size_t at = 0; at < to.size(); at += size_of(type)) {
    for (size_t i = 0; i < from.size(); ++i) from[i] = sources[i].data() + at;
    reduce_element(type, op, to.data() + at, from);
  }
  return to;
}

std::string scale(DataType type, const std::string& from, Scale scale) {
  if (scale.identity()) return from;
  std::string to = from;
  for (size_t at = 0; at < to.size(); at += size_of(type)) {
    scale_element(type, to.data() + at, from.data() + at, scale);
  }
  return to;
}

std::string convert(DataType to_type, DataType from_type, const std::string& from) {
  if (to_type == from_type) return from;
  const size_t n = from.size() / size_of(from_type);
  std::string to(n * size_of(to_type), '\0');
  for (size_t i = 0; i < n; ++i) {
    const double x = number_at(from_type, from.data() + i * size_of(from_type));
    put_number(to_type, to.data() + i * size_of(to_type), x);
  }
  return to;
}

std::string combine(DataType type, double ca, const std::string& a, double cb,
                    const std::string& b) {
  std::string to = a;
  for (size_t at = 0; at < to.size(); at += size_of(type)) {
    const double x = number_at(type, a.data() + at);
    const double y = number_at(type, b.data() + at);
    if (type == DataType::kFloat64) {
      put_number(type, to.data() + at, ca * x + cb * y);
    } else {
      const float first = static_cast<float>(ca) * static_cast<float>(x);
      const float second = static_cast<float>(cb) * static_cast<float>(y);
      put_number(type, to.data() + at, first + second);
    }
  }
  return to;
}

std::string random_elements(DataType type, size_t n, std::mt19937_64* random) {
  std::string bytes(n * size_of(type), '\0');
  for (size_t i = 0; i < n; ++i) {
    char* at = bytes.data() + i * size_of(type);
    const uint64_t bits = (*random)();
    if (type == DataType::kBool) {
      *at = static_cast<char>((bits & 1) != 0 ? bits >> 8 : 0);
    } else if (!is_floating(type)) {
      memcpy(at, &bits, size_of(type));
    } else if (bits % 16 == 0) {
      put_number(type, at, special(random));
    } else {
      const auto fraction = static_cast<double>(static_cast<int64_t>(bits));
      put_number(type, at, std::ldexp(fraction, static_cast<int>((*random)() % 40) - 83));
    }
  }
  return bytes;
}

}  // namespace hvd::reference
