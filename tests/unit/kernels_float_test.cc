// SPDX-License-Identifier: Apache-2.0
//
// Conversions between the floating types, dot products and linear combinations: every instruction
// set gives the plain reference's bits.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "libhvd/data/kernels.h"
#include "tests/unit/catch.h"
#include "tests/unit/kernels_reference.h"

using namespace hvd;
using reference::random_elements;

namespace {

const DataType kFloats[] = {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32,
                            DataType::kFloat64};

std::vector<const Kernels*> sets() {
  int count = 0;
  const Kernels* const* all = all_kernels(&count);
  return {all, all + count};
}

// Converts at odd addresses; in place where elements do not grow and it is asked for.
std::string convert(const Kernels& set, DataType to_type, DataType from_type,
                    const std::string& from, bool in_place = false) {
  const size_t n = from.size() / size_of(from_type);
  std::string source = "x" + from;
  std::string apart(1 + n * size_of(to_type), 'x');
  char* to = in_place ? source.data() + 1 : apart.data() + 1;
  set.convert(to_type, to, from_type, source.data() + 1, n);
  return std::string(to, n * size_of(to_type));
}

size_t first_difference(DataType type, const std::string& got, const std::string& want) {
  for (size_t at = 0; at < want.size(); at += size_of(type)) {
    if (got.compare(at, size_of(type), want, at, size_of(type)) != 0) return at / size_of(type);
  }
  return SIZE_MAX;
}

std::string all_of_16_bits() {
  std::string all;
  for (int i = 0; i < 65536; ++i) {
    all += static_cast<char>(i & 0xff);
    all += static_cast<char>(i >> 8);
  }
  return all;
}

template <typename T>
void append(std::string* bytes, T x) {
  bytes->append(reinterpret_cast<const char*>(&x), sizeof(x));
}

// For every number of the 16-bit type: itself, the middle between it and the next, and the
// neighbours of the middle in T: where rounding decides.
template <typename T>
std::string around(DataType narrow) {
  std::string bytes;
  for (int i = 0; i < 65535; ++i) {
    const auto a = static_cast<uint16_t>(i);
    const auto b = static_cast<uint16_t>(i + 1);
    const double x = reference::number_at(narrow, &a);
    const double y = reference::number_at(narrow, &b);
    append(&bytes, static_cast<T>(x));
    if (std::isnan(x) || std::isnan(y)) continue;
    // Towards infinity the next would be as far as the one before was.
    const auto c = static_cast<uint16_t>(i - 1);
    const double step = std::isinf(y) ? x - reference::number_at(narrow, &c) : y - x;
    if (std::isinf(x)) continue;
    const T middle = static_cast<T>(x + step / 2);
    const T infinity = std::numeric_limits<T>::infinity();
    append(&bytes, middle);
    append(&bytes, std::nextafter(middle, infinity));
    append(&bytes, std::nextafter(middle, -infinity));
  }
  return bytes;
}

}  // namespace

TEST_CASE("all 65,536 float16 and bfloat16 become the numbers they are, and come back") {
  const std::string all = all_of_16_bits();
  for (DataType narrow : {DataType::kFloat16, DataType::kBfloat16}) {
    for (DataType wide : {DataType::kFloat32, DataType::kFloat64}) {
      const std::string want = reference::convert(wide, narrow, all);
      for (const Kernels* set : sets()) {
        INFO(set->name << ": " << name_of(narrow) << " to " << name_of(wide));
        const std::string got = convert(*set, wide, narrow, all);
        CHECK(first_difference(wide, got, want) == SIZE_MAX);
        // NaNs come back as the one NaN, all others as they were.
        const std::string back = convert(*set, narrow, wide, got);
        CHECK(first_difference(narrow, back, reference::convert(narrow, wide, want)) == SIZE_MAX);
        int changed = 0;
        for (size_t i = 0; i < all.size(); i += 2) {
          const bool same = all.compare(i, 2, back, i, 2) == 0;
          const bool nan = std::isnan(reference::number_at(narrow, all.data() + i));
          changed += !same && !nan;
        }
        CHECK(changed == 0);
      }
    }
  }
}

TEST_CASE("float32 and float64 are rounded once to 16 bits, ties to even, on every set") {
  for (DataType narrow : {DataType::kFloat16, DataType::kBfloat16}) {
    const std::string floats = around<float>(narrow);
    const std::string doubles = around<double>(narrow);
    const std::string want32 = reference::convert(narrow, DataType::kFloat32, floats);
    const std::string want64 = reference::convert(narrow, DataType::kFloat64, doubles);
    for (const Kernels* set : sets()) {
      INFO(set->name << ": " << name_of(narrow));
      CHECK(first_difference(narrow, convert(*set, narrow, DataType::kFloat32, floats), want32) ==
            SIZE_MAX);
      CHECK(first_difference(narrow, convert(*set, narrow, DataType::kFloat64, doubles), want64) ==
            SIZE_MAX);
    }
  }
}

