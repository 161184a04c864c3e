// SPDX-License-Identifier: Apache-2.0
//
// Sets of CPUs: as text and as sets.
#include "spank/cpu_set.h"

#include <set>

#include "tests/random.h"
#include "tests/unit/catch.h"

namespace hvd {
namespace {

TEST_CASE("CPU sets: lists are read as taskset writes them, and masks are Slurm's") {
  const struct {
    const char* text;
    const char* list;
    const char* mask;
    int count;
  } cases[] = {
      {"", "", "0x0", 0},
      {"0", "0", "0x1", 1},
      {"0-3,8", "0-3,8", "0x10f", 5},
      {"8,0-3", "0-3,8", "0x10f", 5},
      {"1,2,3", "1-3", "0xe", 3},
      {"5-5", "5", "0x20", 1},
      {"63,64", "63-64", "0x18000000000000000", 2},
      {"128", "128", "0x100000000000000000000000000000000", 1},
      {" 0-1 , 3 ", "0-1,3", "0xb", 3},
      {"8191", "8191", nullptr, 1},
  };
  for (const auto& c : cases) {
    CAPTURE(c.text);
    const auto set = CpuSet::parse(c.text);
    REQUIRE(set);
    CHECK(set->list() == c.list);
    CHECK(set->count() == c.count);
    if (c.mask != nullptr) CHECK(set->mask() == c.mask);
    CHECK(CpuSet::parse(set->list()) == *set);
  }
  for (const char* bad : {"x", "-", "1-", "-1", "3-1", "0,,1", "0-8192", "99999999999", "1.5"}) {
    CAPTURE(bad);
    CHECK_FALSE(CpuSet::parse(bad));
  }
}

TEST_CASE("CPU sets: what cannot be a member is none") {
  CpuSet set;
  set.add(-1);
  set.add(CpuSet::kMost);
  CHECK(set.empty());
  CHECK_FALSE(set.has(-1));
  CHECK_FALSE(set.has(CpuSet::kMost));
  CHECK(set.first() == -1);
  CHECK(CpuSet::range(8190, 9000).list() == "8190-8191");
}

TEST_CASE("CPU sets: operations are those of std::set") {
  test::Random random(5);
  for (int round = 0; round < 300; ++round) {
    std::set<int> in_a;
    std::set<int> in_b;
    CpuSet a;
    CpuSet b;
    for (size_t i = random.below(20); i > 0; --i) {
      const int cpu = static_cast<int>(random.below(200));
      in_a.insert(cpu);
      a.add(cpu);
    }
    for (size_t i = random.below(20); i > 0; --i) {
      const int cpu = static_cast<int>(random.below(200));
      in_b.insert(cpu);
      b.add(cpu);
    }
    CpuSet both;
    CpuSet either;
    CpuSet rest;
    for (int cpu = 0; cpu < 200; ++cpu) {
      if (in_a.count(cpu) > 0 && in_b.count(cpu) > 0) both.add(cpu);
      if (in_a.count(cpu) > 0 || in_b.count(cpu) > 0) either.add(cpu);
      if (in_a.count(cpu) > 0 && in_b.count(cpu) == 0) rest.add(cpu);
    }
    CAPTURE(round, a.list(), b.list());
    REQUIRE((a & b) == both);
    REQUIRE((a | b) == either);
    REQUIRE((a - b) == rest);
    REQUIRE(a.meets(b) == !both.empty());
    REQUIRE(a.includes(b) == (both == b));
    std::vector<int> walked;
    for (int cpu = a.first(); cpu >= 0; cpu = a.next(cpu)) walked.push_back(cpu);
    REQUIRE(walked == std::vector<int>(in_a.begin(), in_a.end()));
  }
}

}  // namespace
}  // namespace hvd
