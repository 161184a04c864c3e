// SPDX-License-Identifier: Apache-2.0
//
// The runtime's heart: takes operations from the user's threads, has them agreed on (control), runs
// the agreed batches (coll) and hands results back. Passive: a Driver calls progress().
//
// Threads: submit, poll, wait, error are for any thread. Everything below progress() runs on the
// one thread that drives. shutdown, reopen and leave are called by one user's thread at a time.
//
// Ends: an engine is open, or closed between shutdown and reopen; it may have failed (a rank died:
// everything fails with that line until the end of the process), or lost its control (the leader of
// the node has left in order: nothing can be agreed on any more).
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "libhvd/base/json.h"
#include "libhvd/coll/stream.h"
#include "libhvd/control/control.h"
#include "libhvd/engine/driver.h"
#include "libhvd/engine/fate.h"
#include "libhvd/engine/inspector.h"
#include "libhvd/engine/operation.h"
#include "libhvd/engine/process_sets.h"
#include "libhvd/engine/tracing.h"
#include "libhvd/transport/channel.h"
#include "libhvd/transport/node_link.h"

namespace hvd {

// How long an operation may wait for ranks that have not submitted it; 0: for ever.
struct StallLimits {
  int64_t warn_ns = 0;
  int64_t stop_ns = 0;
};

class Engine {
 public:
  // All that an engine is made of. `hosts` by rank: names for texts.
  struct Parts {
    int rank = 0;
    Layout layout;
    std::vector<std::string> hosts;
    std::unique_ptr<NodeLink> node;
    std::unique_ptr<Wire> wire;        // leaders of jobs with several nodes
    std::unique_ptr<Channel> channel;  // jobs with several nodes
    Geometry geometry;
    Scheduler::Limits limits;
    WireType wire_type = WireType::kOwn;  // of sums between nodes
    StallLimits stalls;
    // Says a warning to the user; the root's is called.
    std::function<void(const std::string& text)> warn = [](const std::string&) {};
    // Takes the line to the leader of a neighbour node, when the own leader is dead.
    std::function<void(int node, const std::string& line)> bring_news;
    int stderr_fd = 2;
    Timeline* timeline = nullptr;          // may be null; outlives the engine
    std::unique_ptr<Inspector> inspector;  // hvd-info's way in, if there shall be one
    Json about;                            // what it is to hear beside what an engine knows
  };

  // Bytes of shared memory that a node of `local_size` ranks needs.
  static size_t node_bytes(int local_size, size_t block_bytes, int slots);

  explicit Engine(Parts parts);
  ~Engine();

  // Starts an operation, which is complete but for its handle. The name may be empty.
  Expected<int64_t> submit(OperationPtr operation);

  const ProcessSets& sets() const { return sets_; }

  bool poll(int64_t handle);  // done, or no such handle
  // Releases the handle unless kTimeout, or there is a result.
  Status wait(int64_t handle, int64_t timeout_ms);
  OperationPtr find(int64_t handle) { return table_.find(handle); }
  void release(int64_t handle) { table_.release(handle); }

  // Ends this epoch for this rank: see hvd_shutdown. At most until the deadline.
  Status shutdown(Deadline deadline);
  // Begins the next one: waits until all ranks have shut down.
  Status reopen(Deadline deadline);
  bool open() const { return open_.load(); }

  enum class Way { kFinalize, kLeave };
  // At the end of the process, after shutdown: how to go when MPI is up. kFinalize only if all
  // ranks are told so.
  Way leave(Deadline ask, Deadline give_up);
  // From here on this process may vanish without being missed.
  void at_end();
  // Ends the background thread; the end of the process is near.
  void stop() { driver_->stop(); }
  // True in a signal handler that interrupted the thread that drives: it must not wait.
  bool driven_by_this_thread() const { return driver_->driven_by_this_thread(); }

  // Waits until all ranks have come here. For the start of a job, before the first operation.
  // kTimeout: the text names who is late, the same on all ranks.
  Status meet(Deadline deadline);
  // A leader that cannot start tells the other ranks of its node, which are in meet().
  static void call_off(const NodeLink& node, const std::string& line);
  // The channel of a job of several nodes, where it can be opened only after meet().
  void set_channel(std::unique_ptr<Channel> channel);
  // Never touches the channel again; after shutdown().
  void close_channel();

  bool failed() const { return failed_.load(); }

