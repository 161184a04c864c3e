// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/gpu/comm.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace fake_gpu {
namespace {

constexpr long kSuspicionMs = 200;  // a cycle that lasts that long is one

struct Live {
  std::mutex mutex;
  std::map<CommHandle, std::shared_ptr<Comm>> comms;
  std::set<CommHandle> gone;
  std::uintptr_t handles = 0;
  std::string last_error = "no error";
};

Live& live() {
  static auto* live = new Live;
  return *live;
}

std::uint64_t id_of(const std::string& name) { return std::hash<std::string>()(name) | 1; }

void copy_text(const std::string& text, char* to, size_t bytes) {
  to[text.copy(to, bytes - 1)] = '\0';
}

__attribute__((destructor)) void check_exit() {
  if (!settings().exit_check || Comm::count() == 0) return;
  violation("exit", "%zu communicators were neither destroyed nor aborted", Comm::count());
}

}  // namespace

Comm::Comm(std::string name, int ranks, int rank, bool blocking)
    : name_(std::move(name)),
      id_(id_of(name_)),
      ranks_(ranks),
      rank_(rank),
      device_(current_device()),
      blocking_(blocking) {}

// ---- handles ----

void Comm::publish(const std::shared_ptr<Comm>& comm) {
  Live& all = live();
  const std::lock_guard lock(all.mutex);
  comm->handle_ = reinterpret_cast<CommHandle>(0xC033000000u + ++all.handles * 16);
  all.comms[comm->handle_] = comm;
}

void Comm::withdraw(const std::shared_ptr<Comm>& comm) {
  const std::lock_guard lock(live().mutex);
  live().comms.erase(comm->handle_);
  live().gone.insert(comm->handle_);
}

std::shared_ptr<Comm> Comm::of(const char* what, CommHandle handle) {
  const std::lock_guard lock(live().mutex);
  const auto found = live().comms.find(handle);
  if (found != live().comms.end()) return found->second;
  violation("destroyed handle",
            live().gone.count(handle) != 0
                ? "%s uses communicator %p, which was destroyed or aborted"
                : "%s uses %p, which is no communicator",
            what, static_cast<void*>(handle));
}

std::shared_ptr<Comm> Comm::with_id(std::uint64_t id, int device) {
  const std::lock_guard lock(live().mutex);
  for (const auto& [handle, comm] : live().comms) {
    if (comm->id_ == id && comm->device_ == device) return comm;
  }
  return nullptr;
}

size_t Comm::count() {
  const std::lock_guard lock(live().mutex);
  return live().comms.size();
}

void Comm::each_of_device(int device, const std::function<void(Comm&)>& visit) {
  const std::lock_guard lock(live().mutex);
  for (const auto& [handle, comm] : live().comms) {
    if (comm->device_ == device && !comm->connecting_ && comm->segment_) visit(*comm);
  }
}

void Comm::set_last_error(const std::string& text) {
  const std::lock_guard lock(live().mutex);
  live().last_error = text;
}

std::string Comm::last_error() {
  const std::lock_guard lock(live().mutex);
  return live().last_error;
}

// ---- beginning ----

int Comm::create(const std::string& name, int ranks, int rank, bool blocking,
                 std::shared_ptr<Comm>* made) {
  if (current_device() < 0) {
    violation("contexts", "ncclCommInitRank was called by a thread that has no current context");
  }
  if (const auto code = fault("nccl-init")) {
    set_last_error("planted: the communicator cannot be made");
    return static_cast<int>(*code);
  }
  if (ranks < 1 || ranks > kMostRanks || rank < 0 || rank >= ranks) return kNcclInvalidArgument;
  std::shared_ptr<Comm> comm(new Comm(name, ranks, rank, blocking));
  comm->connecting_ = true;
  if (!blocking) publish(comm);
  const int code = comm->start("ncclCommInitRank", [raw = comm.get()] { return raw->connect(); });
  if (blocking && code == kNcclSuccess) publish(comm);
  if (code == kNcclSuccess || code == kNcclInProgress) *made = std::move(comm);
  return code;
}

// With a blocking communicator here and now, else in a thread.
int Comm::start(const char* what, std::function<int()> work) {
  if (blocking_) return work();
  call_ = what;
  polls_ = 0;
  helper_done_ = false;
  helper_ = std::thread([this, work = std::move(work)] {
    helper_code_ = work();
    helper_done_ = true;
  });
  return kNcclInProgress;
}

