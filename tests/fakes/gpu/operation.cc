// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/gpu/operation.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "tests/fakes/gpu/cuda_abi.h"
#include "tests/fakes/gpu/reduce.h"
#include "tests/fakes/gpu/run.h"

namespace fake_gpu {
namespace {

// Launches of all communicators of a device run one after the other, as they were launched: what
// NCCL does with NCCL_LAUNCH_ORDER_IMPLICIT, and what a GPU does whose SMs are taken.
class Turnstile {
 public:
  std::uint64_t take() {
    const std::lock_guard lock(mutex_);
    waiting_.insert(++tickets_);
    return tickets_;
  }
  // False: aborted meanwhile.
  bool enter(std::uint64_t ticket, const Comm& comm) {
    std::unique_lock lock(mutex_);
    while (settings().launch_order && *waiting_.begin() != ticket) {
      if (comm.aborted()) return false;
      changed_.wait_for(lock, std::chrono::milliseconds(5));
    }
    return true;
  }
  void leave(std::uint64_t ticket) {
    const std::lock_guard lock(mutex_);
    waiting_.erase(ticket);
    changed_.notify_all();
  }

  static Turnstile& of(int device) {
    static auto* all = new Turnstile[64];
    return all[device];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t tickets_ = 0;
  std::set<std::uint64_t> waiting_;
};

// What was planted for a launch.
struct Planted {
  std::optional<long> async, slow_ms;
  bool silent = false, kill = false;
};

Planted planted() {
  Planted found;
  found.async = fault("nccl-async");
  found.slow_ms = fault("nccl-slow");
  found.silent = fault("nccl-silent").has_value();
  found.kill = fault("nccl-kill").has_value();
  return found;
}

void set_front(Comm& comm, std::uint64_t id, std::uint64_t number) {
  Comm::each_of_device(comm.device(), [&](Comm& each) {
    Plate& plate = each.segment().plate(each.rank());
    plate.front_launch = number;
    plate.front_comm = id;
  });
}

// What fails on purpose never completes until the communicator is aborted, as NCCL documents of
// asynchronous errors.
bool hangs(Comm& comm, const Planted& planted, std::uint64_t number) {
  if (planted.kill) raise(SIGKILL);
  if (planted.slow_ms) usleep(static_cast<unsigned>(*planted.slow_ms * 1000));
  if (planted.async) {
    Comm::set_last_error("planted: asynchronous error");
    comm.set_error(static_cast<int>(*planted.async));
    comm.segment().error() = kNcclRemoteError;
    comm.segment().ring();
  }
  if (!planted.async && !planted.silent) return false;
  comm.wait([] { return false; }, kHostWork, "a planted hang", number);
  return true;
}

void launch_on(const std::vector<Operation>& operations) {
  const auto comm = operations[0].comm;
  const std::uint64_t number = comm->launched++;
  const std::uint64_t ticket = Turnstile::of(comm->device()).take();
  std::vector<Access> accesses;
  for (const Operation& each : operations) {
    const auto begin = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at); };
    if (each.in_bytes() > 0) accesses.push_back({begin(each.in), each.in_bytes(), false});
    if (each.out_bytes() > 0) accesses.push_back({begin(each.out), each.out_bytes(), true});
  }
  std::vector<Point> after;
  if (comm->last) after.push_back(*comm->last);
  const auto work = [operations, comm, number, ticket, planted = planted()](bool broken) {
    Turnstile& turnstile = Turnstile::of(comm->device());
    if (broken) comm->set_error(kNcclUnhandledCudaError);
    if (!broken && turnstile.enter(ticket, *comm)) {
      set_front(*comm, comm->id(), number);
      if (!hangs(*comm, planted, number)) run(operations, number);
      set_front(*comm, 0, 0);
    }
    turnstile.leave(ticket);
    ++comm->finished;
    return kCudaSuccess;
  };
  comm->last = std::make_unique<Point>(engine().submit(operations[0].stream, operations[0].name(),
                                                       accesses, work, std::move(after), true));
}

}  // namespace

const char* Operation::name() const {
  static constexpr const char* kNames[] = {"ncclAllReduce", "ncclReduce",        "ncclBroadcast",
                                           "ncclAllGather", "ncclReduceScatter", "ncclSend",
                                           "ncclRecv"};
  return kNames[static_cast<size_t>(kind)];
}

size_t Operation::in_bytes() const {
  const size_t bytes = count * size_of_type(type);
  switch (kind) {
    case Kind::kBroadcast:
      return comm->rank() == root ? bytes : 0;
    case Kind::kReduceScatter:
      return bytes * static_cast<size_t>(comm->ranks());
    case Kind::kRecv:
      return 0;
    default:
      return bytes;
  }
}

size_t Operation::out_bytes() const {
  const size_t bytes = count * size_of_type(type);
  switch (kind) {
    case Kind::kReduce:
      return comm->rank() == root ? bytes : 0;
    case Kind::kAllGather:
      return bytes * static_cast<size_t>(comm->ranks());
    case Kind::kSend:
      return 0;
    default:
      return bytes;
  }
}

int check(const Operation& operation) {
  const bool reduces = operation.kind == Kind::kAllReduce || operation.kind == Kind::kReduce ||
                       operation.kind == Kind::kReduceScatter;
  if (size_of_type(operation.type) == 0 || operation.root < 0 ||
      operation.root >= operation.comm->ranks() ||
      (reduces && (operation.op < 0 || operation.op >= kNumOps))) {
    Comm::set_last_error(std::string(operation.name()) + " : invalid type, operation or root");
    return kNcclInvalidArgument;
  }
  const auto require = [&](const char* does, const void* at, size_t bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    memory().require(operation.name(), does, address, bytes);
    if (bytes > 0 && !memory().find(address)) {
      violation("device memory", "%s %s %p, which is pageable host memory", operation.name(), does,
                at);
    }
  };
  require("reads", operation.in, operation.in_bytes());
  require("writes", operation.out, operation.out_bytes());
  if (operation.stream->device != operation.comm->device()) {
    violation("contexts", "%s on a communicator of device %d is given a stream of device %d",
              operation.name(), operation.comm->device(), operation.stream->device);
  }
  return kNcclSuccess;
}

int launch(const std::vector<Operation>& operations) {
  std::vector<Comm*> order;
  std::map<Comm*, std::vector<Operation>> by_comm;
  for (const Operation& each : operations) {
    auto& mine = by_comm[each.comm.get()];
    if (mine.empty()) order.push_back(each.comm.get());
    if (!mine.empty() && mine[0].stream != each.stream) {
      violation("streams", "one communicator in two streams of one group is not faked");
    }
    mine.push_back(each);
  }
  int result = kNcclSuccess;
  for (Comm* comm : order) {
    const std::vector<Operation>& mine = by_comm[comm];
    if (const auto code = fault("nccl-sync")) {
      Comm::set_last_error("planted: synchronous error");
      return static_cast<int>(*code);
    }
    launch_on(mine);
    const int code = comm->leave(mine[0].name(), mine[0].stream);
    if (code != kNcclSuccess) result = code;
  }
  return result;
}

}  // namespace fake_gpu
