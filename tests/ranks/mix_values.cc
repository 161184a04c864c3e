// SPDX-License-Identifier: Apache-2.0
//
// See mix_values.h.
#include "tests/ranks/mix_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "libhvd/hvd.h"

namespace hvd::test {
namespace {

// Of a floating type: bits of the fraction, and the exponent's bias. Of an integer: its range.
struct TypeRow {
  const char* name;
  size_t bytes;
  bool floating;
  int fraction;
  int bias;
  double least;
  double most;
};

constexpr double kTwo63 = 9223372036854775808.0;
constexpr TypeRow kTypes[] = {
    {"uint8", 1, false, 0, 0, 0, 255},
    {"int8", 1, false, 0, 0, -128, 127},
    {"uint16", 2, false, 0, 0, 0, 65535},
    {"int16", 2, false, 0, 0, -32768, 32767},
    {"int32", 4, false, 0, 0, -2147483648.0, 2147483647.0},
    {"int64", 8, false, 0, 0, -kTwo63, kTwo63},
    {"float16", 2, true, 10, 15, 0, 0},
    {"float32", 4, true, 23, 127, 0, 0},
    {"float64", 8, true, 52, 1023, 0, 0},
    {"bool", 1, false, 0, 0, 0, 1},
    {"bfloat16", 2, true, 7, 127, 0, 0},
};

const TypeRow& row(int type) { return kTypes[type]; }

// Adasum is exact where the vectors are all the same or have nothing in common.
bool all_the_same(uint64_t salt) { return salt % 2 == 0; }
constexpr int64_t kMostRanks = 8;

// The nearest number of a floating type, as its bits. Exponents stay within the type's.
uint64_t float_bits(double x, int fraction, int bias) {
  if (x == 0) return 0;
  int exponent = 0;
  const double half_to_one = std::frexp(std::fabs(x), &exponent);
  double whole = std::nearbyint(std::ldexp(half_to_one, fraction + 1));
  if (whole == std::ldexp(1, fraction + 1)) {
    whole /= 2;
    ++exponent;
  }
  const uint64_t biased = static_cast<uint64_t>(exponent - 1 + bias);
  const uint64_t bits =
      (biased << fraction) + (static_cast<uint64_t>(whole) - (uint64_t{1} << fraction));
  return bits | (x < 0 ? uint64_t{1} << (fraction == 52 ? 63 : fraction == 23 ? 31 : 15) : 0);
}

void append(std::vector<char>* bytes, int type, double x) {
  const TypeRow& t = row(type);
  uint64_t bits = 0;
  if (t.floating) {
    bits = float_bits(x, t.fraction, t.bias);
  } else {
    bits = static_cast<uint64_t>(static_cast<int64_t>(x));  // integers wrap around
  }
  char raw[8];
  memcpy(raw, &bits, sizeof bits);  // little endian, as everything here
  bytes->insert(bytes->end(), raw, raw + t.bytes);
}

// Into the range of an integer type by leaving away what is above it.
double wrapped(int type, double x) {
  const TypeRow& t = row(type);
  if (t.floating || t.bytes == 8) return x;
  const double values = std::ldexp(1, static_cast<int>(8 * t.bytes));
  const double rest = x - values * std::floor(x / values);
  return rest > t.most ? rest - values : rest;
}

double scaled(int type, double x, double multiply, int divide) {
  const TypeRow& t = row(type);
  if (type == HVD_BOOL) return x;
  if (t.floating) {
    const double factor = multiply / divide;
    return t.bytes == 8 ? x * factor : static_cast<float>(x) * static_cast<float>(factor);
  }
  if (multiply == 1) return std::trunc(x / divide);
  return std::clamp(std::trunc(x * multiply / divide), t.least, t.most);
}

double combine(int type, int op, double a, double b) {
  const bool truth = type == HVD_BOOL;
  switch (op) {
    case HVD_MIN:
      return std::min(a, b);
    case HVD_MAX:
      return std::max(a, b);
    case HVD_PRODUCT:
      return a * b;
    default:
      return truth ? std::max(a, b) : a + b;
  }
}

double outcome(const Arithmetic& how, int type, const std::vector<int>& ranks, int zeros,
               uint64_t salt, int64_t i) {
  std::vector<double> all;
  for (int rank : ranks) {
    all.push_back(scaled(type, element(how, type, rank, salt, i), how.prescale, 1));
  }
  // The same vector again and again is what it is, and zeros add nothing to it.
  if (how.op == HVD_ADASUM && all_the_same(salt)) all.resize(std::min<size_t>(all.size(), 1));
  for (int zero = 0; zero < zeros; ++zero) all.push_back(0);
  if (all.empty()) return 0;
  const double one = std::accumulate(all.begin() + 1, all.end(), all[0], [&](double a, double b) {
    return combine(type, how.op, a, b);
  });
  return scaled(type, wrapped(type, one), how.postscale, how.op == HVD_AVERAGE ? how.members : 1);
}

std::vector<char> as_bytes(int type, int64_t begin, int64_t end,
                           const std::function<double(int64_t)>& at) {
  std::vector<char> bytes;
  bytes.reserve(static_cast<size_t>(end - begin) * row(type).bytes);
  for (int64_t i = begin; i < end; ++i) append(&bytes, type, at(i));
  return bytes;
}

}  // namespace

int64_t Piece::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t Piece::row_elements() const {
  return std::accumulate(shape.begin() + 1, shape.end(), int64_t{1}, std::multiplies<>());
}

size_t bytes_of_type(int type) { return row(type).bytes; }
bool is_floating_type(int type) { return row(type).floating; }
bool is_unsigned_type(int type) { return !row(type).floating && row(type).least == 0; }
const char* name_of_type(int type) { return row(type).name; }

const char* name_of_op(int op) {
  const char* names[] = {"average", "sum", "adasum", "min", "max", "product"};
  return names[op];
}

double element(const Arithmetic& how, int type, int rank, uint64_t salt, int64_t i) {
  if (type == HVD_BOOL) return static_cast<double>((salt + i + 3 * rank) % 4 < 2);
  // How many different numbers, so that nothing is too large for what adds or multiplies them.
  int64_t numbers = 31;
  if (row(type).floating && row(type).bytes == 2) numbers = 4;
  if (how.op == HVD_PRODUCT) numbers = row(type).floating ? 2 : 3;
  const int64_t where = i * 3 + static_cast<int64_t>(salt % 1000);
  if (how.op == HVD_ADASUM) {
    if (!all_the_same(salt) && i % kMostRanks != rank) return 0;
    return static_cast<double>(1 + where % numbers);
  }
  return static_cast<double>(1 + (where + rank * 7) % numbers);
}

std::vector<char> elements(const Arithmetic& how, int type, int rank, uint64_t salt, int64_t begin,
                           int64_t end) {
  return as_bytes(type, begin, end, [&](int64_t i) { return element(how, type, rank, salt, i); });
}

std::vector<char> reduced(const Arithmetic& how, int type, const std::vector<int>& ranks, int zeros,
                          uint64_t salt, int64_t begin, int64_t end) {
  return as_bytes(type, begin, end,
                  [&](int64_t i) { return outcome(how, type, ranks, zeros, salt, i); });
}

bool same_numbers(int type, const char* a, const char* b, int64_t elements) {
  if (elements == 0) return true;  // where there may be no memory
  const size_t bytes = row(type).bytes;
  if (!row(type).floating) return memcmp(a, b, static_cast<size_t>(elements) * bytes) == 0;
  const uint64_t sign = uint64_t{1} << (8 * bytes - 1);
  for (int64_t i = 0; i < elements; ++i) {
    uint64_t x = 0;
    uint64_t y = 0;
    memcpy(&x, a + static_cast<size_t>(i) * bytes, bytes);
    memcpy(&y, b + static_cast<size_t>(i) * bytes, bytes);
    if (x != y && (x | y) != sign) return false;
  }
  return true;
}

}  // namespace hvd::test
