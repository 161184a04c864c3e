// SPDX-License-Identifier: Apache-2.0
//
// How a communicator ends.
#include <unistd.h>

#include <cstring>

#include "tests/fakes/gpu/comm.h"

namespace fake_gpu {

int Comm::finalize() {
  if (const int code = enter("ncclCommFinalize")) return code;
  if (last) engine().wait(*last, "ncclCommFinalize");
  return leave("ncclCommFinalize", nullptr);
}

// Waits for the communicator's work, and, as NCCL, for the ranks of the same node in other
// processes.
void Comm::destroy(const std::shared_ptr<Comm>& comm) {
  comm->enter("ncclCommDestroy");
  if (comm->last) engine().wait(*comm->last, "ncclCommDestroy");
  if (comm->error_ == kNcclSuccess) {
    Plate& mine = comm->segment_->plate(comm->rank_);
    mine.left = 1;
    comm->segment_->ring();
    const auto node_left = [&] {
      for (int i = 0; i < comm->ranks_; ++i) {
        const Plate& other = comm->segment_->plate(i);
        if (other.left == 0 && other.process != mine.process &&
            strcmp(other.node, mine.node) == 0) {
          return false;
        }
      }
      return true;
    };
    comm->wait(node_left, kHostWork, "ncclCommDestroy", comm->launched);
  }
  withdraw(comm);
}

// All at once in a group; one after the other, each waits for its device, where another one may
// still hang.
void Comm::abort(const std::vector<std::shared_ptr<Comm>>& comms) {
  for (const auto& comm : comms) {
    comm->aborted_ = true;
    if (comm->connecting_ || !comm->segment_) continue;
    comm->segment_->plate(comm->rank_).left = 1;  // and not dead
    comm->segment_->ring();
  }
  for (const auto& comm : comms) {
    if (comm->helper_.joinable()) comm->helper_.join();
    const long deadline = now_ms() + settings().deadline_ms;
    while (comm->connecting_ || comm->finished < comm->launched) {
      if (now_ms() > deadline) violation("deadline", "ncclCommAbort waits for its own work");
      usleep(500);
    }
    comm->clear_progress();
    engine().wait_device(comm->device_, "ncclCommAbort");
    withdraw(comm);
  }
}

}  // namespace fake_gpu
