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
#include <cmath>
#include <exception>
#include <mutex>
#include <new>
#include <string>

#include "config.h"
#include "libhvd/base/fd.h"
#include "libhvd/hvd.h"
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

template <typename Fn>
int ask(Fn fn) {
  if (Runtime* runtime = open_runtime()) return fn(*runtime);
  last_error() = not_initialized().text();
  return -1;
}

// Reads a tensor; the element count is in segment.elements.
Status read_tensor(const hvd_tensor* tensor, Description* description, Segment* segment) {
  if (tensor == nullptr) return error(Code::kInvalid, "the tensor is NULL");
  if (!is_type(tensor->type)) {
    return error(Code::kInvalid,
                 "type %d is none of float32, float64, int32, int64 (HVD_FLOAT32, ...)",
                 tensor->type);
  }
  if (tensor->ndim < 0 || tensor->ndim > HVD_MAX_DIMS) {
    return error(Code::kInvalid, "ndim is %d, not 0 to %d", tensor->ndim, HVD_MAX_DIMS);
  }
  if (tensor->ndim > 0 && tensor->shape == nullptr) {
    return error(Code::kInvalid, "the shape is NULL and ndim is %d", tensor->ndim);
  }
  if (tensor->device < HVD_HOST) {
    return error(Code::kInvalid, "device is %d, neither HVD_HOST nor HVD_GPU(i)", tensor->device);
  }
  if (tensor->device != HVD_HOST) {
    return error(Code::kInvalid,
                 "the tensor is on GPU %d, and this release reads host memory only; copy it to "
                 "host memory and submit that",
                 tensor->device - HVD_GPU(0));
  }
  description->type = static_cast<DataType>(tensor->type);
  int64_t elements = 1;
  for (int i = 0; i < tensor->ndim; ++i) {
    const int64_t extent = tensor->shape[i];
    if (extent < 0) {
      return error(Code::kInvalid, "shape[%d] is %lld, less than 0", i,
                   static_cast<long long>(extent));
    }
    if (extent == 0) elements = 0;
  }
  for (int i = 0; i < tensor->ndim; ++i) {
    const int64_t extent = tensor->shape[i];
    if (__builtin_mul_overflow(elements, extent, &elements) || elements > (INT64_MAX >> 4)) {
      return error(Code::kInvalid, "the tensor has more elements than memory has bytes");
    }
    description->shape.push_back(extent);
  }
  if (elements > 0 && tensor->data == nullptr) {
    return error(Code::kInvalid, "the tensor's data is NULL and it has %lld elements",
                 static_cast<long long>(elements));
  }
  segment->input = static_cast<const char*>(tensor->data);
  segment->output = static_cast<char*>(tensor->data);
  segment->elements = static_cast<size_t>(elements);
  return ok_status();
}

Status check_output(const Description& description, const Segment& segment, void* output) {
  if (segment.elements == 0) return ok_status();
  if (output == nullptr) return error(Code::kInvalid, "the output is NULL");
  const char* in = segment.input;
  const char* out = static_cast<const char*>(output);
  const size_t bytes = segment.elements * size_of(description.type);
  if (in != out && in < out + bytes && out < in + bytes) {
    return error(Code::kInvalid,
                 "input and output overlap without being the same; give a separate output, or the "
                 "input itself");
  }
  return ok_status();
}

Status submit(const char* name, Description description, Segment segment, hvd_handle* handle) {
  if (handle == nullptr) return error(Code::kInvalid, "the handle is NULL");
  Runtime* runtime = open_runtime();
  if (runtime == nullptr) return not_initialized();
  const std::string text = name == nullptr ? "" : name;
  if (text.size() > kMaxName) {
    return error(Code::kInvalid, "the name has %zu bytes; %zu are the most", text.size(), kMaxName);
  }
  Expected<int64_t> submitted =
      runtime->engine().submit(text, std::move(description), std::move(segment));
  if (!submitted.ok()) return submitted.status();
  *handle = *submitted;
  return ok_status();
}

// A synchronous operation from an asynchronous one.
template <typename Submit>
int complete(Submit submit) {
  hvd_handle handle = 0;
  const int rc = submit(&handle);
  return rc == HVD_OK ? hvd_wait(handle, -1) : rc;
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
    Expected<std::unique_ptr<Runtime>> runtime = Runtime::start(
        [](const char* name) { return static_cast<const char*>(getenv(name)); }, &exchanged);
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

int hvd_allreduce_async(const char* name, const hvd_tensor* input, void* output, int op,
                        double prescale, double postscale, hvd_handle* handle) {
  return guarded([&]() -> Status {
    Description d;
    Segment s;
    d.kind = OpKind::kAllreduce;
    if (Status bad = read_tensor(input, &d, &s); !bad.ok()) return bad;
    if (Status bad = check_output(d, s, output); !bad.ok()) return bad;
    if (op != HVD_AVERAGE && op != HVD_SUM) {
      return error(Code::kInvalid, "op is %d, neither HVD_AVERAGE nor HVD_SUM", op);
    }
    if (!std::isfinite(prescale) || !std::isfinite(postscale)) {
      return error(Code::kInvalid, "the scale factors are %g and %g; finite numbers are needed",
                   prescale, postscale);
    }
    d.op = static_cast<ReduceOp>(op);
    d.prescale = prescale;
    d.postscale = postscale;
    s.output = static_cast<char*>(output);
    s.before.multiply = prescale;
    s.after.multiply = postscale;
    if (d.op == ReduceOp::kAverage) {
      Runtime* runtime = open_runtime();
      if (runtime == nullptr) return not_initialized();
      s.after.divide = runtime->layout().size;
    }
    return submit(name, std::move(d), s, handle);
  });
}

int hvd_broadcast_async(const char* name, const hvd_tensor* tensor, int root, hvd_handle* handle) {
  return guarded([&]() -> Status {
    Description d;
    Segment s;
    d.kind = OpKind::kBroadcast;
    if (Status bad = read_tensor(tensor, &d, &s); !bad.ok()) return bad;
    Runtime* runtime = open_runtime();
    if (runtime == nullptr) return not_initialized();
    if (root < 0 || root >= runtime->layout().size) {
      return error(Code::kInvalid, "the root is %d, not a rank from 0 to %d", root,
                   runtime->layout().size - 1);
    }
    d.root = root;
    return submit(name, std::move(d), s, handle);
  });
}

int hvd_barrier_async(hvd_handle* handle) {
  return guarded([&]() -> Status {
    Description d;
    d.kind = OpKind::kBarrier;
    return submit(nullptr, std::move(d), Segment(), handle);
  });
}

int hvd_allreduce(const char* name, const hvd_tensor* input, void* output, int op, double prescale,
                  double postscale) {
  return complete([&](hvd_handle* handle) {
    return hvd_allreduce_async(name, input, output, op, prescale, postscale, handle);
  });
}

int hvd_broadcast(const char* name, const hvd_tensor* tensor, int root) {
  return complete(
      [&](hvd_handle* handle) { return hvd_broadcast_async(name, tensor, root, handle); });
}

int hvd_barrier(void) {
  return complete([](hvd_handle* handle) { return hvd_barrier_async(handle); });
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

const char* hvd_error(hvd_handle handle) {
  Runtime* runtime = forked.load() ? nullptr : the_runtime.load();
  const OperationPtr operation = runtime == nullptr ? nullptr : runtime->engine().find(handle);
  if (operation == nullptr) return nullptr;
  return operation->done.load() ? operation->status.text().c_str() : "";
}

const char* hvd_last_error(void) { return last_error().c_str(); }

}  // extern "C"
