// SPDX-License-Identifier: Apache-2.0
//
// The synchronous half of the C ABI: each function submits and waits, by the other half alone.
#include "libhvd/hvd.h"

namespace {

// A synchronous operation from an asynchronous one.
template <typename Submit>
int complete(Submit submit) {
  hvd_handle handle = 0;
  const int rc = submit(&handle);
  return rc == HVD_OK ? hvd_wait(handle, -1) : rc;
}

// The same, whose result the caller gets with the handle.
template <typename Submit>
int complete_with(hvd_handle* result, Submit submit) {
  hvd_handle handle = 0;
  int rc = submit(result == nullptr ? nullptr : &handle);
  if (rc == HVD_OK) rc = hvd_wait(handle, -1);
  if (rc == HVD_OK) *result = handle;
  return rc;
}

}  // namespace

extern "C" {

int hvd_add_process_set(const int32_t* ranks, int32_t count, int32_t* id) {
  return complete(
      [&](hvd_handle* handle) { return hvd_add_process_set_async(ranks, count, id, handle); });
}

int hvd_remove_process_set(int32_t id) {
  return complete([&](hvd_handle* handle) { return hvd_remove_process_set_async(id, handle); });
}

int hvd_allreduce(const char* name, const hvd_tensor* input, void* output, int op, double prescale,
                  double postscale, int32_t process_set) {
  return complete([&](hvd_handle* handle) {
    return hvd_allreduce_async(name, input, output, op, prescale, postscale, process_set, handle);
  });
}

int hvd_grouped_allreduce(const char* name, int32_t count, const hvd_tensor* inputs,
                          void* const* outputs, int op, double prescale, double postscale,
                          int32_t process_set) {
  return complete([&](hvd_handle* handle) {
    return hvd_grouped_allreduce_async(name, count, inputs, outputs, op, prescale, postscale,
                                       process_set, handle);
  });
}

int hvd_allgather(const char* name, const hvd_tensor* input, int32_t process_set,
                  hvd_handle* result) {
  return complete_with(result, [&](hvd_handle* handle) {
    return hvd_allgather_async(name, input, process_set, handle);
  });
}

int hvd_grouped_allgather(const char* name, int32_t count, const hvd_tensor* inputs,
                          int32_t process_set, hvd_handle* result) {
  return complete_with(result, [&](hvd_handle* handle) {
    return hvd_grouped_allgather_async(name, count, inputs, process_set, handle);
  });
}

int hvd_broadcast(const char* name, const hvd_tensor* input, void* output, int root,
                  int32_t process_set) {
  return complete([&](hvd_handle* handle) {
    return hvd_broadcast_async(name, input, output, root, process_set, handle);
  });
}

int hvd_alltoall(const char* name, const hvd_tensor* input, const int64_t* splits,
                 int64_t* received, int32_t process_set, hvd_handle* result) {
  return complete_with(result, [&](hvd_handle* handle) {
    return hvd_alltoall_async(name, input, splits, received, process_set, handle);
  });
}

int hvd_reducescatter(const char* name, const hvd_tensor* input, void* output, int op,
                      double prescale, double postscale, int32_t process_set) {
  return complete([&](hvd_handle* handle) {
    return hvd_reducescatter_async(name, input, output, op, prescale, postscale, process_set,
                                   handle);
  });
}

int hvd_grouped_reducescatter(const char* name, int32_t count, const hvd_tensor* inputs,
                              void* const* outputs, int op, double prescale, double postscale,
                              int32_t process_set) {
  return complete([&](hvd_handle* handle) {
    return hvd_grouped_reducescatter_async(name, count, inputs, outputs, op, prescale, postscale,
                                           process_set, handle);
  });
}

int hvd_barrier(int32_t process_set) {
  return complete([&](hvd_handle* handle) { return hvd_barrier_async(process_set, handle); });
}

int hvd_join(int32_t device, int32_t* last) {
  return complete([&](hvd_handle* handle) { return hvd_join_async(device, last, handle); });
}

int hvd_should_stop(int32_t* stop) {
  return complete([&](hvd_handle* handle) { return hvd_should_stop_async(stop, handle); });
}

}  // extern "C"
