// SPDX-License-Identifier: Apache-2.0
//
// The C ABI: checks arguments, translates between C and the runtime, and keeps exceptions inside.
// Holds the one global of the library, the pointer to the runtime; it is built by the first
// hvd_init, survives hvd_shutdown (the next hvd_init continues with it), and is never destroyed:
// the end of the process is at_exit()'s.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "config.h"
#include "libhvd/base/fd.h"
#include "libhvd/hvd.h"
#include "libhvd/requests.h"
#include "libhvd/runtime.h"

namespace {

using namespace hvd;

std::atomic<Runtime*> the_runtime{nullptr};
std::atomic<bool> is_rank{false};  // this process has begun to meet the other ranks
std::atomic<bool> forked{false};   // this process is the child of a rank
std::mutex init_mutex;

std::string& last_error() {
  thread_local std::string text;
  return text;
}

int result(const Status& status) {
  last_error() = status.text();
  return static_cast<int>(status.code());
}

// Runs the body of an API function: no exception leaves the library.
template <typename Body>
int guarded(Body body) noexcept {
  try {
    return result(body());
  } catch (const std::bad_alloc&) {
    last_error() = "out of memory";
    return HVD_ERR_SYSTEM;
  } catch (const std::exception& e) {
    last_error() = e.what();
    return HVD_ERR_INTERNAL;
  }
}

Status not_initialized() {
  if (forked.load()) {
    return Status(Code::kState,
                  "this process was forked from a rank and is none itself; use spawn instead of "
                  "fork, or call the operation in the parent");
  }
  return Status(Code::kState, "hvd_init has not been called, or hvd_shutdown has");
}

// The runtime between init and shutdown, else null.
Runtime* open_runtime() {
  Runtime* runtime = forked.load() ? nullptr : the_runtime.load();
  return runtime != nullptr && runtime->engine().open() ? runtime : nullptr;
}

void before_exit(int status, void*) {
  Runtime* runtime = forked.load() ? nullptr : the_runtime.load();
  if (runtime != nullptr) runtime->at_exit(status);
}

void in_forked_child() {
  if (!is_rank.load()) return;
  forked.store(true);
  close_all_fds_after_fork();
}

const char* environment(const char* name) { return getenv(name); }

Status no_such_set(int32_t id) { return error(Code::kInvalid, "there is no process set %d", id); }

RequestTensors one(const hvd_tensor* input, void* const* output) {
  RequestTensors tensors;
  tensors.inputs = input;
  tensors.outputs = output;
  return tensors;
}

RequestTensors group(int32_t count, const hvd_tensor* inputs, void* const* outputs) {
  RequestTensors tensors;
  tensors.inputs = inputs;
  tensors.outputs = outputs;
  tensors.count = count;
  tensors.grouped = true;
  return tensors;
}

template <typename Fn>
int ask(Fn fn) {
  if (Runtime* runtime = open_runtime()) return fn(*runtime);
  last_error() = not_initialized().text();
  return -1;
}

// Submits what `make` makes of the set's team.
template <typename Make>
int submit(const char* name, int32_t process_set, hvd_handle* handle, Make make) {
  return guarded([&]() -> Status {
    if (handle == nullptr) return error(Code::kInvalid, "the handle is NULL");
    Runtime* runtime = open_runtime();
    if (runtime == nullptr) return not_initialized();
    const std::shared_ptr<const Team> team = runtime->engine().sets().find(process_set);
    if (team == nullptr) return no_such_set(process_set);
    if (team->index < 0) {
      return error(Code::kInvalid, "this rank, %d, is no member of process set %d", runtime->rank(),
                   process_set);
    }
    RequestScope scope;
    scope.name = name;
    scope.set = process_set;
    scope.team = team.get();
    Expected<OperationPtr> operation = make(scope);
    if (!operation.ok()) return operation.status();
    Expected<int64_t> submitted = runtime->engine().submit(std::move(*operation));
    if (!submitted.ok()) return submitted.status();
    *handle = *submitted;
    return ok_status();
  });
}

// A process set's team; null (and the text) if there is none.
std::shared_ptr<const Team> team_of(int32_t id) {
  Runtime* runtime = open_runtime();
  if (runtime == nullptr) {
    last_error() = not_initialized().text();
    return nullptr;
  }
  std::shared_ptr<const Team> team = runtime->engine().sets().find(id);
  if (team == nullptr) last_error() = no_such_set(id).text();
  return team;
}

template <typename From>
int copy_numbers(const std::vector<From>& from, int32_t* to, int32_t capacity) {
  for (int32_t i = 0; i < capacity && i < static_cast<int32_t>(from.size()); ++i) {
    to[i] = static_cast<int32_t>(from[static_cast<size_t>(i)]);
  }
  return static_cast<int>(from.size());
}

// The operation of a handle that is done; an error if there is none.
Expected<OperationPtr> finished(hvd_handle handle) {
  Runtime* runtime = forked.load() ? nullptr : the_runtime.load();
  if (runtime == nullptr) return not_initialized();
  OperationPtr operation = runtime->engine().find(handle);
  if (operation == nullptr) {
    return error(Code::kInvalid, "there is no handle %lld", static_cast<long long>(handle));
  }
  if (!operation->done.load()) {
    return error(Code::kState, "%s is not done; wait for it first", operation->text().c_str());
  }
  return operation;
}

}  // namespace

