// SPDX-License-Identifier: Apache-2.0
//
// See thread_job.h.
#include "tests/unit/thread_job.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libhvd/control/tree.h"

namespace hvd::test {

class FakeWire final : public Wire {
 public:
  FakeWire(FakeNet* net, int node) : net_(net), node_(node) {}
  void send(int node, std::string_view message) override {
    net_->put(node, {FakeNet::Item::kMessage, node_, std::string(message)});
  }
  bool poll(const Sink& sink) override {
    std::deque<FakeNet::Item> items;
    {
      std::lock_guard<std::mutex> lock(net_->mutex_);
      items.swap(net_->inbox_[static_cast<size_t>(node_)]);
      uint64_t rings;
      if (read(net_->bells_[static_cast<size_t>(node_)].get(), &rings, sizeof rings) < 0) {
        // Nobody rang.
      }
    }
    for (const auto& item : items) {
      if (item.kind == FakeNet::Item::kMessage) sink.message(item.from, item.text);
      if (item.kind == FakeNet::Item::kClosed) sink.closed(item.from, item.text);
      if (item.kind == FakeNet::Item::kNews) sink.news(item.from, item.text);
    }
    return !items.empty();
  }
  size_t queued() const override { return 0; }
  void add_poll_fds(std::vector<pollfd>* fds) const override {
    fds->push_back({net_->bells_[static_cast<size_t>(node_)].get(), POLLIN, 0});
  }

