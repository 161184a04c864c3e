// SPDX-License-Identifier: Apache-2.0
//
// Entry points for memory, copies and what a pointer is. CUDA's rules on pageable host memory are
// kept: such a copy to a device has read its source when the call returns, and one from a device
// has finished.
#include <cstring>
#include <memory>
#include <vector>

#include "tests/fakes/gpu/cuda_abi.h"
#include "tests/fakes/gpu/devices.h"
#include "tests/fakes/gpu/engine.h"

namespace fake_gpu {
namespace {

using Kind = Memory::Kind;

std::uintptr_t address_of(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

Kind kind_of(std::uintptr_t address) {
  if (memory().is_device_range(address)) return Kind::kDevice;
  const auto block = memory().find(address);
  return block ? block->kind : Kind::kPageable;
}

// What order.h may know: nobody tells us when pageable memory becomes something else.
void add_access(std::vector<Access>* accesses, std::uintptr_t begin, size_t bytes, bool writes) {
  if (kind_of(begin) != Kind::kPageable) accesses->push_back(Access{begin, bytes, writes});
}

int copy(const char* what, std::uintptr_t to, std::uintptr_t from, size_t bytes, void* handle) {
  const auto stream = engine().stream(what, handle, current_device());
  memory().require(what, "writes", to, bytes);
  memory().require(what, "reads", from, bytes);
  if (bytes == 0) {
    engine().look(stream, what);
    return kCudaSuccess;
  }
  std::vector<Access> accesses;
  add_access(&accesses, from, bytes, false);
  add_access(&accesses, to, bytes, true);
  std::shared_ptr<std::vector<char>> staged;
  if (kind_of(from) == Kind::kPageable) {
    const char* source = reinterpret_cast<const char*>(from);
    staged = std::make_shared<std::vector<char>>(source, source + bytes);
  }
  const Point done = engine().submit(stream, what, accesses, [=](bool broken) {
    if (broken) return static_cast<int>(kCudaSuccess);
    const char* source = staged ? staged->data() : memory().engine_view(from);
    memmove(memory().engine_view(to), source, bytes);
    return static_cast<int>(fault("copy").value_or(kCudaSuccess));
  });
  if (kind_of(to) == Kind::kPageable) {
    engine().wait(done, what);
    return engine().sticky(current_device());
  }
  return kCudaSuccess;
}

int copy_now(const char* what, std::uintptr_t to, std::uintptr_t from, size_t bytes) {
  const int code = copy(what, to, from, bytes, nullptr);
  if (code != kCudaSuccess) return code;
  engine().wait(engine().last(engine().stream(what, nullptr, current_device())), what);
  return engine().sticky(current_device());
}

int attribute_of(void* data, int attribute, Address address) {
  const auto block = memory().find(address);
  if (!block) return kCudaInvalidValue;
  const bool on_device = block->kind == Kind::kDevice;
  switch (attribute) {
    case kPointerContext:
      *static_cast<void**>(data) = current_context();
      break;
    case kPointerMemoryType:
      *static_cast<unsigned*>(data) = on_device ? kMemoryDevice : kMemoryHost;
      break;
    case kPointerDevicePointer:
      *static_cast<Address*>(data) = address;
      break;
    case kPointerHostPointer:
      if (on_device) return kCudaInvalidValue;
      *static_cast<Address*>(data) = address;
      break;
    case kPointerBufferId:
      *static_cast<std::uint64_t*>(data) = block->id;
      break;
    case kPointerIsManaged:
      *static_cast<unsigned*>(data) = 0;
      break;
    case kPointerDeviceOrdinal:
      *static_cast<int*>(data) = block->device;
      break;
    case kPointerRangeStart:
      *static_cast<Address*>(data) = block->begin;
      break;
    case kPointerRangeSize:
      *static_cast<size_t*>(data) = block->bytes;
      break;
    default:
      return kCudaInvalidValue;
  }
  return kCudaSuccess;
}

size_t size_of(int attribute) {
  switch (attribute) {
    case kPointerMemoryType:
    case kPointerIsManaged:
    case kPointerDeviceOrdinal:
      return 4;
    default:
      return 8;
  }
}

}  // namespace

extern "C" {

int cuMemAlloc_v2(Address* address, size_t bytes) {
  FAKE_GPU_BEGIN("cuMemAlloc");
  std::uintptr_t found = 0;
  const int code = memory().allocate(bytes, current_device(), &found);
  if (code == kCudaSuccess) *address = found;
  return code;
}

// Waits for the device first, as the real one does.
int cuMemFree_v2(Address address) {
  FAKE_GPU_BEGIN("cuMemFree");
  if (address == 0) return kCudaSuccess;
  const auto block = memory().find(address);
  if (block) engine().wait_device(block->device, "cuMemFree");
  const int code = memory().release(address);
  if (code == kCudaSuccess && block) engine().forget(block->begin, block->bytes);
  return code;
}

int cuMemGetInfo_v2(size_t* left, size_t* total) {
  FAKE_GPU_BEGIN("cuMemGetInfo");
  *total = settings().memory_bytes;
  *left = *total - memory().used(current_device());
  return kCudaSuccess;
}

int cuMemGetAddressRange_v2(Address* base, size_t* bytes, Address address) {
  FAKE_GPU_BEGIN("cuMemGetAddressRange");
  const auto block = memory().find(address);
  if (!block || block->kind != Kind::kDevice) return kCudaInvalidValue;
  if (base != nullptr) *base = block->begin;
  if (bytes != nullptr) *bytes = block->bytes;
  return kCudaSuccess;
}

int cuMemHostAlloc(void** result, size_t bytes, unsigned) {
  FAKE_GPU_BEGIN("cuMemHostAlloc");
  return memory().allocate_host(bytes, current_device(), result);
}

int cuMemFreeHost(void* pinned) {
  FAKE_GPU_BEGIN("cuMemFreeHost");
  const auto block = memory().find(address_of(pinned));
  if (block) engine().wait_device(block->device, "cuMemFreeHost");
  const int code = memory().release_host(pinned);
  if (code == kCudaSuccess && block) engine().forget(block->begin, block->bytes);
  return code;
}

int cuMemHostRegister_v2(void* host, size_t bytes, unsigned) {
  FAKE_GPU_BEGIN("cuMemHostRegister");
  return memory().register_host(host, bytes, current_device());
}

int cuMemHostUnregister(void* host) {
  FAKE_GPU_BEGIN("cuMemHostUnregister");
  const auto block = memory().find(address_of(host));
  if (block) engine().wait_device(block->device, "cuMemHostUnregister");
  const int code = memory().unregister_host(host);
  if (code == kCudaSuccess && block) engine().forget(block->begin, block->bytes);
  return code;
}

int cuMemHostGetDevicePointer_v2(Address* address, void* host, unsigned) {
  FAKE_GPU_BEGIN("cuMemHostGetDevicePointer");
  if (kind_of(address_of(host)) != Kind::kPinned) return kCudaInvalidValue;
  *address = address_of(host);
  return kCudaSuccess;
}

int cuMemcpyAsync(Address to, Address from, size_t bytes, Handle stream) {
  FAKE_GPU_BEGIN("cuMemcpyAsync");
  return copy("cuMemcpyAsync", to, from, bytes, stream);
}

int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, Handle stream) {
  FAKE_GPU_BEGIN("cuMemcpyHtoDAsync");
  if (kind_of(to) != Kind::kDevice) return kCudaInvalidValue;
  return copy("cuMemcpyHtoDAsync", to, address_of(from), bytes, stream);
}

int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, Handle stream) {
  FAKE_GPU_BEGIN("cuMemcpyDtoHAsync");
  if (kind_of(from) != Kind::kDevice) return kCudaInvalidValue;
  return copy("cuMemcpyDtoHAsync", address_of(to), from, bytes, stream);
}

int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, Handle stream) {
  FAKE_GPU_BEGIN("cuMemcpyDtoDAsync");
  if (kind_of(to) != Kind::kDevice || kind_of(from) != Kind::kDevice) return kCudaInvalidValue;
  return copy("cuMemcpyDtoDAsync", to, from, bytes, stream);
}

