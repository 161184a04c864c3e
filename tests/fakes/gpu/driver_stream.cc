// SPDX-License-Identifier: Apache-2.0
//
// Entry points for streams and events.
#include "tests/fakes/gpu/cuda_abi.h"
#include "tests/fakes/gpu/devices.h"
#include "tests/fakes/gpu/engine.h"

namespace fake_gpu {
namespace {

std::shared_ptr<Stream> stream_of(const char* what, Handle stream) {
  return engine().stream(what, stream, current_device());
}

// After the stream's device has run, its errors come out of every call.
int code_of(const Stream& stream) { return engine().sticky(stream.device); }

}  // namespace

extern "C" {

int cuStreamCreateWithPriority(Handle* stream, unsigned flags, int priority) {
  FAKE_GPU_BEGIN("cuStreamCreate");
  *stream = engine().create_stream(current_device(), (flags & kStreamNonBlocking) == 0, priority);
  return kCudaSuccess;
}

int cuStreamCreate(Handle* stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

// Also on a device that is broken: what was created must be given back.
int cuStreamDestroy_v2(Handle stream) {
  if (!engine().is_open()) return kCudaNotInitialized;
  if (stream == nullptr) return kCudaInvalidHandle;
  engine().destroy_stream(stream);
  return kCudaSuccess;
}

int cuStreamSynchronize(Handle handle) {
  FAKE_GPU_BEGIN("cuStreamSynchronize");
  const auto stream = stream_of("cuStreamSynchronize", handle);
  engine().look(stream, "cuStreamSynchronize");
  engine().wait(engine().last(stream), "cuStreamSynchronize");
  return code_of(*stream);
}

int cuStreamQuery(Handle handle) {
  FAKE_GPU_BEGIN("cuStreamQuery");
  const auto stream = stream_of("cuStreamQuery", handle);
  engine().look(stream, "cuStreamQuery");
  if (!engine().reached(engine().last(stream))) return kCudaNotReady;
  return code_of(*stream);
}

int cuStreamGetPriority(Handle handle, int* priority) {
  FAKE_GPU_BEGIN("cuStreamGetPriority");
  *priority = stream_of("cuStreamGetPriority", handle)->priority;
  return kCudaSuccess;
}

int cuStreamGetCtx(Handle handle, Handle* context) {
  FAKE_GPU_BEGIN("cuStreamGetCtx");
  if (stream_of("cuStreamGetCtx", handle)->device != current_device()) return kCudaNotSupported;
  *context = current_context();
  return kCudaSuccess;
}

// To wait for an event that was never recorded is to wait for nothing.
int cuStreamWaitEvent(Handle handle, Handle event, unsigned) {
  FAKE_GPU_BEGIN("cuStreamWaitEvent");
  const auto stream = stream_of("cuStreamWaitEvent", handle);
  const auto point = engine().recorded("cuStreamWaitEvent", event);
  engine().look(stream, "cuStreamWaitEvent");
  if (point) {
    const auto nothing = [](bool) { return kCudaSuccess; };
    engine().submit(stream, "cuStreamWaitEvent", {}, nothing, {*point});
  }
  return kCudaSuccess;
}

int cuLaunchHostFunc(Handle handle, void (*function)(void*), void* argument) {
  FAKE_GPU_BEGIN("cuLaunchHostFunc");
  engine().submit(stream_of("cuLaunchHostFunc", handle), "cuLaunchHostFunc", {}, [=](bool broken) {
    if (!broken) function(argument);
    return kCudaSuccess;
  });
  return kCudaSuccess;
}

int cuEventCreate(Handle* event, unsigned flags) {
  FAKE_GPU_BEGIN("cuEventCreate");
  *event = engine().create_event(current_device(), (flags & kEventDisableTiming) == 0);
  return kCudaSuccess;
}

int cuEventDestroy_v2(Handle event) {
  if (!engine().is_open()) return kCudaNotInitialized;
  engine().destroy_event(event);
  return kCudaSuccess;
}

int cuEventRecord(Handle event, Handle handle) {
  FAKE_GPU_BEGIN("cuEventRecord");
  engine().record(event, stream_of("cuEventRecord", handle));
  return kCudaSuccess;
}

int cuEventQuery(Handle event) {
  FAKE_GPU_BEGIN("cuEventQuery", false);
  const auto point = engine().recorded("cuEventQuery", event);
  if (!point) return kCudaSuccess;
  if (!engine().reached(*point)) return kCudaNotReady;
  return code_of(*point->stream);
}

int cuEventSynchronize(Handle event) {
  FAKE_GPU_BEGIN("cuEventSynchronize", false);
  const auto point = engine().recorded("cuEventSynchronize", event);
  if (!point) return kCudaSuccess;
  engine().wait(*point, "cuEventSynchronize");
  return code_of(*point->stream);
}

int cuEventElapsedTime(float* milliseconds, Handle from, Handle to) {
  FAKE_GPU_BEGIN("cuEventElapsedTime", false);
  const auto begin = engine().recorded("cuEventElapsedTime", from);
  const auto end = engine().recorded("cuEventElapsedTime", to);
  if (!begin || !end) return kCudaInvalidHandle;
  if (!engine().is_timed(from) || !engine().is_timed(to)) return kCudaInvalidHandle;
  if (!engine().reached(*begin) || !engine().reached(*end)) return kCudaNotReady;
  *milliseconds = static_cast<float>(*end->done_at - *begin->done_at);
  return kCudaSuccess;
}

}  // extern "C"
}  // namespace fake_gpu
