// SPDX-License-Identifier: Apache-2.0
//
// Operations on communicators: what a call asks for, and the launch of one or of a group of them.
// They run in the streams' threads, through the memory that the ranks share.
#ifndef TESTS_FAKES_GPU_OPERATION_H
#define TESTS_FAKES_GPU_OPERATION_H

#include <memory>
#include <vector>

#include "tests/fakes/gpu/comm.h"

namespace fake_gpu {

enum class Kind { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kSend, kRecv };

struct Operation {
  Kind kind;
  const char* in;
  char* out;
  size_t count;
  int type, op, root;  // root: of a send or receive, the peer
  std::shared_ptr<Comm> comm;
  std::shared_ptr<Stream> stream;

  const char* name() const;
  bool pairs() const { return kind == Kind::kSend || kind == Kind::kRecv; }
  size_t in_bytes() const;   // of this rank; 0 if it gives nothing
  size_t out_bytes() const;  // of this rank; 0 if it gets nothing
};

// An NcclResult: of arguments that NCCL itself refuses.
int check(const Operation& operation);

// One launch on every communicator among them.
int launch(const std::vector<Operation>& operations);

}  // namespace fake_gpu

#endif  // TESTS_FAKES_GPU_OPERATION_H
