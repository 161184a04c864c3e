// SPDX-License-Identifier: Apache-2.0
//
// What the program itself has done with MPI before hvd_init. Each rank publishes it, so that all
// ranks decide alike whether the job can start. No mpi.h: builds without MPI know it, too.
#pragma once

#include <cstdint>

namespace hvd {

struct ProgramMpi {
  // kSingle to kMultiple: initialised, with this level of thread support.
  enum class State : int32_t {
    kNone = 0,
    kSingle = 1,
    kFunneled = 2,
    kSerialized = 3,
    kMultiple = 4,
    kFinalised = 5,
  };
  State state = State::kNone;
  int32_t rank = -1;  // in MPI_COMM_WORLD, where MPI is initialised
  int32_t size = -1;

  bool up() const { return state != State::kNone && state != State::kFinalised; }
};

}  // namespace hvd
