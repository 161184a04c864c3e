// SPDX-License-Identifier: Apache-2.0
//
// Reductions and scaling: every instruction set gives the plain reference's bits, for every type
// and operation, at any alignment.
#include "libhvd/data/kernels.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/unit/catch.h"
#include "tests/unit/kernels_reference.h"

using namespace hvd;
using reference::random_elements;

namespace {

std::vector<const Kernels*> sets() {
  int count = 0;
  const Kernels* const* all = all_kernels(&count);
  return {all, all + count};
}

std::vector<DataType> types() {
  std::vector<DataType> all;
  for (int i = 0; i < kTypeCount; ++i) all.push_back(static_cast<DataType>(i));
  return all;
}

const ReduceOp kOps[] = {ReduceOp::kAverage, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax,
                         ReduceOp::kProduct};

// Few, a vector more or less, and more than the kernels take at a time.
std::vector<size_t> sizes(DataType type) { return {0, 1, 7, 33, 10240 / size_of(type) + 3}; }

std::vector<std::string> random_sources(DataType type, size_t n, int count,
                                        std::mt19937_64* random) {
  std::vector<std::string> sources;
  for (int i = 0; i < count; ++i) sources.push_back(random_elements(type, n, random));
  return sources;
}

// Reduces copies of the sources, each at an odd address; into a place of its own, or into copy
// number `alias`.
std::string reduce(const Kernels& set, DataType type, ReduceOp op,
                   const std::vector<std::string>& sources, int alias = -1) {
  std::vector<std::string> copies;
  std::vector<const void*> from;
  for (const auto& source : sources) copies.push_back("x" + source);
  for (const auto& copy : copies) from.push_back(copy.data() + 1);
  std::string apart = "x" + sources[0] + "end";
  char* to = alias < 0 ? apart.data() + 1 : copies[static_cast<size_t>(alias)].data() + 1;
  const size_t bytes = sources[0].size();
  set.reduce(type, op, to, from.data(), static_cast<int>(sources.size()), bytes / size_of(type));
  if (apart[0] != 'x' || apart.substr(1 + bytes) != "end") return "wrote beside the result";
  return std::string(to, bytes);
}

// The first element at which two results differ, for the message.
std::string difference(DataType type, const std::string& got, const std::string& want) {
  if (got.size() != want.size()) return got;
  const size_t size = size_of(type);
  for (size_t at = 0; at < got.size(); at += size) {
    if (got.compare(at, size, want, at, size) == 0) continue;
    uint64_t a = 0;
    uint64_t b = 0;
    memcpy(&a, got.data() + at, size);
    memcpy(&b, want.data() + at, size);
    char text[100];
    snprintf(text, sizeof(text), "element %zu is %llx, not %llx", at / size,
             static_cast<unsigned long long>(a), static_cast<unsigned long long>(b));
    return text;
  }
  return "";
}

}  // namespace

TEST_CASE("every reduction of every type is the plain one on every instruction set") {
  std::mt19937_64 random(1);
  for (DataType type : types()) {
    for (size_t n : sizes(type)) {
      for (int count = 1; count <= 9; ++count) {
        const auto sources = random_sources(type, n, count, &random);
        for (ReduceOp op : kOps) {
          const std::string want = reference::reduce(type, op, sources);
          for (const Kernels* set : sets()) {
            INFO(set->name << ": " << name_of(op) << " of " << name_of(type) << ", n " << n
                           << ", count " << count);
            CHECK(difference(type, reduce(*set, type, op, sources), want) == "");
          }
        }
      }
    }
  }
}

TEST_CASE("the result may be any one of the sources") {
  std::mt19937_64 random(2);
  for (DataType type : types()) {
    for (int count = 1; count <= 9; ++count) {
      const auto sources = random_sources(type, 10240 / size_of(type) + 3, count, &random);
      for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin}) {
        const std::string want = reduce(*sets()[0], type, op, sources);
        for (const Kernels* set : sets()) {
          for (int alias = 0; alias < count; ++alias) {
            INFO(set->name << ": " << name_of(op) << " of " << name_of(type) << ", source " << alias
                           << " of " << count);
            CHECK(difference(type, reduce(*set, type, op, sources, alias), want) == "");
          }
        }
      }
    }
  }
}

