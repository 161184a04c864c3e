// SPDX-License-Identifier: Apache-2.0
//
// A communicator of the fake NCCL: its life, how its ranks wait for each other, and what is in
// progress on it. Operations on it are operation.h's. A communicator's own fields are for one host
// thread at a time, as NCCL's rule is; what is atomic the streams' threads use, too.
#ifndef TESTS_FAKES_GPU_COMM_H
#define TESTS_FAKES_GPU_COMM_H

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/gpu/engine.h"
#include "tests/fakes/gpu/nccl_abi.h"
#include "tests/fakes/gpu/segment.h"

namespace fake_gpu {

enum Channel { kDeviceWork = 0, kHostWork = 1 };

class Comm {
 public:
  // In both of these the result is an NcclResult, and with kNcclInProgress a thread of its own goes
  // on. *made is null after an error.
  static int create(const std::string& name, int ranks, int rank, bool blocking,
                    std::shared_ptr<Comm>* made);
  int split(int color, int key, bool blocking, std::shared_ptr<Comm>* made);

  // The live communicator of a handle; ends the process if there is none.
  static std::shared_ptr<Comm> of(const char* what, CommHandle handle);
  static std::shared_ptr<Comm> with_id(std::uint64_t id, int device);  // null: none here
  static size_t count();
  static void each_of_device(int device, const std::function<void(Comm&)>& visit);
  CommHandle handle() const { return handle_; }

  const std::string& name() const { return name_; }
  std::uint64_t id() const { return id_; }
  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  int device() const { return device_; }
  bool blocking() const { return blocking_; }
  Segment& segment() { return *segment_; }
  bool aborted() const { return aborted_; }

  // A call on it begins: ends the process if the one before is in progress. The communicator's
  // error, if it has one.
  int enter(const char* what);
  // The call has been made; with a non-blocking communicator it is in progress until the caller has
  // seen it succeed.
  int leave(const char* what, const std::shared_ptr<Stream>& stream);
  // What ncclCommGetAsyncError answers.
  int poll();

  // False: aborted meanwhile. What and number: the operation, for a sentence when it takes too
  // long.
  bool wait(const std::function<bool()>& done, Channel channel, const char* what,
            std::uint64_t number);
  bool barrier(Channel channel, const char* what, std::uint64_t number);
  void set_error(int code);

  // Launches on it, by all ranks alike, and how many of them have run.
  std::atomic<std::uint64_t> launched{0};
  std::atomic<std::uint64_t> finished{0};
  // NCCL orders what is launched on one communicator in several streams.
  std::unique_ptr<Point> last;

  int finalize();
  static void destroy(const std::shared_ptr<Comm>& comm);
  static void abort(const std::vector<std::shared_ptr<Comm>>& comms);

  static void set_last_error(const std::string& text);
  static std::string last_error();

 private:
  Comm(std::string name, int ranks, int rank, bool blocking);
  static void publish(const std::shared_ptr<Comm>& comm);
  static void withdraw(const std::shared_ptr<Comm>& comm);
  int connect();
  int connected(int code);
  int check_devices();
  bool join_split(int color, int key, Comm* child);
  void clear_progress();
  int start(const char* what, std::function<int()> work);
  std::string late(Channel channel);
  void check_launch_order(Channel channel, long now);
  void look_for_deaths();

  std::string name_;
  std::uint64_t id_;
  int ranks_, rank_, device_;
  bool blocking_;
  CommHandle handle_ = nullptr;
  std::unique_ptr<Segment> segment_;
  std::atomic<bool> aborted_{false};
  std::atomic<int> error_{0};
  int splits_ = 0;
  std::uint32_t arrivals_[2] = {};

  // What is in progress.
  std::string call_;
  int polls_ = 0;  // that say so, still
  std::vector<std::shared_ptr<Stream>> touched_;
  std::thread helper_;
  std::atomic<bool> helper_done_{false};
  std::atomic<int> helper_code_{0};
  std::shared_ptr<Comm> child_;   // of a split
  std::shared_ptr<Comm> parent_;  // while its thread connects us
  std::atomic<bool> connecting_{false};

  // Who may be in a cycle with us, and since when.
  std::uint64_t suspect_ = 0;
  long suspected_ms_ = 0;
};

}  // namespace fake_gpu

#endif  // TESTS_FAKES_GPU_COMM_H
