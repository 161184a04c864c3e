// SPDX-License-Identifier: Apache-2.0
//
// The operations that are measured, as both libraries offer them: libhvd (HvdCollectives) and its
// peer (MpiCollectives). The loop around them is the same code. Each call returns when the
// operation is done on this rank.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libhvd/base/status.h"
#include "libhvd/tools/perf/element.h"
#include "libhvd/tools/perf/operation.h"

namespace hvd::perf {

// One operation, or a group of them. The tensors lie one behind the other, each with `part`
// elements for (or of) each rank if the operation has such parts, else with `part` elements.
// `output` has room for all results; it may be `input` where the operation can be in place: then
// each result is where its input was.
struct Request {
  Operation operation = Operation::kBarrier;
  const ElementType* type = &kElementTypes[0];
  hvd_op op = HVD_SUM;
  int ranks = 1;
  int64_t tensors = 1;
  int64_t part = 0;
  const void* input = nullptr;
  void* output = nullptr;

  int64_t input_bytes() const { return input_parts(operation, ranks) * part * type->bytes; }
  int64_t output_bytes() const { return output_parts(operation, ranks) * part * type->bytes; }
  const void* input_of(int64_t tensor) const {
    return static_cast<const unsigned char*>(input) + tensor * input_bytes();
  }
  void* output_of(int64_t tensor) const {
    return static_cast<unsigned char*>(output) +
           tensor * (input == output ? input_bytes() : output_bytes());
  }
};

class Collectives {
 public:
  virtual ~Collectives() = default;

  // [results] is set to where the result of each tensor is; valid until release().
  virtual Status run(const Request& request, std::vector<const void*>* results) = 0;
  // Gives back what run() made for its results.
  virtual Status release() = 0;
  virtual Status barrier() = 0;
};

// Between hvd_init and hvd_shutdown.
class HvdCollectives : public Collectives {
 public:
  Status run(const Request& request, std::vector<const void*>* results) override;
  Status release() override;
  Status barrier() override;

  // The tool's own: adds up over all ranks, in place.
  Status sum(std::vector<double>* values);

 private:
  void prepare(const Request& request);
  Status submit(const Request& request);

  // Names and shapes are kept from call to call: making them takes as long as a small operation's
  // first steps.
  Request prepared_;
  std::string name_;
  std::vector<int64_t> shape_;
  std::vector<hvd_tensor> inputs_;
  std::vector<void*> outputs_;
  hvd_handle result_ = 0;
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