 private:
  FakeNet* net_;
  int node_;
};

FakeNet::FakeNet(int nodes) {
  inbox_.resize(static_cast<size_t>(nodes));
  for (int node = 0; node < nodes; ++node) {
    bells_.emplace_back(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    std::vector<int> neighbours = tree_children(node, nodes);
    if (node > 0) neighbours.push_back(tree_parent(node));
    neighbours_.push_back(neighbours);
  }
}

std::unique_ptr<Wire> FakeNet::wire(int node, int) {
  return std::make_unique<FakeWire>(this, node);
}

void FakeNet::put(int to, Item item) {
  std::lock_guard<std::mutex> lock(mutex_);
  inbox_[static_cast<size_t>(to)].push_back(std::move(item));
  const uint64_t one = 1;
  if (write(bells_[static_cast<size_t>(to)].get(), &one, sizeof one) < 0) abort();
}

void FakeNet::close_node(int node, const std::string& why) {
  for (int other : neighbours_[static_cast<size_t>(node)]) put(other, {Item::kClosed, node, why});
}

void FakeNet::bring_news(int to, int from, const std::string& line) {
  put(to, {Item::kNews, from, line});
}

class FakeChannel final : public Channel {
 public:
  FakeChannel(FakeFabric* fabric, int rank) : fabric_(fabric), rank_(rank) {}
  Expected<Request> send(int rank, int tag, const void* data, size_t bytes) override {
    std::lock_guard<std::mutex> lock(fabric_->mutex_);
    fabric_->mail_[{rank_, rank, tag}].emplace_back(static_cast<const char*>(data), bytes);
    return add({});
  }
  Expected<Request> receive(int rank, int tag, void* data, size_t bytes) override {
    const Request request = add({rank, tag, data, bytes});
    receives_.push_back(request);
    return request;
  }
  Status progress() override {
    std::lock_guard<std::mutex> lock(fabric_->mutex_);
    // In the order in which they were asked for: messages do not overtake each other.
    std::vector<Request> still;
    for (Request request : receives_) {
      Pending& pending = pending_[static_cast<size_t>(request)];
      auto& mail = fabric_->mail_[{pending.rank, rank_, pending.tag}];
      if (mail.empty()) {
        still.push_back(request);
        continue;
      }
      if (mail.front().size() != pending.bytes) {
        return Status(Code::kInternal, "a message has another size than its receiver expects");
      }
      memcpy(pending.data, mail.front().data(), pending.bytes);
      mail.pop_front();
      pending.data = nullptr;
    }
    receives_ = std::move(still);
    return ok_status();
  }
  bool done(Request request) override {
    if (pending_[static_cast<size_t>(request)].data != nullptr) return false;
    free_.push_back(request);
    --outstanding_;
    return true;
  }
  int outstanding() const override { return outstanding_; }

 private:
  struct Pending {
    int rank = 0;
    int tag = 0;
    void* data = nullptr;  // null: done
    size_t bytes = 0;
  };
  Request add(Pending pending) {
    ++outstanding_;
    if (free_.empty()) {
      pending_.push_back(pending);
      return static_cast<Request>(pending_.size() - 1);
    }
    const Request request = free_.back();
    free_.pop_back();
    pending_[static_cast<size_t>(request)] = pending;
    return request;
  }
  FakeFabric* fabric_;
  int rank_;
  std::vector<Pending> pending_;
  std::vector<Request> receives_;  // under way, in the order in which they were started
  std::vector<Request> free_;
  int outstanding_ = 0;
};

std::unique_ptr<Channel> FakeFabric::channel(int rank) {
  return std::make_unique<FakeChannel>(this, rank);
}

ThreadJob::ThreadJob(const std::vector<int>& node_of_rank, Options options)
    : layout_(*layout_from_nodes(node_of_rank)), net_(layout_.nodes()) {
  int ends[2];
  if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) abort();
  said_read_ = Fd(ends[0]);
  said_write_ = Fd(ends[1]);
  leader_ends_.resize(static_cast<size_t>(layout_.size));
  std::vector<std::string> hosts;
  for (int rank = 0; rank < layout_.size; ++rank) {
    hosts.push_back("node" + std::to_string(layout_.node_of[static_cast<size_t>(rank)]));
  }
  std::vector<Engine::Parts> parts(static_cast<size_t>(layout_.size));
  for (int node = 0; node < layout_.nodes(); ++node) {
    const auto& ranks = layout_.ranks[static_cast<size_t>(node)];
    const int n = static_cast<int>(ranks.size());
    const size_t bytes = Engine::node_bytes(n, options.block_bytes, options.slots);
    char* base = static_cast<char*>(aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
    memset(base, 0, bytes);
    memory_.emplace_back(base, free);
    std::vector<Fd> bells;
    for (int i = 0; i < n; ++i) bells.emplace_back(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    std::vector<NodeLink::Parts> links(ranks.size());
    for (int i = 0; i < n; ++i) {
      NodeLink::Parts& link = links[static_cast<size_t>(i)];
      link.base = base;
      link.bytes = bytes;
      link.local_rank = i;
      for (const Fd& bell : bells) link.doorbells.emplace_back(dup(bell.get()));
      link.sockets.resize(ranks.size());
      link.pidfds.resize(ranks.size());
    }
    for (int i = 1; i < n; ++i) {
      int pair[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) abort();
      links[0].sockets[static_cast<size_t>(i)] = Fd(pair[0]);
      links[static_cast<size_t>(i)].sockets[0] = Fd(pair[1]);
    }
    for (int i = 0; i < n; ++i) {
      Engine::Parts& part = parts[static_cast<size_t>(ranks[static_cast<size_t>(i)])];
      // Copies of a rank's ends of its sockets: shutting them down is the rank's death.
      for (const Fd& fd : links[static_cast<size_t>(i)].sockets) {
        if (fd.valid()) {
          leader_ends_[static_cast<size_t>(ranks[static_cast<size_t>(i)])].emplace_back(
              dup(fd.get()));
        }
      }
      part.node = std::make_unique<NodeLink>(std::move(links[static_cast<size_t>(i)]));
      if (i == 0 && layout_.nodes() > 1) part.wire = net_.wire(node, layout_.nodes());
    }
  }
  for (int rank = 0; rank < layout_.size; ++rank) {
    Engine::Parts& part = parts[static_cast<size_t>(rank)];
    part.rank = rank;
    part.layout = layout_;
    part.hosts = hosts;
    if (layout_.nodes() > 1) part.channel = fabric_.channel(rank);
    part.geometry = Geometry::of(layout_, rank, options.block_bytes, options.slots);
    part.limits.fusion_bytes = options.fusion_bytes;
    part.limits.cache_capacity = options.cache_capacity;
    part.limits.cycle_ns = options.cycle_ns;
    part.limits.fuse_groups = options.fuse_groups;
    part.stalls = options.stalls;
    part.warn = [this](const std::string& text) {
      std::lock_guard<std::mutex> lock(warned_mutex_);
      warned_ += text + "\n";
    };
    part.limits.block_bytes = options.block_bytes;
    part.stderr_fd = said_write_.get();
    if (options.inspected) {
      auto inspector = Inspector::open();
      if (!inspector.ok()) abort();
      inspector_names_.push_back((*inspector)->name());
      part.inspector = std::move(*inspector);
    }
    const int node = layout_.node_of[static_cast<size_t>(rank)];
    part.bring_news = [this, node](int to, const std::string& line) {
      net_.bring_news(to, node, line);
    };
    engines_.push_back(std::make_unique<Engine>(std::move(part)));
  }
}

ThreadJob::~ThreadJob() {
  for (auto& engine : engines_) engine->stop();
}

std::string ThreadJob::warned() {
  std::lock_guard<std::mutex> lock(warned_mutex_);
  return warned_;
}

std::string ThreadJob::said() {
  std::string all;
  char buffer[4096];
  for (;;) {
    const ssize_t n = read(said_read_.get(), buffer, sizeof buffer);
    if (n <= 0) return all;
    all.append(buffer, static_cast<size_t>(n));
  }
}

void ThreadJob::run(const std::function<void(int rank)>& fn) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size(); ++rank) threads.emplace_back([&fn, rank] { fn(rank); });
  for (auto& thread : threads) thread.join();
}

void ThreadJob::kill(int rank) {
  engine(rank).stop();
  for (const Fd& fd : leader_ends_[static_cast<size_t>(rank)]) shutdown(fd.get(), SHUT_RDWR);
  const int node = layout_.node_of[static_cast<size_t>(rank)];
  if (layout_.leader(node) == rank) net_.close_node(node, "connection closed");
}

const std::vector<JobShape>& job_shapes() {
  static const std::vector<JobShape> all = {
      {"1 node, 1 rank", {0}},
      {"1 node, 2 ranks", {0, 0}},
      {"1 node, 3 ranks", {0, 0, 0}},
      {"1 node, 5 ranks", {0, 0, 0, 0, 0}},
      {"2 nodes, 2 ranks", {0, 1}},
      {"2 nodes, 4 ranks", {0, 0, 1, 1}},
      {"2 nodes, 4 ranks, cyclic", {0, 1, 0, 1}},
      {"3 nodes, 6 ranks", {0, 0, 1, 1, 2, 2}},
      {"4 nodes, 8 ranks", {0, 0, 1, 1, 2, 2, 3, 3}},
      {"4 nodes, 8 ranks, uneven", {0, 0, 0, 0, 0, 1, 2, 3}},
      {"5 nodes, 7 ranks", {0, 1, 1, 2, 3, 3, 4}},
  };
  return all;
}

namespace {

template <typename T>
Expected<int64_t> submit(Engine& engine, const std::string& name, std::vector<T>* data, OpKind kind,
                         DataType type, ReduceOp op, int ranks, int root) {
  Description d;
  d.kind = kind;
  d.op = op;
  d.root = root;
  d.tensors.push_back({type, {static_cast<int64_t>(data->size())}});
  Segment s;
  s.input = s.output = reinterpret_cast<char*>(data->data());
  s.elements = data->size();
  if (kind == OpKind::kBroadcast) s.elements *= sizeof(T);  // bytes, like all that is only moved
  if (op == ReduceOp::kAverage) s.after.divide = ranks;
  auto operation = std::make_shared<Operation>();
  operation->key.name = name;
  operation->description = std::move(d);
  operation->segments.push_back(s);
  return engine.submit(std::move(operation));
}

}  // namespace

Expected<int64_t> allreduce(Engine& engine, const std::string& name, std::vector<float>* data,
                            ReduceOp op, int ranks) {
  return submit(engine, name, data, OpKind::kAllreduce, DataType::kFloat32, op, ranks, 0);
}

Expected<int64_t> allreduce(Engine& engine, const std::string& name, std::vector<int64_t>* data,
                            ReduceOp op, int ranks) {
  return submit(engine, name, data, OpKind::kAllreduce, DataType::kInt64, op, ranks, 0);
}

Expected<int64_t> broadcast(Engine& engine, const std::string& name, std::vector<float>* data,
                            int root) {
  return submit(engine, name, data, OpKind::kBroadcast, DataType::kFloat32, ReduceOp::kSum, 1,
                root);
}

Expected<int64_t> barrier(Engine& engine) {
  Description d;
  d.kind = OpKind::kBarrier;
  auto operation = std::make_shared<Operation>();
  operation->description = std::move(d);
  return engine.submit(std::move(operation));
}

}  // namespace hvd::test