int cuMemcpyHtoD_v2(Address to, const void* from, size_t bytes) {
  FAKE_GPU_BEGIN("cuMemcpyHtoD");
  return copy_now("cuMemcpyHtoD", to, address_of(from), bytes);
}

int cuMemcpyDtoH_v2(void* to, Address from, size_t bytes) {
  FAKE_GPU_BEGIN("cuMemcpyDtoH");
  return copy_now("cuMemcpyDtoH", address_of(to), from, bytes);
}

int cuMemcpyDtoD_v2(Address to, Address from, size_t bytes) {
  FAKE_GPU_BEGIN("cuMemcpyDtoD");
  return copy_now("cuMemcpyDtoD", to, from, bytes);
}

int cuMemsetD8Async(Address to, unsigned char value, size_t bytes, Handle handle) {
  FAKE_GPU_BEGIN("cuMemsetD8Async");
  const auto stream = engine().stream("cuMemsetD8Async", handle, current_device());
  memory().require("cuMemsetD8Async", "writes", to, bytes);
  engine().submit(stream, "cuMemsetD8Async", {Access{to, bytes, true}}, [=](bool broken) {
    if (!broken) memset(memory().engine_view(to), value, bytes);
    return kCudaSuccess;
  });
  return kCudaSuccess;
}

int cuPointerGetAttribute(void* data, int attribute, Address address) {
  FAKE_GPU_BEGIN("cuPointerGetAttribute", false);
  return attribute_of(data, attribute, address);
}

// As the real one: what CUDA does not know is no error here, its attributes are 0.
int cuPointerGetAttributes(unsigned count, int* attributes, void** data, Address address) {
  FAKE_GPU_BEGIN("cuPointerGetAttributes", false);
  for (unsigned i = 0; i < count; ++i) {
    if (attribute_of(data[i], attributes[i], address) == kCudaSuccess) continue;
    memset(data[i], 0, size_of(attributes[i]));
    if (attributes[i] == kPointerDeviceOrdinal) *static_cast<int*>(data[i]) = -2;
  }
  return kCudaSuccess;
}

}  // extern "C"
}  // namespace fake_gpu
