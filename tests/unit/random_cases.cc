// SPDX-License-Identifier: Apache-2.0
//
// See random_cases.h.
#include "tests/unit/random_cases.h"

#include <stdio.h>
#include <stdlib.h>

#include <random>

#include "tests/unit/catch.h"

namespace hvd::test {

uint64_t run_seed() {
  static const uint64_t seed = [] {
    const char* given = getenv("HVD_SEED");
    if (given != nullptr && *given != '\0') return uint64_t{strtoull(given, nullptr, 0)};
    std::random_device device;
    return (uint64_t{device()} << 32 | device()) >> 16;
  }();
  return seed;
}

int count_from(const char* variable, int usual) {
  const char* given = getenv(variable);
  return given == nullptr || *given == '\0' ? usual : atoi(given);
}

void for_random_cases(const char* what, int count,
                      const std::function<std::string(Random* random)>& property) {
  printf("%s: %d random cases, HVD_SEED=%llu\n", what, count,
         static_cast<unsigned long long>(run_seed()));
  fflush(stdout);
  for (int i = 0; i < count; ++i) {
    Random random(Random(run_seed() + static_cast<uint64_t>(i)).next());
    const std::string wrong = property(&random);
    if (wrong.empty()) continue;
    FAIL(what << ", case " << i << " of HVD_SEED=" << run_seed() << ": " << wrong);
  }
  SUCCEED();
}

}  // namespace hvd::test
