// SPDX-License-Identifier: Apache-2.0
//
// The numbers that hvd-perf sends, and what it expects to come back.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "libhvd/tools/perf/operation.h"
#include "libhvd/tools/perf/pattern.h"
#include "tests/unit/catch.h"

namespace hvd::perf {
namespace {

// What the type calculates, one rank after the other; the short types in double, in which all
// numbers of this test are exact.
struct Numbers {
  const ElementType& type;

  double at(const std::vector<unsigned char>& data, int64_t i) const {
    const unsigned char* from = data.data() + i * type.bytes;
    const auto as = [&](auto value) {
      memcpy(&value, from, sizeof value);
      return value;
    };
    switch (type.number) {
      case HVD_UINT8:
      case HVD_BOOL:
        return as(uint8_t{});
      case HVD_INT8:
        return as(int8_t{});
      case HVD_UINT16:
        return as(uint16_t{});
      case HVD_INT16:
        return as(int16_t{});
      case HVD_INT32:
        return as(int32_t{});
      case HVD_INT64:
        return static_cast<double>(as(int64_t{}));
      case HVD_FLOAT32:
        return as(float{});
      case HVD_FLOAT64:
        return as(double{});
      case HVD_BFLOAT16:
        return as_bfloat16(as(uint16_t{}));
      default:
        return as_float16(as(uint16_t{}));
    }
  }

  static double as_bfloat16(uint16_t bits) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
  }
  static double as_float16(uint16_t bits) {
    if ((bits & 0x7fff) == 0) return 0;
    const double value = std::ldexp(1024 + (bits & 1023), ((bits >> 10) & 31) - 25);
    return (bits & 0x8000) != 0 ? -value : value;
  }

  // Sums and products of integers wrap around; of bool they are "or" and "and".
  double wrap(double value) const {
    if (type.number == HVD_BOOL) return value != 0;
    if (type.is_floating() || type.bytes == 8) return value;
    const double range = std::ldexp(1.0, static_cast<int>(8 * type.bytes));
    const bool is_signed = type.number != HVD_UINT8 && type.number != HVD_UINT16;
    const double least = is_signed ? -range / 2 : 0;
    return value - range * std::floor((value - least) / range);
  }

  double reduce(hvd_op op, double a, double b) const {
    switch (op) {
      case HVD_MIN:
        return std::min(a, b);
      case HVD_MAX:
        return std::max(a, b);
      case HVD_PRODUCT:
        return wrap(a * b);
      default:
        return wrap(a + b);
    }
  }
};

TEST_CASE("what is expected is what the ranks send, reduced, in every type and reduction") {
  constexpr int64_t kCount = 1000;
  constexpr int64_t kShift = Pattern::kPeriod - 300;  // goes over the end
  constexpr int kRanks = 5;
  for (const ElementType& type : kElementTypes) {
    for (const Reduction& reduction : kReductions) {
      const hvd_op op = reduction.number;
      if (op == HVD_AVERAGE && type.number == HVD_BOOL) continue;
      if (op == HVD_ADASUM && !type.is_floating()) continue;
      CAPTURE(type.name, reduction.name);
      const Numbers numbers{type};
      std::vector<unsigned char> data(static_cast<size_t>(kCount * type.bytes));
      std::vector<double> results(kCount);
      for (int rank = 0; rank < kRanks; ++rank) {
        Pattern::sent(type, op, rank, kRanks).fill(data.data(), kCount, kShift);
        for (int64_t i = 0; i < kCount; ++i) {
          double& result = results[static_cast<size_t>(i)];
          const double sent = numbers.at(data, i);
          result = rank == 0 ? sent : numbers.reduce(op, result, sent);
        }
      }
      Pattern::reduced(type, op, kRanks).fill(data.data(), kCount, kShift);
      int64_t wrong = 0;
      std::set<double> seen;
      for (int64_t i = 0; i < kCount; ++i) {
        double result = results[static_cast<size_t>(i)];
        const double expected = numbers.at(data, i);
        seen.insert(expected);
        if (op != HVD_AVERAGE) {
          wrong += result != expected;
          continue;
        }
        result /= kRanks;
        if (!type.is_floating()) result = std::trunc(result);
        wrong += std::fabs(result - expected) > std::fabs(result) / 100;
      }
      CHECK(wrong == 0);
      CHECK(seen.size() >= 2);
    }
  }
}

TEST_CASE("sums of many ranks stay where the type has all integers") {
  constexpr int kRanks = 1000;
  for (const ElementType& type : kElementTypes) {
    if (!type.is_short_float()) continue;
    CAPTURE(type.name);
    std::vector<unsigned char> data(static_cast<size_t>(100 * type.bytes));
    std::vector<double> most(100);
    for (int rank = 0; rank < kRanks; ++rank) {
      Pattern::sent(type, HVD_SUM, rank, kRanks).fill(data.data(), 100, 0);
      for (int64_t i = 0; i < 100; ++i) {
        most[static_cast<size_t>(i)] += std::fabs(Numbers{type}.at(data, i));
      }
    }
    CHECK(*std::max_element(most.begin(), most.end()) <= (type.number == HVD_FLOAT16 ? 2048 : 256));
  }
}

TEST_CASE("a neighbour is an average of a floating type, and nothing else") {
  const auto wrong = [](const ElementType& type, hvd_op op) {
    const Pattern pattern = Pattern::reduced(type, op, 3);
    std::vector<unsigned char> data(static_cast<size_t>(100 * type.bytes));
    pattern.fill(data.data(), 100, 0);
    for (size_t at = 0; at < data.size(); at += static_cast<size_t>(type.bytes)) data[at] ^= 1;
    return pattern.count_wrong(data.data(), 100, 0);
  };
  CHECK(wrong(kElementTypes[0], HVD_AVERAGE) == 0);
  CHECK(wrong(kElementTypes[0], HVD_SUM) == 100);
  CHECK(wrong(kElementTypes[6], HVD_AVERAGE) == 100);
}

TEST_CASE("a wrong element, an old result and a misplaced block are counted") {
  const ElementType& type = kElementTypes[0];
  const Pattern pattern = Pattern::reduced(type, HVD_SUM, 2);
  constexpr int64_t kCount = 200000;
  std::vector<float> data(kCount);
  pattern.fill(data.data(), kCount, 5);
  CHECK(pattern.count_wrong(data.data(), kCount, 5) == 0);
  data[7] += 1;
  data[199999] -= 1;
  CHECK(pattern.count_wrong(data.data(), kCount, 5) == 2);
  CHECK(pattern.count_wrong(data.data(), kCount, 6) > kCount / 2);
  CHECK(pattern.count_wrong(data.data() + 65536, 65536, 5) > 65536 / 2);
}

}  // namespace
}  // namespace hvd::perf
