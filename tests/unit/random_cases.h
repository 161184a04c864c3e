// SPDX-License-Identifier: Apache-2.0
//
// Random cases for properties that must hold for all. Each run draws a seed, prints it on standard
// output, and case i of it is a pure function of (seed, i): HVD_SEED repeats a run.
//
// A property is a function that returns what is wrong, "" if nothing is; so it can be asked ten
// thousand times without an assertion each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tests/random.h"

namespace hvd::test {

// The seed of this run: HVD_SEED, or a new one.
uint64_t run_seed();

// How many: `usual`, or what the environment variable says.
int count_from(const char* variable, int usual);

// Asks `count` times; fails the test with seed, case and text at the first case that is not as it
// should be. Prints one line with the seed in any case.
void for_random_cases(const char* what, int count,
                      const std::function<std::string(Random* random)>& property);

}  // namespace hvd::test
