// SPDX-License-Identifier: Apache-2.0
//
// What each rank publishes in the one exchange, and what is made of everybody's: the layout, the
// job's secret, the settings that must be the same on all ranks (rank 0's count), and whether the
// job can start at all: what is wrong anywhere is said everywhere. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libhvd/base/settings.h"
#include "libhvd/base/status.h"
#include "libhvd/topo/layout.h"
#include "libhvd/transport/program_mpi.h"

namespace hvd {

struct Record {
  std::string version;                 // of the library
  std::string host;                    // name for texts, and of the node where `node` is -1
  int32_t node = -1;                   // index of the node in the step, -1 where nobody knows
  std::string secret;                  // random bytes; rank 0's is the job's
  std::string listener;                // abstract unix socket
  std::vector<std::string> addresses;  // as TcpWire takes them
  int32_t port = 0;
  // The data path must look the same everywhere.
  int64_t block_bytes = 0;
  int32_t slots = 0;
  int64_t fusion_bytes = 0;
  int64_t cache_capacity = 0;
  int64_t cycle_ns = 0;
  bool fuse_groups = true;
  std::string wire;  // HOROVOD_WIRE
  int64_t stall_warn_ns = 0;
  int64_t stall_stop_ns = 0;
  std::string mpi;  // HOROVOD_MPI
  ProgramMpi program_mpi;
  bool again = false;     // see Bootstrap::again
  std::string report;     // HOROVOD_INTERNAL_REPORT (handoff.h): what the plugin has bound
  std::string objection;  // why this rank cannot take part; empty if it can

  std::string encode() const;
};

// All records, by rank. kMismatch if versions differ (the text names them, with the ranks and
// hosts that have them) or a rank objects; kInternal if a record cannot be read.
Expected<std::vector<Record>> read_records(const std::vector<std::string>& encoded);

// MPI must see the same ranks as we do wherever it is up, and where tensors travel by it
// (`needed`) the program's own must let a second user in. kMismatch or kState: who differs and how.
Status check_program_mpi(const std::vector<Record>& records, bool needed);

// MPI starts once in a task's life, whoever starts it: where tensors travel by it (`needed`) a task
// cannot be a rank for a second time. kState: whose task has been.
Status check_again(const std::vector<Record>& records, bool needed);

// "rank 1 on node0"
std::string rank_on_host(const std::vector<Record>& records, int rank);

// Node indices where all ranks know theirs, else host names.
Expected<Layout> layout_of(const std::vector<Record>& records);

}  // namespace hvd
