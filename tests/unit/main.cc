// SPDX-License-Identifier: Apache-2.0
//
// The unit tests' main. Catch2 3 brings one in a library, Catch2 2 makes one where it is asked to.
#define CATCH_CONFIG_MAIN
#include "tests/unit/catch.h"
