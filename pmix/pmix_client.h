// SPDX-License-Identifier: Apache-2.0
//
// This process as a client of its launcher's PMIx server: who am I, one exchange, and two ways to
// part. No thread of its own (libpmix has one); one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libhvd/base/bootstrap.h"
#include "libhvd/base/fd.h"

namespace hvd {

class PmixClient final : public Bootstrap {
 public:
  // Blocks until the server has answered. `slurm_step`: see Bootstrap::slurm_step; `claim`: see
  // rank_claim.h.
  static Expected<std::unique_ptr<PmixClient>> connect(bool slurm_step, Fd claim);
  static std::string library_version();
  ~PmixClient() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::string& job() const override { return namespace_; }
  bool slurm_step() const override { return slurm_step_; }
  Status objection() const override { return objection_; }
  bool again() const override { return again_; }
  void object(Status status) { objection_ = std::move(status); }
  Expected<std::vector<std::string>> exchange(const std::string& record,
                                              Deadline deadline) override;
  void release() override;
  void leave() override;

 private:
  PmixClient() = default;
  Status publish(const std::string& record) const;
  bool all_nodes_have_started(Deadline deadline) const;
  Status who_is_missing() const;  // the error of an exchange whose deadline has passed

  Fd claim_;  // held as long as this process is the rank
  std::string namespace_;
  int rank_ = 0;
  int size_ = 1;
  bool slurm_step_ = false;
  Status objection_;
  bool again_ = false;
  bool meet_first_ = false;  // before the fence: see all_nodes_have_started
  bool connected_ = false;   // we hold a reference on libpmix
};

}  // namespace hvd
