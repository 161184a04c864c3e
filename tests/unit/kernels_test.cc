// SPDX-License-Identifier: Apache-2.0
//
// The loops over elements: every instruction set gives the portable one's bits, at any alignment.
#include "libhvd/data/kernels.h"

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/catch.h"

using namespace hvd;

namespace {

const DataType kTypes[] = {DataType::kInt32, DataType::kInt64, DataType::kFloat32,
                           DataType::kFloat64};

// Bytes that make ordinary numbers of the type.
std::string random_elements(DataType type, size_t n, std::mt19937_64* random) {
  std::string bytes;
  for (size_t i = 0; i < n; ++i) {
    const auto r = static_cast<int64_t>((*random)());
    const double x = static_cast<double>(r) / 9e12;
    const float f = static_cast<float>(x);
    const auto i32 = static_cast<int32_t>(r);
    const char* p = type == DataType::kInt32     ? reinterpret_cast<const char*>(&i32)
                    : type == DataType::kInt64   ? reinterpret_cast<const char*>(&r)
                    : type == DataType::kFloat32 ? reinterpret_cast<const char*>(&f)
                                                 : reinterpret_cast<const char*>(&x);
    bytes.append(p, size_of(type));
  }
  return bytes;
}

}  // namespace

TEST_CASE("every instruction set sums to the same bits, unaligned and in place") {
  int sets = 0;
  const Kernels* const* all = all_kernels(&sets);
  std::mt19937_64 random(1);
  for (DataType type : kTypes) {
    for (size_t n : {0, 1, 7, 64, 1000, 2049}) {
      for (int count = 1; count <= 9; ++count) {
        std::vector<std::string> sources;
        std::vector<const void*> from;
        for (int i = 0; i < count; ++i) sources.push_back("x" + random_elements(type, n, &random));
        for (auto& source : sources) from.push_back(source.data() + 1);
        std::string want(1 + n * size_of(type), '\0');
        all[0]->reduce(type, ReduceOp::kSum, want.data() + 1, from.data(), count, n);
        for (int set = 0; set < sets; ++set) {
          INFO(all[set]->name << " " << name_of(type) << " n " << n << " count " << count);
          std::string got(1 + n * size_of(type), '\0');
          all[set]->reduce(type, ReduceOp::kSum, got.data() + 1, from.data(), count, n);
          CHECK(got == want);
          for (int alias = 0; alias < count && alias < 4; ++alias) {
            std::vector<std::string> copies = sources;
            std::vector<const void*> aliased;
            for (auto& copy : copies) aliased.push_back(copy.data() + 1);
            char* to = copies[static_cast<size_t>(alias)].data() + 1;
            all[set]->reduce(type, ReduceOp::kSum, to, aliased.data(), count, n);
            CHECK(std::string(to, n * size_of(type)) == want.substr(1));
          }
        }
      }
    }
  }
}

TEST_CASE("every instruction set scales to the same bits") {
  int sets = 0;
  const Kernels* const* all = all_kernels(&sets);
  std::mt19937_64 random(2);
  const Scale scales[] = {{1, 1}, {0.5, 1}, {1, 3}, {-2.25, 7}, {1e300, 1}};
  for (DataType type : kTypes) {
    const std::string source = random_elements(type, 1001, &random);
    for (const Scale& scale : scales) {
      std::string want = source;
      all[0]->scale(type, want.data(), source.data(), 1001, scale);
      for (int set = 0; set < sets; ++set) {
        std::string got = source;
        all[set]->scale(type, got.data(), got.data(), 1001, scale);
        CHECK(got == want);
      }
    }
  }
}

TEST_CASE("integers are scaled in double precision and truncated, and stay in range") {
  const struct {
    int64_t in;
    Scale scale;
    int64_t out;
  } cases[] = {
      {7, {1, 3}, 2},
      {-7, {1, 3}, -2},
      {49, {1, 49}, 1},
      {7, {0.5, 1}, 3},
      {-7, {0.5, 1}, -3},
      {INT64_MAX, {1, 1}, INT64_MAX},
      {5, {1e300, 1}, INT64_MAX},
      {5, {-1e300, 1}, INT64_MIN},
      {(int64_t{1} << 53) + 1, {1, 1}, (int64_t{1} << 53) + 1},
  };
  for (const auto& c : cases) {
    int64_t out = 0;
    kernels().scale(DataType::kInt64, &out, &c.in, 1, c.scale);
    CHECK(out == c.out);
  }
  int32_t big = 2000000000;
  kernels().scale(DataType::kInt32, &big, &big, 1, {2, 1});
  CHECK(big == INT32_MAX);
}
