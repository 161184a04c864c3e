// SPDX-License-Identifier: Apache-2.0
//
// What libpmix and the servers need and do, as measured with libpmix 4.2.2 under Slurm 22.05:
//
// - PMIX_MCA_gds=hash before the first PMIx_Init of the process. Without it the client loses its
//   rank's own keys at the next PMIx_Init, and an MPI_Init by the program after us fails. It may
//   go when no site has a libpmix of version 4 any more.
// - A fence is a barrier in Slurm only with PMIX_COLLECT_DATA, and its PMIX_TIMEOUT does not see
//   ranks of other nodes. So the deadline is kept here, and PMIx_Get_nb of everybody's record tells
//   who is missing: who has come is answered within milliseconds.
// - Slurm 22.05 passes a fence around the ring of nodes, and a node passes on what comes while it
//   still forks its own tasks. Its server's euid is the user's at that time, munge then refuses it
//   the credential of the next node's connection, and the fence hangs: 8 % of the starts of 8 ranks
//   on 4 nodes of a busy machine. So nobody enters the fence before all nodes have started (see
//   all_nodes_have_started), unless the program's MPI has been through a fence before us; there
//   the direct requests would even confuse the servers' dstore (UNPACK-PAST-END). A second program
//   of the same tasks would get the first one's records by them; its nodes have started.
// - A request that is not answered keeps its callback's data: that belongs to libpmix until then.
#include "pmix/pmix_client.h"

#include <pmix.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "libhvd/base/parse.h"
#include "pmix/launch.h"

namespace hvd {
namespace {

constexpr const char* kRecordKey = "horovod.record";
constexpr int64_t kComesBackMs = 20;  // between two looks for a rank that is gone for the moment
constexpr int64_t kAnswerMs = 1000;   // for those who have come, on whatever node
constexpr int64_t kAfterFenceMs = 30000;  // to fetch what the fence has brought to this node
constexpr size_t kMostNamed = 16;         // missing ranks in one text

Status pmix_error(pmix_status_t rc, const std::string& doing) {
  return error(Code::kSystem, "%s: PMIx says %s (%d)", doing.c_str(), PMIx_Error_string(rc), rc);
}

// A count that callbacks of libpmix's thread raise.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  size_t done = 0;