TEST_CASE("one NaN in any source makes minimum and maximum NaN, and -0 is less than +0") {
  for (DataType type : types()) {
    if (!is_floating(type)) continue;
    const auto elements = [&](double x) {
      std::string bytes(37 * size_of(type), '\0');
      for (size_t i = 0; i < 37; ++i) {
        reference::put_number(type, bytes.data() + i * size_of(type), x);
      }
      return bytes;
    };
    const double infinity = std::numeric_limits<double>::infinity();
    const double nan = std::numeric_limits<double>::quiet_NaN();
    std::string negative_nan = elements(nan);
    for (size_t i = size_of(type) - 1; i < negative_nan.size(); i += size_of(type)) {
      negative_nan[i] = static_cast<char>(0xff);  // the sign, and for 16 bits more of the fraction
    }
    for (const Kernels* set : sets()) {
      for (int count : {2, 3, 4, 5, 8}) {
        for (int place = 0; place < count; ++place) {
          INFO(set->name << ": " << name_of(type) << ", source " << place << " of " << count);
          const auto with = [&](double others, const std::string& one) {
            std::vector<std::string> sources(static_cast<size_t>(count), elements(others));
            sources[static_cast<size_t>(place)] = one;
            return sources;
          };
          const auto least = [&](const std::vector<std::string>& sources) {
            return reduce(*set, type, ReduceOp::kMin, sources);
          };
          const auto most = [&](const std::vector<std::string>& sources) {
            return reduce(*set, type, ReduceOp::kMax, sources);
          };
          CHECK(least(with(-infinity, elements(nan))) == elements(nan));
          CHECK(most(with(infinity, elements(nan))) == elements(nan));
          CHECK(least(with(-infinity, negative_nan)) == elements(nan));
          CHECK(most(with(infinity, negative_nan)) == elements(nan));
          CHECK(least(with(0.0, elements(-0.0))) == elements(-0.0));
          CHECK(most(with(-0.0, elements(0.0))) == elements(0.0));
          CHECK(least(with(-0.0, elements(0.0))) == elements(-0.0));
          CHECK(most(with(0.0, elements(-0.0))) == elements(0.0));
        }
      }
    }
  }
}

TEST_CASE("16-bit floating types are rounded once, however many sources there are") {
  // 1 + 8 * 2^-12: each of the eight alone is less than half of float16's last bit of 1.
  const uint16_t one = 0x3c00;
  const uint16_t small = 0x0c00;
  for (const Kernels* set : sets()) {
    const void* from[9] = {&one};
    for (int i = 1; i < 9; ++i) from[i] = &small;
    uint16_t to = 0;
    set->reduce(DataType::kFloat16, ReduceOp::kSum, &to, from, 9, 1);
    CHECK(to == 0x3c02);
  }
}

TEST_CASE("every type is scaled as the plain reference does it, in place and not") {
  std::mt19937_64 random(3);
  const Scale scales[] = {{1, 1},     {0.5, 1}, {1, 3},       {1, 8},       {-2.25, 7},
                          {1e300, 1}, {1, 999}, {-1e-300, 1}, {HUGE_VAL, 1}};
  for (DataType type : types()) {
    for (const Scale& scale : scales) {
      if (type == DataType::kBool && !scale.identity()) continue;
      const std::string source = random_elements(type, 1001 + 2048, &random);
      const std::string want = reference::scale(type, source, scale);
      for (const Kernels* set : sets()) {
        INFO(set->name << ": " << name_of(type) << " * " << scale.multiply << " / "
                       << scale.divide);
        std::string got = "x" + source;
        set->scale(type, got.data() + 1, got.data() + 1, 1001 + 2048, scale);
        CHECK(difference(type, got.substr(1), want) == "");
        std::string apart(got.size(), 'x');
        set->scale(type, apart.data() + 1, source.data(), 1001 + 2048, scale);
        CHECK(difference(type, apart.substr(1), want) == "");
      }
    }
  }
}