int Comm::connect() {
  const bool silent = fault("nccl-init-silent").has_value();
  segment_ = Segment::open(name_, ranks_, rank_);
  if (!segment_) {
    set_last_error("opening the shared file " + name_ + ": " + strerror(errno));
    return connected(kNcclSystemError);
  }
  if (silent) wait([] { return false; }, kHostWork, "ncclCommInitRank", 0);
  Plate& mine = segment_->plate(rank_);
  mine.process = getpid();
  mine.global_rank = settings().rank;
  copy_text(settings().node, mine.node, sizeof mine.node);
  copy_text(pci_bus_id(device_), mine.bus_id, sizeof mine.bus_id);
  mine.here = 1;
  segment_->ring();
  const auto all_here = [&] {
    for (int i = 0; i < ranks_; ++i) {
      if (segment_->plate(i).here == 0) return false;
    }
    return true;
  };
  int code = kNcclInternalError;
  if (wait(all_here, kHostWork, "ncclCommInitRank", 0)) {
    if (rank_ == 0) segment_->remove_name();
    Segment::forget_root(name_);
    code = check_devices();
    if (!barrier(kHostWork, "ncclCommInitRank", 0)) code = kNcclInternalError;
  } else {
    segment_->remove_name();  // those who still come wait for us in vain as it is
  }
  return connected(code);
}

// From here on the communicator is its caller's.
int Comm::connected(int code) {
  if (code != kNcclSuccess) set_error(code);
  parent_.reset();
  connecting_ = false;
  return code;
}

// As NCCL does it, with its words.
int Comm::check_devices() {
  const Plate& mine = segment_->plate(rank_);
  for (int i = 0; i < ranks_; ++i) {
    const Plate& other = segment_->plate(i);
    if (i == rank_ || strcmp(other.node, mine.node) != 0 ||
        strcmp(other.bus_id, mine.bus_id) != 0) {
      continue;
    }
    set_last_error("Duplicate GPU detected : rank " + std::to_string(rank_) + " and rank " +
                   std::to_string(i) + " both on CUDA device " + mine.bus_id);
    return kNcclInvalidUsage;
  }
  return kNcclSuccess;
}

int Comm::split(int color, int key, bool blocking, std::shared_ptr<Comm>* made) {
  if (const auto code = fault("nccl-split")) return static_cast<int>(*code);
  std::shared_ptr<Comm> child(new Comm("", 0, 0, blocking));
  child->device_ = device_;
  child->connecting_ = true;
  child->parent_ = of("ncclCommSplit", handle_);
  child->call_ = "ncclCommSplit";
  const bool wanted = color != kNoColor;
  const int code = start("ncclCommSplit", [this, color, key, child] {
    if (!join_split(color, key, child.get())) return static_cast<int>(kNcclInternalError);
    if (color != kNoColor) return child->connect();
    child->parent_.reset();
    return static_cast<int>(kNcclSuccess);
  });
  if (code != kNcclSuccess && code != kNcclInProgress) return code;
  if (!wanted) return code;
  if (blocking_) child->clear_progress();
  publish(child);
  child_ = child;
  *made = std::move(child);
  return code;
}

bool Comm::join_split(int color, int key, Comm* child) {
  Plate& mine = segment_->plate(rank_);
  mine.color = color;
  mine.key = key;
  if (!barrier(kHostWork, "ncclCommSplit", 0)) return false;
  for (int i = 0; i < ranks_; ++i) {
    const Plate& other = segment_->plate(i);
    if (other.color != color) continue;
    ++child->ranks_;
    if (other.key < key || (other.key == key && i < rank_)) ++child->rank_;
  }
  child->name_ = name_ + "." + std::to_string(++splits_) + "-" + std::to_string(color);
  child->id_ = id_of(child->name_);
  return barrier(kHostWork, "ncclCommSplit", 0);  // before colors are written again
}

// ---- what is in progress ----

int Comm::enter(const char* what) {
  if (!call_.empty()) {
    violation("NCCL in progress",
              "%s was called while %s of the same communicator is in progress; poll "
              "ncclCommGetAsyncError until it says ncclSuccess",
              what, call_.c_str());
  }
  return error_;
}

int Comm::leave(const char* what, const std::shared_ptr<Stream>& stream) {
  if (blocking_) return kNcclSuccess;
  static std::atomic<std::uint64_t> times{0};
  Random random(settings().seed + ++times);
  call_ = what;
  polls_ = static_cast<int>(random.below(3));
  if (stream) {
    touched_.push_back(stream);
    engine().set_in_progress(stream, what);
  }
  return kNcclInProgress;
}