  // Whether `count` were done before the deadline.
  bool wait(size_t count, Deadline deadline) {
    std::unique_lock<std::mutex> lock(mutex);
    while (done < count && !deadline.passed()) {
      changed.wait_for(lock, std::chrono::milliseconds(deadline.poll_ms(1000)));
    }
    return done >= count;
  }
};

struct Fence : Gate {
  pmix_status_t status = PMIX_SUCCESS;
};

struct FenceRequest {
  std::shared_ptr<Fence> fence;
  pmix_proc_t everybody;
  pmix_info_t collect;
};

void fence_done(pmix_status_t status, void* data) {
  std::unique_ptr<FenceRequest> request(static_cast<FenceRequest*>(data));
  std::lock_guard<std::mutex> lock(request->fence->mutex);
  request->fence->status = status;
  ++request->fence->done;
  request->fence->changed.notify_all();
}

struct Lookup : Gate {
  std::vector<std::optional<std::string>> values;
};

struct LookupRequest {
  std::shared_ptr<Lookup> lookup;
  size_t index;
  pmix_proc_t proc;
};

std::optional<std::string> text_of(const pmix_value_t* value) {
  if (value == nullptr) return std::nullopt;
  if (value->type == PMIX_BYTE_OBJECT) {
    return std::string(value->data.bo.bytes, value->data.bo.size);
  }
  if (value->type == PMIX_STRING) return std::string(value->data.string);
  return std::nullopt;
}

void lookup_done(pmix_status_t status, pmix_value_t* value, void* data) {
  std::unique_ptr<LookupRequest> request(static_cast<LookupRequest*>(data));
  std::lock_guard<std::mutex> lock(request->lookup->mutex);
  if (status == PMIX_SUCCESS) request->lookup->values[request->index] = text_of(value);
  ++request->lookup->done;
  request->lookup->changed.notify_all();
}

pmix_proc_t process(const std::string& pmix_namespace, pmix_rank_t rank) {
  pmix_proc_t proc;
  PMIX_PROC_LOAD(&proc, pmix_namespace.c_str(), rank);
  return proc;
}

// Brings all ranks' records to this node; PMIX_ERR_TIMEOUT if somebody has not come by the
// deadline.
pmix_status_t fence_once(const std::string& nspace, Deadline deadline) {
  auto fence = std::make_shared<Fence>();
  auto* request = new FenceRequest{fence, process(nspace, PMIX_RANK_WILDCARD), {}};
  const bool yes = true;
  PMIX_INFO_LOAD(&request->collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
  const pmix_status_t rc =
      PMIx_Fence_nb(&request->everybody, 1, &request->collect, 1, fence_done, request);
  if (rc != PMIX_SUCCESS) {
    fence_done(rc == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : rc, request);
  }
  return fence->wait(1, deadline) ? fence->status : PMIX_ERR_TIMEOUT;
}

// A key of several ranks at once; without a value where the answer was no, or did not come.
std::vector<std::optional<std::string>> look_up(const std::string& pmix_namespace,
                                                const std::vector<int>& ranks, const char* key,
                                                Deadline deadline) {
  auto lookup = std::make_shared<Lookup>();
  lookup->values.resize(ranks.size());
  for (size_t i = 0; i < ranks.size(); ++i) {
    auto* request =
        new LookupRequest{lookup, i, process(pmix_namespace, static_cast<pmix_rank_t>(ranks[i]))};
    const pmix_status_t rc = PMIx_Get_nb(&request->proc, key, nullptr, 0, lookup_done, request);
    if (rc != PMIX_SUCCESS) lookup_done(rc, nullptr, request);
  }
  (void)lookup->wait(ranks.size(), deadline);
  std::lock_guard<std::mutex> lock(lookup->mutex);
  return lookup->values;
}

// A text that the launcher has told this process about itself or its job; empty if it has not.
std::string told(const std::string& pmix_namespace, pmix_rank_t rank, const char* key) {
  const pmix_proc_t proc = process(pmix_namespace, rank);
  pmix_value_t* value = nullptr;
  if (PMIx_Get(&proc, key, nullptr, 0, &value) != PMIX_SUCCESS) return "";
  const std::string text = text_of(value).value_or("");
  PMIX_VALUE_RELEASE(value);
  return text;
}

// Whether the server has a record of this rank, which then is that of an earlier process. At once:
// without PMIX_IMMEDIATE it would wait for one.
bool published_before(const pmix_proc_t& me) {
  pmix_info_t immediate;
  const bool yes = true;
  PMIX_INFO_LOAD(&immediate, PMIX_IMMEDIATE, &yes, PMIX_BOOL);
  pmix_value_t* value = nullptr;
  if (PMIx_Get(&me, kRecordKey, &immediate, 1, &value) != PMIX_SUCCESS) return false;
  PMIX_VALUE_RELEASE(value);
  return true;
}

// The lowest rank of a node; -1 if it has none.
int first_rank_on(const std::string& pmix_namespace, const std::string& host) {
  pmix_proc_t* procs = nullptr;
  size_t count = 0;
  if (PMIx_Resolve_peers(host.c_str(), pmix_namespace.c_str(), &procs, &count) != PMIX_SUCCESS) {
    return -1;
  }
  int first = -1;
  for (size_t i = 0; i < count; ++i) {
    const int rank = static_cast<int>(procs[i].rank);
    if (first < 0 || rank < first) first = rank;
  }
  PMIX_PROC_FREE(procs, count);
  return first;
}

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<size_t>(size));
  for (int r = 0; r < size; ++r) ranks[static_cast<size_t>(r)] = r;
  return ranks;
}

// PMIx_Init on this thread, but libpmix's own thread takes no signals of the program.
pmix_status_t init_without_signals(pmix_proc_t* me) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pmix_status_t rc = PMIx_Init(me, nullptr, 0);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return rc;
}

}  // namespace

Expected<std::unique_ptr<PmixClient>> PmixClient::connect(bool slurm_step, Fd claim) {
  setenv("PMIX_MCA_gds", "hash", 0);
  const bool first = PMIx_Initialized() == 0;
  pmix_proc_t me;
  pmix_status_t rc = init_without_signals(&me);
  if (rc != PMIX_SUCCESS) {
    Status status = pmix_error(rc, "connecting to the launcher");
    return Status(status.code(), status.text() +
                                     ". If PMIX_NAMESPACE and PMIX_RANK are left over "
                                     "from another launcher, unset them");
  }
  std::unique_ptr<PmixClient> client(new PmixClient);
  client->connected_ = true;
  client->claim_ = std::move(claim);
  client->namespace_ = me.nspace;
  client->rank_ = static_cast<int>(me.rank);
  client->slurm_step_ = slurm_step;
  client->again_ = slurm_step && published_before(me);
  client->meet_first_ = slurm_step && first && !client->again_;
  setenv(kProcessVariable, process_mark(me.nspace, client->rank_, getpid()).c_str(), 1);

  const pmix_proc_t job = process(client->namespace_, PMIX_RANK_WILDCARD);
  pmix_value_t* size = nullptr;
  rc = PMIx_Get(&job, PMIX_JOB_SIZE, nullptr, 0, &size);
  if (rc != PMIX_SUCCESS) return pmix_error(rc, "asking the launcher for the number of ranks");
  const bool number = size->type == PMIX_UINT32;
  if (number) client->size_ = static_cast<int>(size->data.uint32);
  PMIX_VALUE_RELEASE(size);
  if (!number) return error(Code::kSystem, "the launcher's number of ranks is not a number");
  return client;
}

PmixClient::~PmixClient() { release(); }

std::string PmixClient::library_version() { return PMIx_Get_version(); }

