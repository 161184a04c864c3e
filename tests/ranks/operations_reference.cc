// SPDX-License-Identifier: Apache-2.0
//
// See operations_reference.h.
#include "tests/ranks/operations_reference.h"

#include <stdio.h>

#include <algorithm>
#include <cmath>

#include "tests/random.h"

namespace hvd::test {
namespace {

std::string shape_text(const Item& item) {
  if (item.scalar) return "[]";
  return "[" + std::to_string(item.rows) +
         (item.width == 1 ? "" : "," + std::to_string(item.width)) + "]";
}

std::string number_text(double x) {
  char text[40];
  snprintf(text, sizeof text, "%.9g", x);
  return text;
}

// Modulo 2^64; what is left of it in the type is what wraps around.
int64_t add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

int64_t multiply(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

int64_t combine_integers(int type, int op, int64_t a, int64_t b) {
  if (type == HVD_BOOL) {
    const bool all = op == HVD_MIN || op == HVD_PRODUCT;
    return all ? a != 0 && b != 0 : a != 0 || b != 0;
  }
  if (op == HVD_MIN) return std::min(a, b);
  if (op == HVD_MAX) return std::max(a, b);
  return op == HVD_PRODUCT ? multiply(a, b) : add(a, b);
}

double combine_floats(int op, double a, double b) {
  if (op == HVD_PRODUCT) return a * b;
  if (op != HVD_MIN && op != HVD_MAX) return a + b;
  if (std::isnan(a) || std::isnan(b)) return NAN;
  if (a == b) return std::signbit(a) == (op == HVD_MIN) ? a : b;
  return (a < b) == (op == HVD_MIN) ? a : b;
}

int64_t scaled(int64_t x, double multiply_by, int divide_by) {
  if (multiply_by == 1) return x / divide_by;
  return static_cast<int64_t>(static_cast<double>(x) * multiply_by / divide_by);
}

Expected integer_reduction(const Case& c, size_t item, int members) {
  const int type = c.items[item].type;
  std::vector<int64_t> result;
  for (int i = 0; i < members; ++i) {
    const std::vector<char> bytes = input_of(c, item, i, members);
    std::vector<int64_t> in = integers(type, bytes.data(), bytes.size() / bytes_per_element(type));
    for (size_t k = 0; k < in.size(); ++k) {
      in[k] = scaled(in[k], c.prescale, 1);
      if (i == 0) result.push_back(in[k]);
      if (i > 0) result[k] = combine_integers(type, c.op, result[k], in[k]);
    }
  }
  std::vector<char> bytes = bytes_of_integers(type, result);
  result = integers(type, bytes.data(), result.size());  // wrapped around
  for (int64_t& x : result) x = scaled(x, c.postscale, c.op == HVD_AVERAGE ? members : 1);
  Expected expected;
  expected.bytes = bytes_of_integers(type, result);
  return expected;
}

// arXiv:2006.02924, of two.
std::vector<double> adasum(const std::vector<double>& a, const std::vector<double>& b) {
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  const double of_a = aa == 0 ? 1 : 1 - ab / aa / 2;
  const double of_b = bb == 0 ? 1 : 1 - ab / bb / 2;
  std::vector<double> result(a.size());
  for (size_t i = 0; i < a.size(); ++i) result[i] = of_a * a[i] + of_b * b[i];
  return result;
}

// Those beyond a power of two are taken in by the first, then neighbours, their groups, and so on.
std::vector<double> adasum_of_all(std::vector<std::vector<double>> vectors) {
  size_t power = 1;
  while (power * 2 <= vectors.size()) power *= 2;
  for (size_t i = power; i < vectors.size(); ++i) {
    vectors[i - power] = adasum(vectors[i - power], vectors[i]);
  }
  for (size_t distance = 1; distance < power; distance *= 2) {
    for (size_t i = 0; i < power; i += 2 * distance) {
      vectors[i] = adasum(vectors[i], vectors[i + distance]);
    }
  }
  return vectors[0];
}

// Bounds: a sum of n inputs is rounded n times at most, and its inputs and result once more for
// their factors; each time by the roundoff of what its partial sums can be. Between nodes the
// wire's roundoff counts, once for each hop and for the result. Adasum: of its vector's length,
// with a factor for the dot products.
std::vector<double> bounds_of(const Case& c, int type, const std::vector<std::vector<double>>& in,
                              const Wire& wire) {
  const size_t n = in[0].size();
  const double times = static_cast<double>(in.size()) + 2;
  const bool on_wire = wire.roundoff != 0 && (type == HVD_FLOAT32 || type == HVD_FLOAT64);
  const double relative = times * unit_roundoff(type) + (on_wire ? wire.hops * wire.roundoff : 0);
  const bool product = c.op == HVD_PRODUCT;
  std::vector<double> bounds(n, product ? 1 : 0);
  double length = 0;
  for (const std::vector<double>& vector : in) {
    double squares = 0;
    for (size_t k = 0; k < n; ++k) {
      bounds[k] = product ? bounds[k] * std::fabs(vector[k]) : bounds[k] + std::fabs(vector[k]);
      squares += vector[k] * vector[k];
    }
    length += std::sqrt(squares);
  }
  for (double& bound : bounds) {
    if (c.op == HVD_AVERAGE) bound /= static_cast<double>(in.size());
    if (c.op == HVD_ADASUM) bound = 4 * length;
    const double smallest = type == HVD_FLOAT16 ? 0x1p-24 : 0;
    bound = bound * std::fabs(c.postscale) * relative * 1.01 + smallest;
  }
  return bounds;
}

Expected float_reduction(const Case& c, size_t item, int members, const Wire& wire) {
  const int type = c.items[item].type;
  std::vector<std::vector<double>> in;
  for (int i = 0; i < members; ++i) {
    const std::vector<char> bytes = input_of(c, item, i, members);
    in.push_back(floats(type, bytes.data(), bytes.size() / bytes_per_element(type)));
    for (double& x : in.back()) x *= c.prescale;
  }
  std::vector<double> result = in[0];
  if (c.op == HVD_ADASUM) {
    result = adasum_of_all(in);
  } else {
    for (size_t i = 1; i < in.size(); ++i) {
      for (size_t k = 0; k < result.size(); ++k) {
        result[k] = combine_floats(c.op, result[k], in[i][k]);
      }
    }
  }
  for (double& x : result) x = x * c.postscale / (c.op == HVD_AVERAGE ? members : 1);
  Expected expected;
  const bool rounded = c.op == HVD_AVERAGE && (members & (members - 1)) != 0;
  const bool exact = c.values != Values::kRandom || c.op == HVD_MIN || c.op == HVD_MAX;
  if (c.op == HVD_ADASUM || rounded || !exact) {
    expected.bounds = bounds_of(c, type, in, wire);
    expected.values = std::move(result);
  } else {
    expected.bytes = bytes_of_floats(type, result);
  }
  return expected;
}

// Elements [begin, end).
Expected part_of(Expected whole, int type, size_t begin, size_t end) {
  const auto cut = [](auto* items, size_t from, size_t to) {
    if (items->empty()) return;
    items->erase(items->begin() + static_cast<ptrdiff_t>(to), items->end());
    items->erase(items->begin(), items->begin() + static_cast<ptrdiff_t>(from));
  };
  const size_t size = bytes_per_element(type);
  cut(&whole.bytes, begin * size, end * size);
  cut(&whole.values, begin, end);
  cut(&whole.bounds, begin, end);
  return whole;
}

// A value's place in its own random sequence.
uint64_t mixed(const Case& c, size_t item, int index, size_t i) {
  Random random(c.seed * 0x10001 + item * 0x1000193 + static_cast<uint64_t>(index) * 0x9e3779b1 +
                i * 0xd6e8feb86659fd93u);
  return random.next();
}

int64_t an_integer(const Case& c, int type, uint64_t r) {
  if (type == HVD_BOOL) return static_cast<int64_t>(r & 1);
  if (c.values == Values::kAny) return static_cast<int64_t>(r);
  const bool is_signed = type != HVD_UINT8 && type != HVD_UINT16;
  return static_cast<int64_t>(r % 6) - (is_signed ? 3 : 0);
}

double a_float(const Case& c, uint64_t r) {
  if (c.values == Values::kSpecial) {
    constexpr double kSome[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1, -1, 2};
    // A column in 4 has no NaN.
    return kSome[r % 32 == 0 ? 0 : 1 + (r >> 8) % 7];
  }
  if (c.values == Values::kRandom) {
    const double fraction = static_cast<double>(r >> 11) * 0x1p-53 + 0.5;
    const int exponent = c.op == HVD_PRODUCT ? 0 : static_cast<int>(r % 9) - 6;
    return std::ldexp(fraction, exponent) * ((r & 512) != 0 ? -1 : 1);
  }
  if (c.op == HVD_PRODUCT) {
    constexpr double kPowers[] = {1, -1, 2, 0.5, 1, 2, -0.5, 1};
    return kPowers[r % 8];
  }
  return static_cast<double>(r % 7) - 3;
}

}  // namespace

const char* kind_text(Kind kind) {
  constexpr const char* kNames[kKinds] = {"allreduce", "allgather",     "broadcast",
                                          "alltoall",  "reducescatter", "barrier"};
  return kNames[static_cast<int>(kind)];
}

std::string Case::text() const {
  std::string text = grouped ? "grouped " : "";
  text += kind_text(kind);
  for (const Item& item : items) text += std::string(" ") + type_text(item.type) + shape_text(item);
  if (kind == Kind::kAllreduce || kind == Kind::kReducescatter) {
    char factors[64];
    snprintf(factors, sizeof factors, " %s of %g, times %g", op_text(op), prescale, postscale);
    text += factors;
  }
  if (kind == Kind::kBroadcast) text += " from member " + std::to_string(root);
  constexpr const char* kSpreads[] = {"", ", uneven", ", empty"};
  constexpr const char* kValues[] = {"", ", any values", ", random values", ", special values"};
  text += kSpreads[static_cast<int>(spread)];
  text += kValues[static_cast<int>(values)];
  if (null_splits) text += ", no splits";
  if (in_place) text += ", in place";
  if (shift != 0) text += ", shifted by " + std::to_string(shift);
  return text + ", set " + std::to_string(set) + ", seed " + std::to_string(seed);
}

int64_t rows_sent(const Case& c, const Item& item, int from, int to) {
  if (c.spread == Spread::kEven) return item.rows;
  return c.spread == Spread::kEmpty ? 0 : item.rows * ((from + 2 * to) % 3);
}

int64_t rows_in(const Case& c, const Item& item, int index, int members) {
  if (c.kind == Kind::kAlltoall) {
    int64_t rows = 0;
    for (int to = 0; to < members; ++to) rows += rows_sent(c, item, index, to);
    return rows;
  }
  if (c.kind != Kind::kAllgather || c.spread == Spread::kEven) return item.rows;
  // 1, none, 3, 2, 1, ... times.
  return c.spread == Spread::kEmpty ? 0 : item.rows * ((index * 3 + 1) % 4);
}

Rows rows_kept(int64_t rows, int index, int members) {
  const int64_t least = rows / members;
  const int64_t more = rows % members;
  const int64_t begin = index * least + std::min<int64_t>(index, more);
  return {begin, begin + least + (index < more ? 1 : 0)};
}

std::vector<char> input_of(const Case& c, size_t item, int index, int members) {
  const Item& shape = c.items[item];
  const size_t n = static_cast<size_t>(rows_in(c, shape, index, members) * shape.width);
  if (index < c.zeros_before) return std::vector<char>(n * bytes_per_element(shape.type), 0);
  if (is_floating_type(shape.type)) {
    std::vector<double> values(n);
    for (size_t i = 0; i < n; ++i) values[i] = a_float(c, mixed(c, item, index, i));
    return bytes_of_floats(shape.type, values);
  }
  std::vector<int64_t> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = an_integer(c, shape.type, mixed(c, item, index, i));
  return bytes_of_integers(shape.type, values);
}

Expected expected_of(const Case& c, size_t item, int index, int members, const Wire& wire) {
  const Item& shape = c.items[item];
  Expected expected;
  if (c.kind == Kind::kAllreduce || c.kind == Kind::kReducescatter) {
    expected = is_floating_type(shape.type) ? float_reduction(c, item, members, wire)
                                            : integer_reduction(c, item, members);
    expected.rows = shape.rows;
    if (c.kind == Kind::kAllreduce) return expected;
    const Rows kept = rows_kept(shape.rows, index, members);
    expected =
        part_of(std::move(expected), shape.type, static_cast<size_t>(kept.begin * shape.width),
                static_cast<size_t>(kept.end * shape.width));
    expected.rows = kept.end - kept.begin;
  } else if (c.kind == Kind::kBroadcast) {
    expected.bytes = input_of(c, item, c.root, members);
    expected.rows = shape.rows;
  } else {
    const int64_t row = shape.width * static_cast<int64_t>(bytes_per_element(shape.type));
    for (int from = 0; from < members; ++from) {
      const std::vector<char> bytes = input_of(c, item, from, members);
      int64_t begin = 0;
      int64_t rows = rows_in(c, shape, from, members);
      if (c.kind == Kind::kAlltoall) {
        for (int to = 0; to < index; ++to) begin += rows_sent(c, shape, from, to);
        rows = rows_sent(c, shape, from, index);
      }
      expected.rows += rows;
      expected.bytes.insert(expected.bytes.end(), bytes.begin() + begin * row,
                            bytes.begin() + (begin + rows) * row);
    }
  }
  return expected;
}

std::string wrong_with(int type, const char* got, const Expected& want) {
  const auto at = [](size_t i, double is, double should) {
    return "element " + std::to_string(i) + " is " + number_text(is) + ", not " +
           number_text(should);
  };
  if (!want.bounds.empty()) {
    const std::vector<double> is = floats(type, got, want.values.size());
    for (size_t i = 0; i < is.size(); ++i) {
      if (!(std::fabs(is[i] - want.values[i]) <= want.bounds[i])) {
        return at(i, is[i], want.values[i]) + ", within " + number_text(want.bounds[i]);
      }
    }
    return "";
  }
  if (want.bytes.empty() || memcmp(got, want.bytes.data(), want.bytes.size()) == 0) return "";
  const size_t n = want.bytes.size() / bytes_per_element(type);
  if (!is_floating_type(type)) {
    const std::vector<int64_t> is = integers(type, got, n);
    const std::vector<int64_t> should = integers(type, want.bytes.data(), n);
    for (size_t i = 0; i < n; ++i) {
      if (is[i] == should[i]) continue;
      return "element " + std::to_string(i) + " is " + std::to_string(is[i]) + ", not " +
             std::to_string(should[i]);
    }
  }
  const std::vector<double> is = floats(type, got, n);
  const std::vector<double> should = floats(type, want.bytes.data(), n);
  for (size_t i = 0; i < n; ++i) {
    if (std::isnan(is[i]) && std::isnan(should[i])) continue;
    if (is[i] != should[i] || std::signbit(is[i]) != std::signbit(should[i])) {
      return at(i, is[i], should[i]);
    }
  }
  return "";
}

}  // namespace hvd::test
