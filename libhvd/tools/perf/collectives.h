// SPDX-License-Identifier: Apache-2.0
//
// The operations that are measured, as both libraries offer them: libhvd (HvdCollectives) and its
// peer (MpiCollectives). The loop around them is the same code. Each call returns when the
// operation is done on this rank.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "libhvd/base/status.h"
#include "libhvd/tools/perf/element.h"

namespace hvd::perf {

class Collectives {
 public:
  virtual ~Collectives() = default;

  // Sum over all ranks; [output] may be [input].
  virtual Status allreduce(const ElementType& type, const void* input, void* output,
                           int64_t count) = 0;
  // From rank 0.
  virtual Status broadcast(const ElementType& type, void* data, int64_t count) = 0;
  virtual Status barrier() = 0;
};

// Between hvd_init and hvd_shutdown.
class HvdCollectives : public Collectives {
 public:
  Status allreduce(const ElementType& type, const void* input, void* output,
                   int64_t count) override;
  Status broadcast(const ElementType& type, void* data, int64_t count) override;
  Status barrier() override;

 private:
  const char* name_for(const char* operation, const ElementType& type, int64_t count);

  // Names are kept from call to call: making one takes as long as a small operation's first steps.
  const char* operation_ = nullptr;
  const ElementType* type_ = nullptr;
  int64_t count_ = -1;
  std::string name_;
};

// MPI as the program itself uses it. On several nodes libhvd has started it already; on one node
// it is started here, after hvd_init. finish() is for the good end only: after a failure the
// ranks do not meet any more, and MPI_Finalize would wait for them.
class MpiCollectives : public Collectives {
 public:
  // Its ranks must be libhvd's. Not built with MPI: never called (options.cc refuses).
  static Expected<std::unique_ptr<MpiCollectives>> start();
  virtual void finish() = 0;
};

}  // namespace hvd::perf