TEST_CASE("float32 of every exponent and sign is converted like the reference does it") {
  std::mt19937_64 random(4);
  std::string floats;
  for (uint32_t top = 0; top < 512; ++top) {
    for (uint32_t low : {0u, 1u, 0x1000u, 0xfffu, 0x1001u, 0x3fffffu, 0x400000u, 0x7fffffu}) {
      append(&floats, top << 23 | low);
    }
    for (int i = 0; i < 100; ++i) {
      append(&floats, top << 23 | static_cast<uint32_t>(random() & 0x7fffff));
    }
  }
  for (DataType to : kFloats) {
    const std::string want = reference::convert(to, DataType::kFloat32, floats);
    for (const Kernels* set : sets()) {
      INFO(set->name << ": to " << name_of(to));
      CHECK(first_difference(to, convert(*set, to, DataType::kFloat32, floats), want) == SIZE_MAX);
    }
  }
}

TEST_CASE("every pair of floating types converts, of any number of elements, also in place") {
  std::mt19937_64 random(5);
  for (DataType from : kFloats) {
    for (DataType to : kFloats) {
      for (size_t n : {0, 1, 7, 33, 5003}) {
        const std::string source = random_elements(from, n, &random);
        const std::string want = reference::convert(to, from, source);
        for (const Kernels* set : sets()) {
          INFO(set->name << ": " << n << " " << name_of(from) << " to " << name_of(to));
          CHECK(convert(*set, to, from, source) == want);
          if (size_of(to) <= size_of(from)) CHECK(convert(*set, to, from, source, true) == want);
        }
      }
    }
  }
}

TEST_CASE("a linear combination is the plain one, also into one of its operands") {
  std::mt19937_64 random(6);
  const double factors[][2] = {{1, 1}, {0.1, -3.7}, {1e-9, 1}, {0, 1}};
  for (DataType type : kFloats) {
    for (size_t n : {0, 1, 7, 33, 5003}) {
      const std::string a = random_elements(type, n, &random);
      const std::string b = random_elements(type, n, &random);
      for (const auto& [ca, cb] : factors) {
        const std::string want = reference::combine(type, ca, a, cb, b);
        for (const Kernels* set : sets()) {
          INFO(set->name << ": " << name_of(type) << " " << n << " " << ca << " " << cb);
          std::string x = "x" + a;
          std::string y = "x" + b;
          std::string to(x.size(), 'x');
          set->combine(type, to.data() + 1, ca, x.data() + 1, cb, y.data() + 1, n);
          CHECK(to.substr(1) == want);
          set->combine(type, x.data() + 1, ca, x.data() + 1, cb, b.data(), n);
          CHECK(x.substr(1) == want);
          set->combine(type, y.data() + 1, ca, a.data(), cb, y.data() + 1, n);
          CHECK(y.substr(1) == want);
        }
      }
    }
  }
}

TEST_CASE("dot products are added to what is there, and are the same bits on every set") {
  std::mt19937_64 random(7);
  for (DataType type : kFloats) {
    for (size_t n : {0, 1, 7, 8, 33, 5003}) {
      // Of ordinary size: the sums' order matters, and they are near the true ones.
      std::string a(n * size_of(type), '\0');
      std::string b = a;
      long double want[3] = {1, 2, 3};
      for (size_t i = 0; i < n; ++i) {
        for (std::string* s : {&a, &b}) {
          const double x = std::ldexp(static_cast<double>(random() % 4096), -9) - 3.9;
          reference::put_number(type, s->data() + i * size_of(type), x);
        }
        const long double x = reference::number_at(type, a.data() + i * size_of(type));
        const long double y = reference::number_at(type, b.data() + i * size_of(type));
        want[0] += x * y;
        want[1] += x * x;
        want[2] += y * y;
      }
      double first[3] = {1, 2, 3};
      sets()[0]->dot(type, a.data(), b.data(), n, first);
      for (const Kernels* set : sets()) {
        INFO(set->name << ": " << name_of(type) << " " << n);
        const std::string x = "x" + a;
        const std::string y = "x" + b;
        double out[3] = {1, 2, 3};
        set->dot(type, x.data() + 1, y.data() + 1, n, out);
        CHECK(memcmp(out, first, sizeof(out)) == 0);
        for (int k = 0; k < 3; ++k) {
          CHECK(std::fabs(static_cast<double>(out[k] - want[k])) <= 1e-11 * (1 + 16.0 * n));
        }
      }
    }
  }
}

TEST_CASE("a dot product with a NaN or of infinities is the one NaN on every set") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (DataType type : kFloats) {
    std::string a(20 * size_of(type), '\0');
    std::string b = a;
    reference::put_number(type, a.data() + 3 * size_of(type), HUGE_VAL);
    reference::put_number(type, b.data() + 9 * size_of(type), nan);
    for (const Kernels* set : sets()) {
      double out[3] = {};
      set->dot(type, a.data(), b.data(), 20, out);
      CHECK(memcmp(&out[0], &nan, sizeof(nan)) == 0);  // infinity * 0
      CHECK(out[1] == HUGE_VAL);
      CHECK(memcmp(&out[2], &nan, sizeof(nan)) == 0);
    }
  }
}