extern "C" {

const char* hvd_version(void) { return PACKAGE_VERSION; }

int hvd_init(void) {
  return guarded([]() -> Status {
    // Before the lock, which a child has for ever if another thread of its parent was here.
    if (forked.load()) return not_initialized();
    std::lock_guard<std::mutex> lock(init_mutex);
    if (Runtime* runtime = the_runtime.load()) {
      return runtime->engine().open() ? ok_status() : runtime->reopen();
    }
    static bool exchanged = false;
    if (exchanged) {
      return error(Code::kState,
                   "hvd_init has failed after the ranks had met, which happens once per process; "
                   "end this process and start the job again");
    }
    static const int watching = pthread_atfork(nullptr, nullptr, in_forked_child);
    if (watching != 0) return errno_error(watching, "registering what a forked child has to do");
    is_rank.store(true);
    Expected<std::unique_ptr<Runtime>> runtime = Runtime::start(environment, &exchanged);
    if (!runtime.ok()) {
      is_rank.store(exchanged);
      return runtime.status();
    }
    the_runtime.store(runtime->release());
    on_exit(before_exit, nullptr);
    return ok_status();
  });
}

int hvd_shutdown(void) {
  return guarded([]() -> Status {
    std::lock_guard<std::mutex> lock(init_mutex);
    Runtime* runtime = open_runtime();
    return runtime == nullptr ? ok_status() : runtime->shutdown();
  });
}

int hvd_is_initialized(void) { return open_runtime() != nullptr ? 1 : 0; }

int hvd_rank(void) {
  return ask([](Runtime& r) { return r.rank(); });
}
int hvd_size(void) {
  return ask([](Runtime& r) { return r.layout().size; });
}
int hvd_local_rank(void) {
  return ask([](Runtime& r) { return r.layout().local_rank[static_cast<size_t>(r.rank())]; });
}
int hvd_local_size(void) {
  return ask([](Runtime& r) { return r.layout().local_size(r.rank()); });
}
int hvd_cross_rank(void) {
  return ask([](Runtime& r) { return r.layout().cross_rank(r.rank()); });
}
int hvd_cross_size(void) {
  return ask([](Runtime& r) { return r.layout().cross_size(r.rank()); });
}
int hvd_is_homogeneous(void) {
  return ask([](Runtime& r) { return r.layout().homogeneous() ? 1 : 0; });
}

int hvd_add_process_set_async(const int32_t* ranks, int32_t count, int32_t* id,
                              hvd_handle* handle) {
  return submit(nullptr, HVD_GLOBAL, handle, [&](const RequestScope& scope) {
    return request_add_set(scope, ranks, count, id);
  });
}

int hvd_remove_process_set_async(int32_t id, hvd_handle* handle) {
  return submit(nullptr, HVD_GLOBAL, handle,
                [&](const RequestScope& scope) { return request_remove_set(scope, id); });
}

int hvd_process_sets(int32_t* ids, int32_t capacity) {
  return ask([&](Runtime& r) { return copy_numbers(r.engine().sets().ids(), ids, capacity); });
}

int hvd_process_set_ranks(int32_t id, int32_t* ranks, int32_t capacity) {
  const std::shared_ptr<const Team> team = team_of(id);
  return team == nullptr ? -1 : copy_numbers(team->ranks, ranks, capacity);
}

int hvd_process_set_rank(int32_t id) {
  const std::shared_ptr<const Team> team = team_of(id);
  if (team != nullptr && team->index < 0) {
    last_error() = format("this rank is no member of process set %d", id);
  }
  return team == nullptr ? -1 : team->index;
}

int hvd_process_set_size(int32_t id) {
  const std::shared_ptr<const Team> team = team_of(id);
  return team == nullptr ? -1 : team->size;
}

int hvd_allreduce_async(const char* name, const hvd_tensor* input, void* output, int op,
                        double prescale, double postscale, int32_t process_set,
                        hvd_handle* handle) {
  return submit(name, process_set, handle, [&](const RequestScope& scope) {
    return request_allreduce(scope, one(input, &output), {op, prescale, postscale});
  });
}

int hvd_grouped_allreduce_async(const char* name, int32_t count, const hvd_tensor* inputs,
                                void* const* outputs, int op, double prescale, double postscale,
                                int32_t process_set, hvd_handle* handle) {
  return submit(name, process_set, handle, [&](const RequestScope& scope) {
    return request_allreduce(scope, group(count, inputs, outputs), {op, prescale, postscale});
  });
}

int hvd_allgather_async(const char* name, const hvd_tensor* input, int32_t process_set,
                        hvd_handle* handle) {
  return submit(name, process_set, handle, [&](const RequestScope& scope) {
    return request_allgather(scope, one(input, nullptr));
  });
}

int hvd_grouped_allgather_async(const char* name, int32_t count, const hvd_tensor* inputs,
                                int32_t process_set, hvd_handle* handle) {
  return submit(name, process_set, handle, [&](const RequestScope& scope) {
    return request_allgather(scope, group(count, inputs, nullptr));
  });
}

int hvd_broadcast_async(const char* name, const hvd_tensor* input, void* output, int root,
                        int32_t process_set, hvd_handle* handle) {
  return submit(name, process_set, handle, [&](const RequestScope& scope) {
    return request_broadcast(scope, input, output, root);
  });
}

int hvd_alltoall_async(const char* name, const hvd_tensor* input, const int64_t* splits,
                       int64_t* received, int32_t process_set, hvd_handle* handle) {
  return submit(name, process_set, handle, [&](const RequestScope& scope) {
    return request_alltoall(scope, input, splits, received);
  });
}

int hvd_reducescatter_async(const char* name, const hvd_tensor* input, void* output, int op,
                            double prescale, double postscale, int32_t process_set,
                            hvd_handle* handle) {
  return submit(name, process_set, handle, [&](const RequestScope& scope) {
    return request_reducescatter(scope, one(input, &output), {op, prescale, postscale});
  });
}

int hvd_grouped_reducescatter_async(const char* name, int32_t count, const hvd_tensor* inputs,
                                    void* const* outputs, int op, double prescale, double postscale,
                                    int32_t process_set, hvd_handle* handle) {
  return submit(name, process_set, handle, [&](const RequestScope& scope) {
    return request_reducescatter(scope, group(count, inputs, outputs), {op, prescale, postscale});
  });
}

int64_t hvd_reducescatter_rows(int64_t rows, int32_t process_set) {
  const std::shared_ptr<const Team> team = team_of(process_set);
  if (team == nullptr || team->index < 0 || rows < 0) return -1;
  return static_cast<int64_t>(rows_of(static_cast<size_t>(rows), team->size, team->index).size());
}

int hvd_barrier_async(int32_t process_set, hvd_handle* handle) {
  return submit(nullptr, process_set, handle, request_barrier);
}

int hvd_join_async(int32_t, int32_t* last, hvd_handle* handle) {
  return submit(nullptr, HVD_GLOBAL, handle,
                [&](const RequestScope& scope) { return request_join(scope, last); });
}

// The greatest of what the ranks think.
int hvd_should_stop_async(int32_t* stop, hvd_handle* handle) {
  return submit("horovod.should_stop", HVD_GLOBAL, handle,
                [&](const RequestScope& scope) -> Expected<OperationPtr> {
                  if (stop == nullptr) return error(Code::kInvalid, "stop is NULL");
                  const Expected<bool> reason = the_runtime.load()->has_reason_to_stop(environment);
                  if (!reason.ok()) return reason.status();
                  *stop = *reason ? 1 : 0;
                  const hvd_tensor tensor = {stop, nullptr, 0, HVD_INT32, HVD_HOST};
                  void* output = stop;
                  return request_allreduce(scope, one(&tensor, &output), {HVD_MAX, 1, 1});
                });
}

int hvd_poll(hvd_handle handle) {
  Runtime* runtime = forked.load() ? nullptr : the_runtime.load();
  const OperationPtr operation = runtime == nullptr ? nullptr : runtime->engine().find(handle);
  if (operation == nullptr) {
    last_error() = format("there is no handle %lld", static_cast<long long>(handle));
    return -1;
  }
  return operation->done.load() ? 1 : 0;
}

int hvd_wait(hvd_handle handle, int64_t timeout_ms) {
  return guarded([&]() -> Status {
    Runtime* runtime = forked.load() ? nullptr : the_runtime.load();
    if (runtime == nullptr) return not_initialized();
    return runtime->engine().wait(handle, timeout_ms);
  });
}

int hvd_result(hvd_handle handle, int32_t index, hvd_tensor* tensor) {
  return guarded([&]() -> Status {
    if (tensor == nullptr) return error(Code::kInvalid, "the tensor is NULL");
    const Expected<OperationPtr> found = finished(handle);
    if (!found.ok()) return found.status();
    const Operation& operation = **found;
    if (!operation.status.ok()) return operation.status;
    const size_t results = operation.result_shapes.size();
    if (index < 0 || static_cast<size_t>(index) >= results) {
      return error(Code::kInvalid, "%s has %zu results that belong to it, and none of number %d",
                   operation.text().c_str(), results, index);
    }
    const size_t i = static_cast<size_t>(index);
    tensor->data = operation.ragged[i]->data.get();
    tensor->shape = operation.result_shapes[i].data();
    tensor->ndim = static_cast<int32_t>(operation.result_shapes[i].size());
    tensor->type = static_cast<int32_t>(operation.description.tensors[i].type);
    tensor->device = HVD_HOST;
    return ok_status();
  });
}

int hvd_release(hvd_handle handle) {
  return guarded([&]() -> Status {
    const Expected<OperationPtr> found = finished(handle);
    if (!found.ok()) return found.status();
    the_runtime.load()->engine().release(handle);
    return ok_status();
  });
}

const char* hvd_error(hvd_handle handle) {
  Runtime* runtime = forked.load() ? nullptr : the_runtime.load();
  const OperationPtr operation = runtime == nullptr ? nullptr : runtime->engine().find(handle);
  if (operation == nullptr) return nullptr;
  return operation->done.load() ? operation->status.text().c_str() : "";
}

int hvd_start_timeline(const char* path, int mark_cycles) {
  return guarded([&]() -> Status {
    if (path == nullptr || *path == '\0') return error(Code::kInvalid, "the path is empty");
    Runtime* runtime = open_runtime();
    if (runtime == nullptr) return not_initialized();
    return runtime->start_timeline(path, mark_cycles != 0);
  });
}

int hvd_stop_timeline(void) {
  return guarded([]() -> Status {
    Runtime* runtime = forked.load() ? nullptr : the_runtime.load();
    if (runtime != nullptr) runtime->stop_timeline();
    return ok_status();
  });
}

const char* hvd_last_error(void) { return last_error().c_str(); }

}  // extern "C"
