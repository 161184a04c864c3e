// SPDX-License-Identifier: Apache-2.0
//
// How a rank finds its peers: who am I, how many are we, and one exchange of records.
// Implemented by the PMIx client (pmix/), by SoloBootstrap (no launcher) and by the threads of a
// unit test. Not a general key-value store: exactly one exchange happens in the life of a process.
#pragma once

#include <string>
#include <vector>

#include "libhvd/base/clock.h"
#include "libhvd/base/status.h"

namespace hvd {

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  virtual int rank() const = 0;  // of this process, 0 .. size()-1
  virtual int size() const = 0;  // ranks in the job

  // Name of the job, the same on all its ranks and no other job's (PMIx: the namespace).
  virtual const std::string& job() const = 0;

  // True if the launcher is a Slurm step of our own, so that SLURM_* describe this job.
  virtual bool slurm_step() const = 0;

  // What this rank has found wrong with its place in the job, for all ranks to hear: the exchange
  // still works.
  virtual Status objection() const { return ok_status(); }

  // True if another process has exchanged a record as this rank before, and has ended.
  virtual bool again() const { return false; }

  // Publishes `record` (any bytes) and returns everybody's, by rank. Collective. kTimeout after
  // the deadline: the text names the ranks that did not come, and their hosts where known.
  virtual Expected<std::vector<std::string>> exchange(const std::string& record,
                                                      Deadline deadline) = 0;

  // Drops what connects this process to the launcher's server; no other call may follow.
  // Idempotent. Before it MPI (if used) must have been initialised.
  virtual void release() = 0;

  // For the way out when MPI is up and cannot be finalised: makes the launcher's server forget
  // this process altogether, so that its exit is not taken for a death. Idempotent.
  virtual void leave() = 0;
};

// The job of one rank: no launcher.
class SoloBootstrap final : public Bootstrap {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const std::string& job() const override { return job_; }
  bool slurm_step() const override { return false; }
  Expected<std::vector<std::string>> exchange(const std::string& record, Deadline) override {
    return std::vector<std::string>{record};
  }
  void release() override {}
  void leave() override {}

 private:
  std::string job_ = "solo";
};

}  // namespace hvd
