// SPDX-License-Identifier: Apache-2.0
//
// Entry points for the driver, its devices and contexts. A device has its primary context only.
#include "tests/fakes/gpu/devices.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "tests/fakes/gpu/cuda_abi.h"
#include "tests/fakes/gpu/engine.h"

namespace fake_gpu {
namespace {

struct Context {
  int device = 0;
  std::atomic<int> users{0};
};

// As many as a device number can be.
Context* contexts() {
  static auto* contexts = [] {
    auto* made = new Context[64];
    for (int i = 0; i < 64; ++i) made[i].device = i;
    return made;
  }();
  return contexts;
}

thread_local std::vector<Context*> context_stack;

bool is_context(const void* handle) {
  for (int i = 0; i < 64; ++i) {
    if (handle == &contexts()[i]) return contexts()[i].users > 0;
  }
  return false;
}

// Different on every node, so that a UUID names one card of the whole system.
Uuid uuid_of(int ordinal) {
  Uuid uuid;
  const size_t card = std::hash<std::string>()(settings().node + "/" + std::to_string(ordinal));
  const size_t maker = 0xFA4EFA4EFA4EFA4E;
  memcpy(uuid.bytes, &maker, 8);
  memcpy(uuid.bytes + 8, &card, 8);
  return uuid;
}

std::string text_of(const Uuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char byte[4];
    snprintf(byte, sizeof byte, "%02x", uuid.bytes[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += byte;
  }
  return text;
}

// The ordinal on the node that an item of CUDA_VISIBLE_DEVICES names; -1 for none.
int ordinal_of(const std::string& item) {
  if (item.rfind("GPU-", 0) == 0) {
    for (int i = 0; i < settings().gpus; ++i) {
      if (text_of(uuid_of(i)).rfind(item, 0) == 0) return i;
    }
    return -1;
  }
  char* end = nullptr;
  const long number = strtol(item.c_str(), &end, 10);
  return item.empty() || *end != '\0' || number < 0 || number >= settings().gpus
             ? -1
             : static_cast<int>(number);
}

std::vector<int> read_visible() {
  std::vector<int> found;
  const char* list = getenv("CUDA_VISIBLE_DEVICES");
  if (list == nullptr) {
    for (int i = 0; i < settings().gpus; ++i) found.push_back(i);
    return found;
  }
  const std::string text = list;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const int ordinal = ordinal_of(text.substr(begin, end - begin));
    if (ordinal < 0) break;
    found.push_back(ordinal);
    begin = end + 1;
  }
  return found;
}

struct Name {
  int code;
  const char *name, *text;
};
constexpr Name kNames[] = {
    {kCudaSuccess, "CUDA_SUCCESS", "no error"},
    {kCudaInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kCudaOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kCudaNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kCudaNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kCudaInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kCudaInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {kCudaInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kCudaNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {kCudaUnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {kCudaInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kCudaNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kCudaNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kCudaIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kCudaAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {kCudaNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {kCudaLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {kCudaNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {kCudaSystemNotReady, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {kCudaDriverMismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {kCudaCompatNotSupported, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
     "forward compatibility was attempted on non supported HW"},
    {kCudaUnknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const Name* name_of(int code) {
  for (const Name& name : kNames) {
    if (name.code == code) return &name;
  }
  return nullptr;
}

int copy_text(const std::string& text, char* to, int bytes) {
  if (to == nullptr || bytes <= static_cast<int>(text.size())) return kCudaInvalidValue;
  memcpy(to, text.c_str(), text.size() + 1);
  return kCudaSuccess;
}

// What a process that ends in good order has given back.
__attribute__((destructor)) void check_leaks() {
  if (!engine().is_open() || !settings().leak_check) return;
  size_t pinned = 0;
  const size_t blocks = memory().count(&pinned);
  const size_t streams = engine().live_streams(), events = engine().live_events();
  if (blocks + streams + events == 0) return;
  violation("exit", "%zu device and %zu pinned allocations, %zu streams and %zu events are left",
            blocks - pinned, pinned, streams, events);
}

}  // namespace

const std::vector<int>& visible_devices() {
  static const auto* visible = new std::vector<int>(read_visible());
  return *visible;
}

bool is_device(int device) {
  return device >= 0 && device < static_cast<int>(visible_devices().size());
}

int current_device() { return context_stack.empty() ? -1 : context_stack.back()->device; }
void* current_context() { return context_stack.empty() ? nullptr : context_stack.back(); }

std::string pci_bus_id(int device) {
  char id[20];
  snprintf(id, sizeof id, "0000:%02x:00.0",
           0x17 + 0x11 * visible_devices()[static_cast<size_t>(device)]);
  return id;
}

int begin(const char* what, bool needs_context) {
  if (!engine().is_open()) return kCudaNotInitialized;
  if (needs_context && current_device() < 0) {
    violation("contexts", "%s was called by a thread that has no current context", what);
  }
  if (const auto code = fault(what)) return static_cast<int>(*code);
  return current_device() < 0 ? kCudaSuccess : engine().sticky(current_device());
}

extern "C" {

int cuInit(unsigned flags) {
  if (const auto code = fault("cuInit")) return static_cast<int>(*code);
  if (flags != 0) return kCudaInvalidValue;
  if (visible_devices().empty()) return kCudaNoDevice;
  return engine().open();
}

int cuDriverGetVersion(int* version) {
  *version = settings().driver_version;
  return kCudaSuccess;
}

int cuGetErrorName(int code, const char** text) {
  const Name* name = name_of(code);
  *text = name == nullptr ? nullptr : name->name;
  return name == nullptr ? kCudaInvalidValue : kCudaSuccess;
}

int cuGetErrorString(int code, const char** text) {
  const Name* name = name_of(code);
  *text = name == nullptr ? nullptr : name->text;
  return name == nullptr ? kCudaInvalidValue : kCudaSuccess;
}

// By the name in the header, without the version that the symbol has.
int cuGetProcAddress_v2(const char* symbol, void** function, int, std::uint64_t, int* status) {
  Dl_info here;
  *function = nullptr;
  if (dladdr(reinterpret_cast<void*>(&cuInit), &here) != 0) {
    void* library = dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    for (const char* version : {"_v2", ""}) {
      if (*function == nullptr) *function = dlsym(library, (std::string(symbol) + version).c_str());
    }
    if (library != nullptr) dlclose(library);
  }
  if (status != nullptr) *status = *function == nullptr ? 1 : 0;
  return *function == nullptr ? kCudaNotFound : kCudaSuccess;
}

int cuDeviceGetCount(int* count) {
  FAKE_GPU_BEGIN("cuDeviceGetCount", false);
  *count = static_cast<int>(visible_devices().size());
  return kCudaSuccess;
}

int cuDeviceGet(int* device, int ordinal) {
  FAKE_GPU_BEGIN("cuDeviceGet", false);
  if (!is_device(ordinal)) return kCudaInvalidDevice;
  *device = ordinal;
  return kCudaSuccess;
}

int cuDeviceGetName(char* name, int bytes, int device) {
  FAKE_GPU_BEGIN("cuDeviceGetName", false);
  return is_device(device) ? copy_text("Fake GPU", name, bytes) : kCudaInvalidDevice;
}

int cuDeviceGetUuid_v2(Uuid* uuid, int device) {
  FAKE_GPU_BEGIN("cuDeviceGetUuid", false);
  if (!is_device(device)) return kCudaInvalidDevice;
  *uuid = uuid_of(visible_devices()[static_cast<size_t>(device)]);
  return kCudaSuccess;
}

int cuDeviceGetPCIBusId(char* id, int bytes, int device) {
  FAKE_GPU_BEGIN("cuDeviceGetPCIBusId", false);
  return is_device(device) ? copy_text(pci_bus_id(device), id, bytes) : kCudaInvalidDevice;
}

int cuDeviceGetByPCIBusId(int* device, const char* id) {
  FAKE_GPU_BEGIN("cuDeviceGetByPCIBusId", false);
  for (int i = 0; is_device(i); ++i) {
    if (pci_bus_id(i) != id) continue;
    *device = i;
    return kCudaSuccess;
  }
  return kCudaInvalidDevice;
}

int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  FAKE_GPU_BEGIN("cuDeviceTotalMem", false);
  *bytes = settings().memory_bytes;
  return is_device(device) ? kCudaSuccess : kCudaInvalidDevice;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  FAKE_GPU_BEGIN("cuDeviceGetAttribute", false);
  if (!is_device(device)) return kCudaInvalidDevice;
  switch (attribute) {
    case kDeviceMultiprocessors:
      *value = 8;
      break;
    case kDeviceIntegrated:
      *value = 0;
      break;
    case kDevicePciBus:
      *value = 0x17 + 0x11 * visible_devices()[static_cast<size_t>(device)];
      break;
    case kDevicePciDevice:
      *value = 0;
      break;
    case kDevicePciDomain:
      *value = 0;
      break;
    case kDeviceUnifiedAddressing:
      *value = 1;
      break;
    case kDeviceCapabilityMajor:
      *value = 9;
      break;
    case kDeviceCapabilityMinor:
      *value = 0;
      break;
    default:
      return kCudaInvalidValue;
  }
  return kCudaSuccess;
}

int cuDeviceCanAccessPeer(int* can, int device, int peer) {
  FAKE_GPU_BEGIN("cuDeviceCanAccessPeer", false);
  if (!is_device(device) || !is_device(peer)) return kCudaInvalidDevice;
  *can = device != peer;
  return kCudaSuccess;
}

int cuDevicePrimaryCtxRetain(Handle* context, int device) {
  FAKE_GPU_BEGIN("cuDevicePrimaryCtxRetain", false);
  if (!is_device(device)) return kCudaInvalidDevice;
  ++contexts()[device].users;
  *context = &contexts()[device];
  return kCudaSuccess;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  FAKE_GPU_BEGIN("cuDevicePrimaryCtxRelease", false);
  if (!is_device(device)) return kCudaInvalidDevice;
  if (contexts()[device].users == 0) return kCudaInvalidContext;
  --contexts()[device].users;
  return kCudaSuccess;
}

int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  FAKE_GPU_BEGIN("cuDevicePrimaryCtxGetState", false);
  if (!is_device(device)) return kCudaInvalidDevice;
  *flags = 0;
  *active = contexts()[device].users > 0;
  return kCudaSuccess;
}

int cuCtxSetCurrent(Handle context) {
  if (!engine().is_open()) return kCudaNotInitialized;
  if (context != nullptr && !is_context(context)) return kCudaInvalidContext;
  if (!context_stack.empty()) context_stack.pop_back();
  if (context != nullptr) context_stack.push_back(static_cast<Context*>(context));
  return kCudaSuccess;
}

int cuCtxGetCurrent(Handle* context) {
  *context = current_context();
  return engine().is_open() ? kCudaSuccess : kCudaNotInitialized;
}

int cuCtxGetDevice(int* device) {
  FAKE_GPU_BEGIN("cuCtxGetDevice");
  *device = current_device();
  return kCudaSuccess;
}

int cuCtxPushCurrent_v2(Handle context) {
  if (!engine().is_open()) return kCudaNotInitialized;
  if (!is_context(context)) return kCudaInvalidContext;
  context_stack.push_back(static_cast<Context*>(context));
  return kCudaSuccess;
}

int cuCtxPopCurrent_v2(Handle* context) {
  if (context_stack.empty()) return kCudaInvalidContext;
  if (context != nullptr) *context = context_stack.back();
  context_stack.pop_back();
  return kCudaSuccess;
}

int cuCtxSynchronize() {
  FAKE_GPU_BEGIN("cuCtxSynchronize");
  engine().wait_device(current_device(), "cuCtxSynchronize");
  return engine().sticky(current_device());
}

int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  FAKE_GPU_BEGIN("cuCtxGetStreamPriorityRange");
  *least = 0;
  *greatest = -5;
  return kCudaSuccess;
}

}  // extern "C"
}  // namespace fake_gpu
