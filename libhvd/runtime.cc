// SPDX-License-Identifier: Apache-2.0
//
// See runtime.h. start() reads as the table of contents of the library.
#include "libhvd/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "libhvd/base/handoff.h"
#include "libhvd/base/sha256.h"
#include "libhvd/control/tree.h"
#include "libhvd/topo/places.h"
#include "libhvd/transport/net/tcp_wire.h"
#include "libhvd/transport/node_link.h"
#ifdef HVD_HAVE_MPI
#include "libhvd/transport/mpi/mpi_channel.h"
#endif
#include "pmix/pmix_bootstrap.h"

extern char** environ;

namespace hvd {
namespace {

constexpr int64_t kNsPerMs = 1000000;
// What shutdown waits for the root's answer: one way up the tree and down again.
constexpr int64_t kShutdownMs = 30000;
// A stage of the start ends so long after the one before it.
constexpr int64_t kStageMs = 1500;
// At the end of the process: how long all may take to come, and the root to let one go.
constexpr int64_t kAskToLeaveMs = 2000;
constexpr int64_t kGiveUpMs = 5000;
// What the ranks of a node with a dead leader have to tell the neighbours.
constexpr int64_t kBringNewsMs = 150;
constexpr size_t kSecretBytes = 32;
// Measured: on one node what two ranks have in flight should stay in the second-level cache;
// between nodes fewer and larger messages win.
constexpr int64_t kBlockOnOneNode = 256 << 10;
constexpr int64_t kBlockOnSeveral = 1 << 20;
// Blocks are whole pages, so every type's elements and every shard's cache lines fit.
constexpr int64_t kBlockAlign = 4096;

WireType wire_type(const std::string& setting) {
  if (setting == "bf16") return WireType::kBfloat16;
  return setting == "fp16" ? WireType::kFloat16 : WireType::kOwn;
}

}  // namespace

struct Runtime::Meeting {
  NodeListener node;
  TcpListener tcp;
};

Runtime::~Runtime() = default;

Expected<std::unique_ptr<Runtime>> Runtime::start(const Getenv& get, bool* exchanged) {
  std::unique_ptr<Runtime> runtime(new Runtime());
  if (Status s = runtime->read_settings(get); !s.ok()) return s;
  if (Status s = runtime->meet(get); !s.ok()) return s;
  *exchanged = true;
  if (Status s = runtime->check_channel(); !s.ok()) return s;
  if (Status s = runtime->open_timeline(); !s.ok()) return s;
  Status connected = runtime->connect();
  if (connected.ok()) connected = runtime->open_channel();
  if (connected.code() == Code::kTimeout) {
    return Status(Code::kTimeout,
                  connected.text() + ". If it is only slow, raise HOROVOD_START_TIMEOUT");
  }
  if (!connected.ok()) return connected;
  runtime->bootstrap_->release();
  runtime->report();
  return runtime;
}

Status Runtime::read_settings(const Getenv& get) {
  Expected<Settings> settings = Settings::from_environment(get);
  if (!settings.ok()) return settings.status();
  settings_ = *settings;
  Expected<std::unique_ptr<Bootstrap>> bootstrap = make_bootstrap(get);
  if (!bootstrap.ok()) return bootstrap.status();
  bootstrap_ = std::move(*bootstrap);
  rank_ = bootstrap_->rank();
  log_ = Log::from_settings(settings_, rank_);
  if (bootstrap_->job() == "solo") {
    log_.notice("no launcher: this is a job of one rank; srun --horovod or mpirun make it more");
  }
  if (rank_ == 0) {
    const VariableRemarks remarks = check_variables(environ);
    for (const std::string& text : remarks.unknown)
      log_.line(LogLevel::kWarning, "%s", text.c_str());
    for (const std::string& text : remarks.no_effect)
      log_.line(LogLevel::kInfo, "%s", text.c_str());
  }
  return ok_status();
}

// Opens what others will connect to, and exchanges records.
Status Runtime::meet(const Getenv& get) {
  meeting_ = std::make_unique<Meeting>();
  Expected<NodeListener> node = NodeListener::open();
  if (!node.ok()) return node.status();
  Expected<TcpListener> tcp = TcpListener::open();
  if (!tcp.ok()) return tcp.status();
  Expected<std::vector<std::string>> addresses =
      local_addresses(settings_.text(Setting::kInterfaces));
  if (!addresses.ok()) return addresses.status();
  meeting_->node = std::move(*node);
  meeting_->tcp = std::move(*tcp);

  Record record;
  record.version = PACKAGE_VERSION;
  record.host = host_name(get);
  Expected<std::string> secret = random_bytes(kSecretBytes);
  if (!secret.ok()) return secret.status();
  record.secret = std::move(*secret);
  record.listener = meeting_->node.name;
  record.addresses = *addresses;
  record.port = meeting_->tcp.port;
  record.block_bytes = settings_.number(Setting::kBlockSize);
  record.slots = static_cast<int32_t>(settings_.number(Setting::kSlots));
  record.fusion_bytes = settings_.number(Setting::kFusionThreshold);
  record.cache_capacity = settings_.number(Setting::kCacheCapacity);
  record.cycle_ns = settings_.ns(Setting::kCycleTime);
  record.fuse_groups = !settings_.flag(Setting::kDisableGroupFusion);
  record.wire = settings_.text(Setting::kWire);
  if (!settings_.flag(Setting::kStallCheckDisable)) {
    record.stall_warn_ns = settings_.ns(Setting::kStallWarn);
    record.stall_stop_ns = settings_.ns(Setting::kStallAbort);
  }
  record.mpi = settings_.text(Setting::kMpi);

  Expected<std::optional<Handoff>> handoff = read_handoff(get);
  if (!handoff.ok()) return handoff.status();
  record.objection = bootstrap_->objection().text();
  record.again = bootstrap_->again();
  if (*handoff && (*handoff)->step == slurm_step_of(bootstrap_->job())) {
    const Handoff& ours = **handoff;
    apply_origins(ours, &settings_);
    if (ours.own_hostname) record.node = ours.node;
    if (const char* report = get(kReportVariable)) record.report = report;
    const Status agreed = compare_with_handoff(ours, rank_, bootstrap_->size());
    if (record.objection.empty()) record.objection = agreed.text();
  }
#ifdef HVD_HAVE_MPI
  record.program_mpi = MpiChannel::program_mpi();
#endif

  const Deadline deadline = Deadline::after_ms(settings_.ns(Setting::kStartTimeout) / kNsPerMs);
  Expected<std::vector<std::string>> all = bootstrap_->exchange(record.encode(), deadline);
  if (!all.ok()) return all.status();
  Expected<std::vector<Record>> records = read_records(*all);
  if (!records.ok()) return records.status();
  records_ = std::move(*records);
  Expected<Layout> layout = layout_of(records_);
  if (!layout.ok()) return layout.status();
  layout_ = std::move(*layout);
  return ok_status();
}

// Connects the ranks of the node and the leaders of the nodes; then the engine can run. Each stage
// ends later than the one before, so that who knows best why the job cannot start says so first.
Status Runtime::connect() {
  const Deadline deadline = Deadline::after_ms(settings_.ns(Setting::kStartTimeout) / kNsPerMs);
  start_by_ = deadline.plus_ms(2 * kStageMs);
  Engine::Parts parts;
  parts.rank = rank_;
  parts.layout = layout_;
  for (const Record& record : records_) parts.hosts.push_back(record.host);
  set_shape(&parts);
  parts.warn = [this](const std::string& text) {
    log_.line(LogLevel::kWarning, "%s", text.c_str());
  };
  const TcpWire::Config tree = tree_config();
  parts.bring_news = [tree](int to, const std::string& line) {
    // Best effort: neighbours that do not hear of it find out themselves.
    static_cast<void>(TcpWire::bring_news(tree, to, line, Deadline::after_ms(kBringNewsMs)));
  };
  if (Status s = connect_node(&parts, deadline); !s.ok()) {
    if (layout_.local_rank[static_cast<size_t>(rank_)] != 0) return s;
    TcpWire::call_off(tree, s.text());
    return s;
  }
  if (Status s = connect_leaders(&parts, tree, deadline.plus_ms(kStageMs)); !s.ok()) {
    Engine::call_off(*parts.node, s.text());
    return s;
  }
  meeting_.reset();
  Expected<std::unique_ptr<Inspector>> inspector = Inspector::open();
  if (!inspector.ok()) return inspector.status();
  parts.inspector = std::move(*inspector);
  parts.timeline = timeline_.get();
  parts.about = about();
  engine_ = std::make_unique<Engine>(std::move(parts));
  return ok_status();
}

// What the plugin has bound on every node, for people or as JSON: rank 0 says it for all.
void Runtime::report() {
  std::vector<Json> nodes;
  for (Record& record : records_) {
    const std::optional<Json> node = Json::parse(std::exchange(record.report, {}));
    if (rank_ == 0 && node) nodes.push_back(*node);
  }
  if (nodes.empty()) return;
  nodes = merged_nodes(nodes);
  const bool json = settings_.text(Setting::kReport) == "json";
  const std::string text = json ? places_json(nodes).dump() + "\n" : places_text(nodes);
  fputs(text.c_str(), stderr);
}

// For hvd-info --pid: what no engine knows. Paths it reads in /proc.
Json Runtime::about() const {
  const auto library = [](const char* name, const std::string& version) {
    return Json::object().set("name", name).set("version", version.empty() ? Json() : version);
  };
  Json libraries = Json::array();
  libraries.add(library("libhvd", PACKAGE_VERSION));
  libraries.add(library("PMIx", pmix_library_version()));
#ifdef HVD_HAVE_MPI
  libraries.add(library("MPI", mpi_library_version()));
#endif
  return Json::object()
      .set("job", bootstrap_->job())
      .set("libraries", std::move(libraries))
      .set("settings", settings_json(settings_));
}

// What must be the same on all ranks: rank 0's settings count.
void Runtime::set_shape(Engine::Parts* parts) const {
  const Record& root = records_[0];
  int64_t block_bytes = root.block_bytes;
  if (block_bytes == 0) block_bytes = layout_.nodes() == 1 ? kBlockOnOneNode : kBlockOnSeveral;
  block_bytes = (block_bytes + kBlockAlign - 1) / kBlockAlign * kBlockAlign;
  parts->geometry = Geometry::of(layout_, rank_, static_cast<size_t>(block_bytes), root.slots);
  parts->limits.fusion_bytes = root.fusion_bytes;
  parts->limits.cache_capacity = static_cast<size_t>(root.cache_capacity);
  parts->limits.cycle_ns = root.cycle_ns;
  parts->limits.block_bytes = static_cast<uint64_t>(block_bytes);
  parts->limits.fuse_groups = root.fuse_groups;
  parts->wire_type = wire_type(root.wire);
  parts->stalls.warn_ns = root.stall_warn_ns;
  parts->stalls.stop_ns = root.stall_stop_ns;
}

Status Runtime::connect_node(Engine::Parts* parts, Deadline deadline) {
  const Record& root = records_[0];
  const int local_rank = layout_.local_rank[static_cast<size_t>(rank_)];
  const std::vector<int>& here =
      layout_.ranks[static_cast<size_t>(layout_.node_of[static_cast<size_t>(rank_)])];
  Expected<std::unique_ptr<NodeLink>> link = ok_status();
  if (local_rank != 0) {
    link = NodeLink::join(records_[static_cast<size_t>(here[0])].listener, root.secret, local_rank,
                          rank_on_host(records_, here[0]), deadline);
  } else {
    std::vector<std::string> names;
    for (const int rank : here) names.push_back(rank_on_host(records_, rank));
    const size_t bytes =
        Engine::node_bytes(static_cast<int>(here.size()), parts->geometry.block_bytes, root.slots);
    link = NodeLink::lead(std::move(meeting_->node), root.secret, names, bytes, deadline);
  }
  if (!link.ok()) return link.status();
  parts->node = std::move(*link);
  return ok_status();
}

TcpWire::Config Runtime::tree_config() const {
  TcpWire::Config config;
  config.node = layout_.node_of[static_cast<size_t>(rank_)];
  config.parent = tree_parent(config.node);
  config.children = tree_children(config.node, layout_.nodes());
  for (int i = 0; i < layout_.nodes(); ++i) {
    const Record& leader = records_[static_cast<size_t>(layout_.leader(i))];
    config.endpoints.push_back({leader.addresses, leader.port});
    config.names.push_back(rank_on_host(records_, layout_.leader(i)));
  }
  config.secret = records_[0].secret;
  config.peer_timeout_ms = settings_.ns(Setting::kPeerTimeout) / kNsPerMs;
  return config;
}

Status Runtime::connect_leaders(Engine::Parts* parts, const TcpWire::Config& tree,
                                Deadline deadline) {
  if (layout_.nodes() == 1 || layout_.leader(tree.node) != rank_) return ok_status();
  Expected<std::unique_ptr<TcpWire>> wire =
      TcpWire::connect(tree, std::move(meeting_->tcp), deadline);
  if (!wire.ok()) return wire.status();
  parts->wire = std::move(*wire);
  return ok_status();
}

bool Runtime::needs_channel() const { return layout_.nodes() > 1 || records_[0].mpi == "eager"; }

// What would make open_channel() fail, found before anybody connects to anybody, and alike on all
// ranks: rank 0's setting counts.
Status Runtime::check_channel() const {
  if (Status s = check_program_mpi(records_, needs_channel()); !s.ok()) return s;
  if (Status s = check_again(records_, needs_channel()); !s.ok()) return s;
  if (!needs_channel()) return ok_status();
  if (records_[0].mpi == "off") {
    return error(Code::kInvalid,
                 "the job spans %d nodes and HOROVOD_MPI is \"off\"; tensors travel between nodes "
                 "by MPI: leave it at \"auto\"",
                 layout_.nodes());
  }
#ifndef HVD_HAVE_MPI
  return error(
      Code::kSystem,
      "the job spans %d node%s, HOROVOD_MPI is \"%s\" and this libhvd was built without MPI; "
      "build it with --with-mpi",
      layout_.nodes(), layout_.nodes() == 1 ? "" : "s", records_[0].mpi.c_str());
#else
  return ok_status();
#endif
}

// MPI_Init has no deadline, so everybody comes to the start first; a rank that dies while the
// others are in it is seen by the engine.
Status Runtime::open_channel() {
  if (!needs_channel()) return ok_status();
#ifdef HVD_HAVE_MPI
  if (Status s = engine_->meet(start_by_); !s.ok()) return s;
  Expected<std::unique_ptr<MpiChannel>> channel =
      MpiChannel::open(rank_, layout_.size, [this, pid = getpid()] {
        if (getpid() != pid) return;  // a forked child's MPI is not ours to look after
        mpi_ended_.store(true);
        static_cast<void>(shutdown());
        engine_->close_channel();
      });
  if (!channel.ok()) return channel.status();
  mpi_ = channel->get();
  engine_->set_channel(std::move(*channel));
#endif
  return ok_status();
}

TimelineNames Runtime::timeline_names() const {
  TimelineNames names;
  names.rank = rank_;
  names.host = records_[static_cast<size_t>(rank_)].host;
  const std::string step(slurm_step_of(bootstrap_->job()));
  const size_t dot = step.find('.');
  names.job = dot == std::string::npos ? bootstrap_->job() : step.substr(0, dot);
  names.step = dot == std::string::npos ? "0" : step.substr(dot + 1);
  return names;
}

// The timeline that HOROVOD_TIMELINE asks for. There is a Timeline in any case: it may be started
// later.
Status Runtime::open_timeline() {
  TraceIdentity identity;
  identity.rank = rank_;
  identity.size = layout_.size;
  identity.host = records_[static_cast<size_t>(rank_)].host;
  identity.job = bootstrap_->job();
  timeline_ = std::make_unique<Timeline>(identity, [this](const std::string& text) {
    log_.line(LogLevel::kWarning, "%s", text.c_str());
  });
  Expected<std::string> path =
      timeline_path_of_rank(settings_.text(Setting::kTimeline), timeline_names());
  if (!path.ok()) return path.status().annotate("HOROVOD_TIMELINE");
  if (path->empty()) return ok_status();
  return timeline_->start(*path, settings_.flag(Setting::kTimelineMarkCycles))
      .annotate("HOROVOD_TIMELINE");
}

Status Runtime::start_timeline(const std::string& path, bool mark_cycles) {
  Expected<std::string> ours = timeline_path_of_rank(path, timeline_names());
  if (!ours.ok()) return ours.status();
  if (ours->empty()) {
    stop_timeline();
    return ok_status();
  }
  return timeline_->start(*ours, mark_cycles);
}

// Signals and squeue are for those programs alone that ask.
Expected<bool> Runtime::has_reason_to_stop(const Getenv& get) {
  std::lock_guard<std::mutex> lock(stop_mutex_);
  if (stop_watch_ == nullptr) {
    Expected<std::unique_ptr<StopWatch>> watch = StopWatch::of_process(get, settings_, rank_, log_);
    if (!watch.ok()) return watch.status();
    stop_watch_ = std::move(*watch);
  }
  return stop_watch_->has_reason();
}

Status Runtime::shutdown() { return engine_->shutdown(Deadline::after_ms(kShutdownMs)); }

Status Runtime::reopen() {
  if (mpi_ended_.load()) {
    return error(Code::kState, "the program has finalised MPI, which tensors travel by");
  }
  return engine_->reopen(Deadline::after_ms(settings_.ns(Setting::kStartTimeout) / kNsPerMs));
}

void Runtime::at_exit(int status) {
  // exit() in a signal handler that interrupted the driving thread: it would wait for itself.
  if (engine_->driven_by_this_thread()) return;
  if (status != 0 && engine_->open()) {
    // A death, and the way that the others hear of it is that we are gone.
    engine_->stop();
    timeline_->stop();
    return;
  }
  static_cast<void>(shutdown());
  [[maybe_unused]] bool leave = false;
#ifdef HVD_HAVE_MPI
  if (mpi_ != nullptr && mpi_->owns_mpi() && !mpi_ended_.load()) {
    const Engine::Way way = engine_->leave(Deadline::after_ms(kAskToLeaveMs),
                                           Deadline::after_ms(kAskToLeaveMs + kGiveUpMs));
    leave = way == Engine::Way::kLeave;
  }
#endif
  engine_->at_end();
  engine_->stop();
  timeline_->stop();
#ifdef HVD_HAVE_MPI
  if (leave) {
    bootstrap_->leave();
  } else if (mpi_ != nullptr && !mpi_ended_.load()) {
    mpi_->finalize();
  }
#endif
}

}  // namespace hvd
