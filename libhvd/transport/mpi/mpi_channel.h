// SPDX-License-Identifier: Apache-2.0
//
// Tensors between nodes over MPI: point-to-point messages on one duplicate of MPI_COMM_WORLD, so
// that nothing meets the program's own messages. No collective is used for sums: their order of
// additions changes with the size of the message.
//
// MPI is initialised here unless the program has done so; who initialises also finalises.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "libhvd/base/status.h"
#include "libhvd/transport/channel.h"
#include "libhvd/transport/program_mpi.h"

namespace hvd {

// As the MPI that is loaded says it; may have several lines. Needs no MPI_Init.
std::string mpi_library_version();

class MpiChannel final : public Channel {
 public:
  // What the program has done with MPI so far; any thread.
  static ProgramMpi program_mpi();

  // Collective over all ranks; program_mpi() on all of them says that it can be done. `rank` and
  // `size` are the bootstrap's: kMismatch with all numbers if MPI sees the job differently.
  // `program_ends_mpi` is called when the program finalises MPI itself while this channel is up; no
  // message may be started or moved after it.
  static Expected<std::unique_ptr<MpiChannel>> open(int rank, int size,
                                                    std::function<void()> program_ends_mpi);
  ~MpiChannel() override;

  Expected<Request> send(int rank, int tag, const void* data, size_t bytes) override;
  Expected<Request> receive(int rank, int tag, void* data, size_t bytes) override;
  Status progress() override;
  bool done(Request request) override;
  int outstanding() const override;

  // True if MPI was initialised by open() and not by the program.
  bool owns_mpi() const;
  // MPI_Finalize, if MPI is ours: waits for all ranks.
  void finalize();

 private:
  struct State;
  explicit MpiChannel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hvd