Status PmixClient::publish(const std::string& record) const {
  std::string bytes = record;
  pmix_value_t value;
  value.type = PMIX_BYTE_OBJECT;
  value.data.bo.bytes = bytes.data();
  value.data.bo.size = bytes.size();
  pmix_status_t rc = PMIx_Put(PMIX_GLOBAL, kRecordKey, &value);
  if (rc == PMIX_SUCCESS) rc = PMIx_Commit();
  return rc == PMIX_SUCCESS ? ok_status() : pmix_error(rc, "publishing this rank's record");
}

// A request for a record travels from a node only on behalf of a task, when the node's forks are
// over, and it is answered by a task. Rank 0 asks one rank of each other node and only then
// publishes its own record; one rank of each other node waits for that, and so keeps its node out
// of the fence. Two rounds of messages, some milliseconds.
bool PmixClient::all_nodes_have_started(Deadline deadline) const {
  const std::string own = told(namespace_, static_cast<pmix_rank_t>(rank_), PMIX_HOSTNAME);
  std::vector<int> wait_for;
  if (rank_ == 0) {
    const std::string nodes = told(namespace_, PMIX_RANK_WILDCARD, PMIX_NODE_LIST);
    for (const std::string_view node : split(nodes, ',')) {
      const int first = node == own ? 0 : first_rank_on(namespace_, std::string(node));
      if (first > 0) wait_for.push_back(first);
    }
  } else if (first_rank_on(namespace_, own) == rank_) {
    wait_for.push_back(0);
  }
  for (const auto& record : look_up(namespace_, wait_for, kRecordKey, deadline)) {
    if (!record) return false;
  }
  return true;
}

Expected<std::vector<std::string>> PmixClient::exchange(const std::string& record,
                                                        Deadline deadline) {
  const auto meet = [&] { return !meet_first_ || all_nodes_have_started(deadline); };
  bool started = rank_ != 0 || meet();
  Status published = publish(record);
  if (!published.ok()) return published;
  started = started && (rank_ == 0 || meet());
  if (!started) return who_is_missing();

  pmix_status_t met = fence_once(namespace_, deadline);
  // A rank between two connections (its program has just finalised MPI) counts as gone for mpirun.
  while (met == PMIX_ERR_PARTIAL_SUCCESS && !deadline.passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(kComesBackMs));
    met = fence_once(namespace_, deadline);
  }
  if (met == PMIX_ERR_TIMEOUT || met == PMIX_ERR_PARTIAL_SUCCESS) return who_is_missing();
  if (met != PMIX_SUCCESS) return pmix_error(met, "exchanging records with the other ranks");

  const auto found =
      look_up(namespace_, all_ranks(size_), kRecordKey, Deadline::after_ms(kAfterFenceMs));
  std::vector<std::string> records;
  for (int r = 0; r < size_; ++r) {
    const auto& one = found[static_cast<size_t>(r)];
    if (!one) return error(Code::kSystem, "rank %d has come, but its record is not there", r);
    records.push_back(*one);
  }
  return records;
}

Status PmixClient::who_is_missing() const {
  const auto records =
      look_up(namespace_, all_ranks(size_), kRecordKey, Deadline::after_ms(kAnswerMs));
  std::vector<int> missing;
  for (int r = 0; r < size_; ++r) {
    if (!records[static_cast<size_t>(r)]) missing.push_back(r);
  }
  // Rank 0 may have come, and wait for the others before it publishes its record.
  if (meet_first_ && missing.size() > 1 && missing[0] == 0) missing.erase(missing.begin());
  if (missing.empty()) {
    return error(Code::kTimeout,
                 "all %d ranks have started, but the launcher did not bring their records together "
                 "in time. Is one of them stopped, or do its daemons not reach each other?",
                 size_);
  }
  const size_t named = std::min(missing.size(), kMostNamed);
  const size_t others = missing.size() - named;
  missing.resize(named);
  const auto hosts = look_up(namespace_, missing, PMIX_HOSTNAME, Deadline::after_ms(kAnswerMs));
  std::string text;
  for (size_t i = 0; i < named; ++i) {
    text += format("%srank %d", i == 0 ? "" : ", ", missing[i]);
    if (hosts[i]) text += " on " + *hosts[i];
  }
  if (others > 0) text += format(" and %zu more", others);
  return error(Code::kTimeout,
               "%s did not come to hvd_init in time. Look at what they do; if they are only slow, "
               "raise HOROVOD_START_TIMEOUT",
               text.c_str());
}

void PmixClient::release() {
  if (std::exchange(connected_, false)) (void)PMIx_Finalize(nullptr, 0);
}

void PmixClient::leave() {
  connected_ = false;
  // Each PMIx_Init (ours, MPI's, the program's) holds one reference; the bound is for a library
  // that never comes to zero.
  for (int i = 0; i < 100 && PMIx_Initialized() != 0; ++i) (void)PMIx_Finalize(nullptr, 0);
}

}  // namespace hvd
