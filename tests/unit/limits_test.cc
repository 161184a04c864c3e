// SPDX-License-Identifier: Apache-2.0
#include "spank/limits.h"

#include "tests/unit/catch.h"

namespace hvd {
namespace {

TEST_CASE("limits that will hurt are told with the way out, and others are not", "[bind]") {
  Topology plain;
  Topology fast;
  fast.nics.resize(1);
  fast.nics[0].fabric = Fabric::kInfiniBand;
  const int64_t none = Limits::kUnlimited;
  const int64_t mb = 1 << 20;
  const struct {
    Limits limits;
    const Topology& topology;
    std::vector<const char*> texts;
  } cases[] = {
      {{none, none, none}, fast, {}},
      {{64 * mb, 1024, 256 * mb}, fast, {}},
      {{8 * mb, none, none}, plain, {}},
      {{8 * mb, none, none},
       fast,
       {"may lock no more than 8M of memory, which network cards need"}},
      {{none, 256, none}, plain, {"may open no more than 256 files"}},
      {{none, none, 255 * mb}, plain, {"have 255M free in /dev/shm, less than 256M"}},
      {{0, 0, 0},
       fast,
       {"may lock no more than 0 of memory, which network cards need",
        "may open no more than 0 files", "have 0 free in /dev/shm, less than 256M"}},
  };
  for (const auto& c : cases) {
    const auto warnings = limit_warnings(c.limits, c.topology, 4);
    REQUIRE(warnings.size() == c.texts.size());
    for (size_t i = 0; i < warnings.size(); ++i) {
      CHECK(warnings[i].text == c.texts[i]);
      CHECK(warnings[i].remedy != "");
    }
  }
  CHECK(limits_here().open_files > 0);
}

}  // namespace
}  // namespace hvd
