// SPDX-License-Identifier: Apache-2.0
//
// A job whose ranks are threads of this process: the real engine over plain memory, an in-memory
// wire and an in-memory channel. What ThreadSanitizer and the simulation see is the product's code.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "libhvd/engine/engine.h"

namespace hvd::test {

// Messages between leaders. Closing a node is what its death looks like to its neighbours.
class FakeNet {
 public:
  explicit FakeNet(int nodes);
  std::unique_ptr<Wire> wire(int node, int nodes);
  void close_node(int node, const std::string& why);
  void bring_news(int to, int from, const std::string& line);

 private:
  friend class FakeWire;
  struct Item {
    enum Kind { kMessage, kClosed, kNews } kind;
    int from;
    std::string text;
  };
  void put(int to, Item item);
  std::mutex mutex_;
  std::vector<std::deque<Item>> inbox_;  // by node
  std::vector<Fd> bells_;                // by node
  std::vector<std::vector<int>> neighbours_;
};

// Messages between ranks, for tensors.
class FakeFabric {
 public:
  std::unique_ptr<Channel> channel(int rank);

 private:
  friend class FakeChannel;
  std::mutex mutex_;
  std::map<std::tuple<int, int, int>, std::deque<std::string>> mail_;  // (from, to, tag)
};

struct ThreadJobOptions {
  size_t block_bytes = 4096;
  int slots = 3;
  int64_t fusion_bytes = 64 << 10;
  size_t cache_capacity = 1024;
  int64_t cycle_ns = 0;
  bool fuse_groups = true;
  StallLimits stalls;
  bool inspected = false;  // every engine answers hvd-info
};

class ThreadJob {
 public:
  using Options = ThreadJobOptions;
  // `node_of_rank` as in layout_from_nodes.
  explicit ThreadJob(const std::vector<int>& node_of_rank, Options options = {});
  ~ThreadJob();

  int size() const { return layout_.size; }
  Engine& engine(int rank) { return *engines_[static_cast<size_t>(rank)]; }
  const Layout& layout() const { return layout_; }
  // Where the engine answers hvd-info.
  const std::string& inspector_name(int rank) const {
    return inspector_names_[static_cast<size_t>(rank)];
  }
  // All that the ranks wrote to their standard error.
  std::string said();

  // All that they said to the user by a warning, a line each.
  std::string warned();

  // Runs fn(rank) on a thread per rank and waits for all of them.
  void run(const std::function<void(int rank)>& fn);

  // The sockets of a rank close, as when its process ends; its engine is not driven any more.
  void kill(int rank);

 private:
  Layout layout_;
  FakeNet net_;
  FakeFabric fabric_;
  std::vector<std::unique_ptr<char, void (*)(void*)>> memory_;
  std::vector<std::vector<Fd>> leader_ends_;  // by rank: sockets that the others watch
  std::vector<std::string> inspector_names_;  // by rank
  std::mutex warned_mutex_;
  std::string warned_;
  std::vector<std::unique_ptr<Engine>> engines_;
  Fd said_read_;
  Fd said_write_;
};

// Layouts that a job is tried on.
struct JobShape {
  const char* name;
  std::vector<int> node_of_rank;
};
const std::vector<JobShape>& job_shapes();

// What went wrong on any rank; Catch's assertions are for one thread.
class Complaints {
 public:
  void add(int rank, const std::string& text) {
    std::lock_guard<std::mutex> lock(mutex_);
    all_ += "rank " + std::to_string(rank) + ": " + text + "\n";
  }
  std::string all() {
    std::lock_guard<std::mutex> lock(mutex_);
    return all_;
  }

 private:
  std::mutex mutex_;
  std::string all_;
};

// Shorthands: submit with a float or int64 vector.
Expected<int64_t> allreduce(Engine& engine, const std::string& name, std::vector<float>* data,
                            ReduceOp op, int ranks);
Expected<int64_t> allreduce(Engine& engine, const std::string& name, std::vector<int64_t>* data,
                            ReduceOp op, int ranks);
Expected<int64_t> broadcast(Engine& engine, const std::string& name, std::vector<float>* data,
                            int root);
Expected<int64_t> barrier(Engine& engine);

}  // namespace hvd::test
