// SPDX-License-Identifier: Apache-2.0
//
// Catch2, whichever major version the machine has: 2.13 (Debian 12) or 3. Every unit test includes
// this and not Catch2. Its assertions are not thread-safe: collect in threads, assert in the test's
// own.
#ifndef HVD_TESTS_UNIT_CATCH_H
#define HVD_TESTS_UNIT_CATCH_H

#include "config.h"

#if HVD_CATCH2_MAJOR == 3
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif

#endif