void Comm::clear_progress() {
  call_.clear();
  for (const auto& stream : touched_) engine().set_in_progress(stream, "");
  touched_.clear();
  if (child_) std::exchange(child_, nullptr)->clear_progress();
}

int Comm::poll() {
  if (connecting_ && !helper_.joinable()) return kNcclInProgress;  // the parent's thread does it
  if (helper_.joinable()) {
    if (!helper_done_) return kNcclInProgress;
    helper_.join();
    if (helper_code_ != kNcclSuccess) set_error(helper_code_);
  }
  if (error_ == kNcclSuccess && !call_.empty() && polls_-- > 0) return kNcclInProgress;
  clear_progress();
  return error_;
}

// ---- waiting for other ranks ----

void Comm::set_error(int code) {
  int none = 0;
  error_.compare_exchange_strong(none, code);
}

bool Comm::wait(const std::function<bool()>& done, Channel channel, const char* what,
                std::uint64_t number) {
  const long start = now_ms();
  if (channel == kDeviceWork) suspect_ = 0;
  for (;;) {
    const std::uint32_t seen = segment_->bell();
    if (aborted_ || (parent_ && parent_->aborted_)) return false;
    if (done()) return true;
    if (const int code = segment_->error(); code != kNcclSuccess && error_ == kNcclSuccess) {
      set_last_error("another rank of " + name_ + " has met an error");
      set_error(code);
    }
    const long now = now_ms();
    if (settings().detects_death) look_for_deaths();
    check_launch_order(channel, now);
    if (now - start > settings().deadline_ms) {
      violation("deadline", "%s (launch %llu of %s) waits for %s since %ld ms", what,
                static_cast<unsigned long long>(number), name_.c_str(), late(channel).c_str(),
                now - start);
    }
    segment_->wait(seen);
  }
}

std::string Comm::late(Channel channel) {
  std::string text;
  for (int i = 0; i < ranks_; ++i) {
    if (segment_->plate(i).here != 0 &&
        segment_->plate(i).arrivals[channel] >= arrivals_[channel]) {
      continue;
    }
    text += (text.empty() ? "rank " : ", ") + std::to_string(i);
  }
  return text.empty() ? "nobody" : text;
}

bool Comm::barrier(Channel channel, const char* what, std::uint64_t number) {
  const std::uint32_t mine = ++arrivals_[channel];
  segment_->plate(rank_).arrivals[channel] = mine;
  segment_->ring();
  const auto all_arrived = [&] {
    for (int i = 0; i < ranks_; ++i) {
      if (segment_->plate(i).arrivals[channel] < mine) return false;
    }
    return true;
  };
  return wait(all_arrived, channel, what, number);
}

void Comm::look_for_deaths() {
  if (error_ != kNcclSuccess) return;
  for (int i = 0; i < ranks_; ++i) {
    const Plate& plate = segment_->plate(i);
    if (i != rank_ && plate.here != 0 && plate.left == 0 && !segment_->is_alive(i)) {
      set_last_error("rank " + std::to_string(i) + " of " + name_ + " is gone");
      set_error(kNcclRemoteError);
      return;
    }
  }
}

// We run a launch that a rank has not come to, because it runs one of another communicator that
// waits behind ours here: the two can never go on where launches take what GPU there is.
void Comm::check_launch_order(Channel channel, long now) {
  if (channel != kDeviceWork || !settings().launch_order) return;
  for (int i = 0; i < ranks_; ++i) {
    const Plate& plate = segment_->plate(i);
    if (plate.arrivals[channel] >= arrivals_[channel]) continue;
    const std::uint64_t front = plate.front_comm, launch = plate.front_launch;
    if (front == 0 || front == id_) continue;
    const auto other = with_id(front, device_);
    if (!other || other->launched <= launch || other->finished > launch) continue;
    if (suspect_ != front + launch) {
      suspect_ = front + launch;
      suspected_ms_ = now;
    } else if (now - suspected_ms_ > kSuspicionMs) {
      violation("launch order",
                "%s runs here while launch %llu of %s waits behind it, and rank %d runs them the "
                "other way "
                "round: launch communicators of one device in the same order on all ranks",
                name_.c_str(), static_cast<unsigned long long>(launch), other->name_.c_str(), i);
    }
    return;
  }
  suspect_ = 0;
}

}  // namespace fake_gpu