  // What is held for operations and remembered of them: bounded, however long the job runs.
  struct Sizes {
    size_t operations = 0;  // handles, names in flight, counters of unnamed ones
    size_t sets = 0;
    Control::Sizes control;
  };
  Sizes sizes();

 private:
  bool progress();
  bool look();
  void sleep(Deadline deadline);
  void answer_inspector(int64_t now);
  std::string describe();
  Json describe_operations();
  bool take_added();
  bool take_entries();
  bool move_stream(int64_t now);
  void note_channel_error(const Status& status);
  void apply(const Entry& entry);
  void start_batch(const Entry& entry);
  OperationPtr take_operation(const Ready& ready);
  void start_runs(const Entry& entry, const std::shared_ptr<const Team>& team,
                  std::vector<OperationPtr> operations);
  std::shared_ptr<StageTimes> watch_stages(const std::vector<OperationPtr>& operations);
  void trace_begun();
  void finish_without_data(const OperationPtr& operation);
  void finish_segment(const Segment& segment, const StageTimes* times);
  void finish_well(const OperationPtr& operation);
  void finish_join(int last);
  void end(const OperationPtr& operation, const Status& status);
  void remove_set(int32_t set);
  void check_stalls(int64_t now);
  void answer(const Entry& question);
  std::string waits_in() const;
  void tell_stall(const Stall& stall);
  void note_wait(const OperationPtr& operation, bool begins);
  bool stalls_watched() const { return parts_.stalls.warn_ns > 0 || parts_.stalls.stop_ns > 0; }
  void fail_waiting(const Status& status);
  void fail_everything(const Status& status);
  Status reason_not_to_run() const;
  void later(std::function<void()> task);
  bool run_tasks();
  Fate::Events fate_events();
  Control::Events control_events();
  std::string late_ranks() const;
  void say_presence(Board::Presence presence);
  bool run_on_driver(std::function<void()> task, Deadline deadline);
  Status await(const std::function<bool()>& done, Deadline deadline, const std::string& what);

  Parts parts_;
  Board board_;
  Stream stream_;
  Tracing tracing_;
  std::unique_ptr<Fate> fate_;
  std::unique_ptr<Control> control_;
  OperationTable table_;

  ProcessSets sets_;
  std::unordered_map<OpKey, OperationPtr, OpKeyHash> waiting_;  // announced, not in a batch
  std::unordered_map<uint64_t, OperationPtr> running_;          // in the stream, by handle
  OperationPtr join_;                                           // this rank has joined
  // Batches in the stream whose beginning is to be told, in order.
  struct Watched {
    std::shared_ptr<StageTimes> times;
    std::vector<OperationPtr> operations;
  };
  std::deque<Watched> watched_;
  std::deque<size_t> runs_left_;   // of the batches in the stream, in order
  uint64_t finished_batches_ = 0;  // in the life of this object
  int64_t next_stall_check_ns_ = 0;

  mutable std::mutex waits_mutex_;
  std::vector<OperationPtr> waits_;  // the user's threads are in wait() for these
  Status stopped_;                   // why nothing can be agreed on in this epoch (driver's thread)
  bool spread_ = false;              // the line went to the neighbours

  std::unique_ptr<Channel> closed_channel_;  // what parts_.channel was before close_channel()

  Status channel_error_;  // the data path broke; the line about a dead rank is awaited until:
  int64_t channel_error_due_ns_ = INT64_MAX;
  int64_t last_message_ns_ = 0;  // when a message between nodes was last under way
  int64_t next_flush_ns_ = 0;

  uint64_t finished_bytes_ = 0;  // of tensors of this rank
  int64_t next_answer_ns_ = 0;   // hvd-info, while the engine is too busy to sleep
  std::atomic<int64_t> opened_ns_{now_ns()};

  std::mutex tasks_mutex_;
  std::vector<std::function<void()>> tasks_;  // for the thread that drives
  std::atomic<bool> has_tasks_{false};

  std::atomic<size_t> running_count_{0};
  std::atomic<bool> open_{true};
  std::atomic<bool> failed_{false};
  std::atomic<bool> control_lost_{false};
  std::atomic<bool> somebody_left_{false};  // this epoch
  std::atomic<uint64_t> epoch_{0};
  std::atomic<bool> finalize_{false};
  std::atomic<bool> granted_{false};
  uint64_t closed_epoch_ = 0;
  Status failure_;  // valid once failed_

  std::unique_ptr<Driver> driver_;  // last: its thread uses all of the above
};

}  // namespace hvd
