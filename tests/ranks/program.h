// SPDX-License-Identifier: Apache-2.0
//
// What the programs share whose ranks mpirun and srun start for the tests: they initialise, do what
// their arguments say, one after the other, and end with 0 if all of it went well.
#pragma once

#include <stdio.h>

#include <string>

#include "libhvd/hvd.h"

namespace hvd::test {

inline bool complain(const std::string& text) {
  printf("rank %d: %s\n", hvd_rank(), text.c_str());
  return false;
}

// act(argv, &at) does what argument `at` says, moves `at` to the last argument that it has used,
// and is false if something went wrong: then nothing more is done.
template <typename Act>
int run_actions(const char* program, int argc, char** argv, Act act) {
  if (hvd_init() != HVD_OK) {
    fprintf(stderr, "%s: %s\n", program, hvd_last_error());
    return 2;
  }
  for (int at = 1; at < argc; ++at) {
    const bool good = act(argv, &at);
    fflush(stdout);
    if (!good) return 1;
  }
  return 0;
}

}  // namespace hvd::test
