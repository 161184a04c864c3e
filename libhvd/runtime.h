// SPDX-License-Identifier: Apache-2.0
//
// Builds and owns every part of the library, in the order of runtime.cc. The only file that names
// concrete transports and the PMIx client.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "libhvd/base/bootstrap.h"
#include "libhvd/base/log.h"
#include "libhvd/base/settings.h"
#include "libhvd/engine/engine.h"
#include "libhvd/record.h"
#include "libhvd/stop/stop_watch.h"
#include "libhvd/topo/layout.h"
#include "libhvd/trace/timeline.h"
#include "libhvd/trace/timeline_path.h"
#include "libhvd/transport/net/tcp_wire.h"

namespace hvd {

class MpiChannel;

class Runtime {
 public:
  // Finds the peers and connects to them; see hvd_init. After a failure *exchanged says whether
  // records were exchanged: that happens once per process, so it cannot be tried again.
  static Expected<std::unique_ptr<Runtime>> start(const Getenv& get, bool* exchanged);
  ~Runtime();

  int rank() const { return rank_; }
  const Layout& layout() const { return layout_; }
  Engine& engine() { return *engine_; }

  Status shutdown();
  Status reopen();

  // See hvd_start_timeline.
  Status start_timeline(const std::string& path, bool mark_cycles);
  void stop_timeline() { timeline_->stop(); }

  // Has this rank a reason to stop? See hvd_should_stop, which asks all ranks.
  Expected<bool> has_reason_to_stop(const Getenv& get);

  // The process ends by exit(status): leaves so that nobody misses it, if it ends well.
  void at_exit(int status);

 private:
  Runtime() = default;
  Status read_settings(const Getenv& get);
  Status meet(const Getenv& get);
  Status connect();
  void set_shape(Engine::Parts* parts) const;
  void report();
  Json about() const;
  Status connect_node(Engine::Parts* parts, Deadline deadline);
  TcpWire::Config tree_config() const;
  Status connect_leaders(Engine::Parts* parts, const TcpWire::Config& tree, Deadline deadline);
  bool needs_channel() const;
  Status check_channel() const;
  Status open_channel();
  Status open_timeline();
  TimelineNames timeline_names() const;

  struct Meeting;  // listeners and records, between meet() and connect()

  Settings settings_;
  Log log_;
  std::unique_ptr<Bootstrap> bootstrap_;
  int rank_ = 0;
  std::vector<Record> records_;
  Layout layout_;
  std::unique_ptr<Meeting> meeting_;
  Deadline start_by_ = Deadline::never();  // for all ranks to be connected
  // The engine's channel, if it is MPI's. Unused in builds without MPI.
  [[maybe_unused]] MpiChannel* mpi_ = nullptr;
  std::atomic<bool> mpi_ended_{false};
  std::mutex stop_mutex_;
  std::unique_ptr<StopWatch> stop_watch_;  // null until the first question
  std::unique_ptr<Timeline> timeline_;
  std::unique_ptr<Engine> engine_;  // behind all that it uses
};

}  // namespace hvd
