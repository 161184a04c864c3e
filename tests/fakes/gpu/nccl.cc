// SPDX-License-Identifier: Apache-2.0
//
// Entry points of the fake libnccl.so.2, and groups.
#include <atomic>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "tests/fakes/gpu/comm.h"
#include "tests/fakes/gpu/cuda_abi.h"
#include "tests/fakes/gpu/nccl_abi.h"
#include "tests/fakes/gpu/operation.h"

namespace fake_gpu {
namespace {

// What a thread has put between ncclGroupStart and ncclGroupEnd.
struct Group {
  int depth = 0;
  std::vector<Operation> operations;
  std::vector<std::shared_ptr<Comm>> aborted;
};
thread_local Group group;

struct Registrations {
  std::mutex mutex;
  std::set<std::pair<const void*, std::uintptr_t>> handles;  // with the communicator's
  std::uintptr_t made = 0;
};

Registrations& registrations() {
  static auto* registrations = new Registrations;
  return *registrations;
}

// As in NCCL: what the caller did not set is as if the communicator were made without a
// configuration.
bool blocking_of(const Config* config, bool otherwise) {
  if (config == nullptr || config->blocking == kUndefined) return otherwise;
  return config->blocking != 0;
}

bool is_initialized(const Config* config) {
  if (config == nullptr || (config->magic == kConfigMagic && config->size >= sizeof(Config))) {
    return true;
  }
  Comm::set_last_error("ncclConfig_t is not initialised with NCCL_CONFIG_INITIALIZER");
  return false;
}

int submit(Kind kind, const void* in, void* out, size_t count, int type, int op, int root,
           CommHandle handle, StreamHandle stream) {
  Operation operation{
      kind,   static_cast<const char*>(in), static_cast<char*>(out), count, type, op, root, nullptr,
      nullptr};
  const char* name = operation.name();
  if (handle == nullptr) return kNcclInvalidArgument;
  operation.comm = Comm::of(name, handle);
  if (const int code = operation.comm->enter(name)) return code;
  operation.stream = engine().stream(name, stream, operation.comm->device());
  engine().look(operation.stream, name);
  if (const int code = check(operation)) return code;
  if (operation.pairs() && group.depth == 0 && root == operation.comm->rank()) {
    violation("mismatch", "%s with itself outside of a group never ends", name);
  }
  if (group.depth == 0) return launch({std::move(operation)});
  group.operations.push_back(std::move(operation));
  return kNcclSuccess;
}

int init(CommHandle* handle, int ranks, const UniqueId& id, int rank, const Config* config) {
  *handle = nullptr;
  if (!is_initialized(config)) return kNcclInvalidArgument;
  std::shared_ptr<Comm> comm;
  const std::string name(id.internal, strnlen(id.internal, sizeof id.internal));
  const int code = Comm::create(name, ranks, rank, blocking_of(config, true), &comm);
  if (comm) *handle = comm->handle();
  return code;
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = settings().nccl_version;
  return kNcclSuccess;
}

int ncclGetUniqueId(UniqueId* id) {
  if (const auto code = fault("nccl-id")) return static_cast<int>(*code);
  std::string name;
  if (!Segment::make_root(&name)) {
    Comm::set_last_error("no file can be made in " + settings().directory);
    return kNcclSystemError;
  }
  *id = {};
  name.copy(id->internal, sizeof id->internal - 1);
  return kNcclSuccess;
}

int ncclCommInitRankConfig(CommHandle* comm, int ranks, UniqueId id, int rank, Config* config) {
  return init(comm, ranks, id, rank, config);
}

int ncclCommInitRank(CommHandle* comm, int ranks, UniqueId id, int rank) {
  return init(comm, ranks, id, rank, nullptr);
}

// Every id is a root; here the first one does.
int ncclCommInitRankScalable(CommHandle* comm, int ranks, int rank, int ids, UniqueId* id,
                             Config* config) {
  return ids < 1 ? kNcclInvalidArgument : init(comm, ranks, id[0], rank, config);
}

int ncclCommSplit(CommHandle handle, int color, int key, CommHandle* result, Config* config) {
  *result = nullptr;
  if (!is_initialized(config) || color < kNoColor) return kNcclInvalidArgument;
  const auto parent = Comm::of("ncclCommSplit", handle);
  if (const int code = parent->enter("ncclCommSplit")) return code;
  std::shared_ptr<Comm> child;
  const int code = parent->split(color, key, blocking_of(config, parent->blocking()), &child);
  if (child) *result = child->handle();
  return code;
}

int ncclCommFinalize(CommHandle comm) { return Comm::of("ncclCommFinalize", comm)->finalize(); }

int ncclCommDestroy(CommHandle comm) {
  Comm::destroy(Comm::of("ncclCommDestroy", comm));
  return kNcclSuccess;
}

int ncclCommAbort(CommHandle handle) {
  auto comm = Comm::of("ncclCommAbort", handle);
  if (group.depth > 0) {
    group.aborted.push_back(std::move(comm));
  } else {
    Comm::abort({comm});
  }
  return kNcclSuccess;
}

int ncclCommGetAsyncError(CommHandle comm, int* error) {
  *error = Comm::of("ncclCommGetAsyncError", comm)->poll();
  return kNcclSuccess;
}

int ncclCommCount(const CommHandle handle, int* count) {
  const auto comm = Comm::of("ncclCommCount", handle);
  if (const int code = comm->enter("ncclCommCount")) return code;
  *count = comm->ranks();
  return kNcclSuccess;
}

int ncclCommCuDevice(const CommHandle comm, int* device) {
  *device = Comm::of("ncclCommCuDevice", comm)->device();
  return kNcclSuccess;
}

int ncclCommUserRank(const CommHandle handle, int* rank) {
  const auto comm = Comm::of("ncclCommUserRank", handle);
  if (const int code = comm->enter("ncclCommUserRank")) return code;
  *rank = comm->rank();
  return kNcclSuccess;
}

int ncclMemAlloc(void** result, size_t bytes) {
  if (const auto code = fault("ncclMemAlloc")) return static_cast<int>(*code);
  Address address = 0;
  if (cuMemAlloc_v2(&address, bytes) != kCudaSuccess) return kNcclUnhandledCudaError;
  *result = reinterpret_cast<void*>(address);
  return kNcclSuccess;
}

int ncclMemFree(void* memory) {
  const auto address = reinterpret_cast<Address>(memory);
  return cuMemFree_v2(address) == kCudaSuccess ? kNcclSuccess : kNcclUnhandledCudaError;
}

int ncclCommRegister(const CommHandle handle, void* at, size_t bytes, void** registration) {
  const auto comm = Comm::of("ncclCommRegister", handle);
  if (const int code = comm->enter("ncclCommRegister")) return code;
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  memory().require("ncclCommRegister", "registers", address, bytes);
  if (!memory().is_device_range(address)) return kNcclInvalidArgument;
  Registrations& all = registrations();
  const std::lock_guard lock(all.mutex);
  all.handles.emplace(handle, ++all.made);
  *registration = reinterpret_cast<void*>(all.made);
  return kNcclSuccess;
}

int ncclCommDeregister(const CommHandle handle, void* registration) {
  Comm::of("ncclCommDeregister", handle);
  Registrations& all = registrations();
  const std::lock_guard lock(all.mutex);
  return all.handles.erase({handle, reinterpret_cast<std::uintptr_t>(registration)}) == 1
             ? kNcclSuccess
             : kNcclInvalidArgument;
}

int ncclAllReduce(const void* in, void* out, size_t count, int type, int op, CommHandle comm,
                  StreamHandle stream) {
  return submit(Kind::kAllReduce, in, out, count, type, op, 0, comm, stream);
}

int ncclReduce(const void* in, void* out, size_t count, int type, int op, int root, CommHandle comm,
               StreamHandle stream) {
  return submit(Kind::kReduce, in, out, count, type, op, root, comm, stream);
}

int ncclBroadcast(const void* in, void* out, size_t count, int type, int root, CommHandle comm,
                  StreamHandle stream) {
  return submit(Kind::kBroadcast, in, out, count, type, 0, root, comm, stream);
}

int ncclAllGather(const void* in, void* out, size_t count, int type, CommHandle comm,
                  StreamHandle stream) {
  return submit(Kind::kAllGather, in, out, count, type, 0, 0, comm, stream);
}

int ncclReduceScatter(const void* in, void* out, size_t count, int type, int op, CommHandle comm,
                      StreamHandle stream) {
  return submit(Kind::kReduceScatter, in, out, count, type, op, 0, comm, stream);
}

int ncclSend(const void* in, size_t count, int type, int peer, CommHandle comm,
             StreamHandle stream) {
  return submit(Kind::kSend, in, nullptr, count, type, 0, peer, comm, stream);
}

int ncclRecv(void* out, size_t count, int type, int peer, CommHandle comm, StreamHandle stream) {
  return submit(Kind::kRecv, nullptr, out, count, type, 0, peer, comm, stream);
}

int ncclGroupStart() {
  ++group.depth;
  return kNcclSuccess;
}

int ncclGroupEnd() {
  if (group.depth == 0) return kNcclInvalidUsage;
  if (--group.depth > 0) return kNcclSuccess;
  const auto aborted = std::exchange(group.aborted, {});
  const auto operations = std::exchange(group.operations, {});
  if (!aborted.empty()) Comm::abort(aborted);
  return operations.empty() || !aborted.empty() ? kNcclSuccess : launch(operations);
}

const char* ncclGetErrorString(int result) {
  static constexpr const char* kTexts[] = {"no error",
                                           "unhandled cuda error",
                                           "unhandled system error",
                                           "internal error",
                                           "invalid argument",
                                           "invalid usage",
                                           "remote process exited or there was a network error",
                                           "NCCL operation in progress"};
  return result >= 0 && result <= kNcclInProgress ? kTexts[result] : "unknown result code";
}

const char* ncclGetLastError(CommHandle) {
  thread_local std::string text;
  text = Comm::last_error();
  return text.c_str();
}

}  // extern "C"
}  // namespace fake_gpu