TEST_CASE("integers are scaled in double precision and truncated, and stay in range") {
  const struct {
    DataType type;
    int64_t in;
    Scale scale;
    int64_t out;
  } cases[] = {
      {DataType::kInt64, 7, {1, 3}, 2},
      {DataType::kInt64, -7, {1, 3}, -2},
      {DataType::kInt64, 49, {1, 49}, 1},
      {DataType::kInt64, 7, {0.5, 1}, 3},
      {DataType::kInt64, -7, {0.5, 1}, -3},
      {DataType::kInt64, INT64_MAX, {1, 1}, INT64_MAX},
      {DataType::kInt64, INT64_MAX, {1, 2}, INT64_MAX / 2},
      {DataType::kInt64, 5, {1e300, 1}, INT64_MAX},
      {DataType::kInt64, 5, {-1e300, 1}, INT64_MIN},
      {DataType::kInt64, 0, {HUGE_VAL, 1}, 0},
      {DataType::kInt64, (int64_t{1} << 53) + 1, {1, 1}, (int64_t{1} << 53) + 1},
      {DataType::kInt32, 2000000000, {2, 1}, INT32_MAX},
      {DataType::kInt32, -2000000000, {2, 1}, INT32_MIN},
      {DataType::kInt32, INT32_MIN, {1, 3}, INT32_MIN / 3},
      {DataType::kInt32, INT32_MAX, {1, int64_t{1} << 40}, 0},
      {DataType::kInt16, -32768, {-1, 1}, 32767},
      {DataType::kInt16, 32767, {0.1, 1}, 3276},
      {DataType::kUint16, 65535, {1.5, 1}, 65535},
      {DataType::kUint16, 65535, {-1, 1}, 0},
      {DataType::kUint16, 65535, {1, 2}, 32767},
      {DataType::kInt8, -128, {1, 5}, -25},
      {DataType::kInt8, 100, {3, 1}, 127},
      {DataType::kUint8, 255, {1, 2}, 127},
      {DataType::kUint8, 1, {-0.5, 1}, 0},
      {DataType::kUint8, 200, {2, 1}, 255},
  };
  for (const auto& c : cases) {
    for (const Kernels* set : sets()) {
      INFO(set->name << ": " << name_of(c.type) << " " << c.in << " * " << c.scale.multiply << " / "
                     << c.scale.divide);
      // Little-endian: the low bytes come first.
      std::string got(40 * size_of(c.type), '\0');
      std::string want = got;
      for (size_t i = 0; i < 40; ++i) {
        memcpy(got.data() + i * size_of(c.type), &c.in, size_of(c.type));
        memcpy(want.data() + i * size_of(c.type), &c.out, size_of(c.type));
      }
      set->scale(c.type, got.data(), got.data(), 40, c.scale);
      CHECK(difference(c.type, got, want) == "");
    }
  }
}

TEST_CASE("integer extremes wrap around, and bool is or and and") {
  const struct {
    DataType type;
    ReduceOp op;
    int64_t a;
    int64_t b;
    int64_t out;
  } cases[] = {
      {DataType::kUint8, ReduceOp::kSum, 255, 1, 0},
      {DataType::kInt8, ReduceOp::kSum, 127, 1, -128},
      {DataType::kUint16, ReduceOp::kProduct, 65535, 65535, 1},
      {DataType::kInt16, ReduceOp::kProduct, -32768, -1, -32768},
      {DataType::kInt32, ReduceOp::kSum, INT32_MIN, -1, INT32_MAX},
      {DataType::kInt64, ReduceOp::kProduct, INT64_MAX, 2, -2},
      {DataType::kInt64, ReduceOp::kMin, INT64_MIN, INT64_MAX, INT64_MIN},
      {DataType::kInt64, ReduceOp::kMax, INT64_MIN, INT64_MAX, INT64_MAX},
      {DataType::kUint8, ReduceOp::kMax, 255, 1, 255},
      {DataType::kInt8, ReduceOp::kMax, -1, 1, 1},
      {DataType::kUint16, ReduceOp::kMin, 65535, 1, 1},
      {DataType::kBool, ReduceOp::kSum, 0, 0x80, 1},
      {DataType::kBool, ReduceOp::kSum, 0, 0, 0},
      {DataType::kBool, ReduceOp::kMax, 2, 0, 1},
      {DataType::kBool, ReduceOp::kProduct, 2, 1, 1},
      {DataType::kBool, ReduceOp::kProduct, 2, 0, 0},
      {DataType::kBool, ReduceOp::kMin, 4, 2, 1},
  };
  for (const auto& c : cases) {
    for (const Kernels* set : sets()) {
      INFO(set->name << ": " << name_of(c.op) << " of " << name_of(c.type) << " " << c.a << ", "
                     << c.b);
      const void* from[2] = {&c.a, &c.b};
      int64_t to = 0;
      set->reduce(c.type, c.op, &to, from, 2, 1);
      CHECK(memcmp(&to, &c.out, size_of(c.type)) == 0);
    }
  }
}

TEST_CASE("every type and reduction has a name, and its number is Horovod's") {
  const char* const names[] = {"uint8",   "int8",    "uint16",  "int16", "int32",   "int64",
                               "float16", "float32", "float64", "bool",  "bfloat16"};
  const size_t bytes[] = {1, 1, 2, 2, 4, 8, 2, 4, 8, 1, 2};
  for (int i = 0; i < kTypeCount; ++i) {
    const auto type = static_cast<DataType>(i);
    CHECK(is_type(i));
    CHECK(name_of(type) == std::string(names[i]));
    CHECK(size_of(type) == bytes[i]);
    CHECK(is_floating(type) == (std::string(names[i]).find("float") != std::string::npos));
  }
  CHECK(!is_type(-1));
  CHECK(!is_type(kTypeCount));
  const char* const ops[] = {"average", "sum", "adasum", "min", "max", "product"};
  for (int i = 0; i < kOpCount; ++i) {
    CHECK(is_op(i));
    CHECK(name_of(static_cast<ReduceOp>(i)) == std::string(ops[i]));
  }
  CHECK(!is_op(-1));
  CHECK(!is_op(kOpCount));
}
