// SPDX-License-Identifier: Apache-2.0
//
// Entry points for modules and kernels. A kernel is its host twin, a function of the process or of
// FAKE_GPU_KERNELS:
//   extern "C" void hvd_gpu_host_NAME(unsigned grid_x, unsigned block_x, void** kernel_params);
// and may have beside it a function that says which memory a launch will touch, for order.h:
//   extern "C" void hvd_gpu_touch_NAME(unsigned grid_x, unsigned block_x, void** kernel_params,
//                                      void (*touch)(void* cookie, const void* at, size_t bytes,
//                                      int writes), void* cookie);
//
// The real driver knows from the image how many parameters a kernel has and how long they are. We
// do not: all that could be one is copied at the launch, and what cannot be read is left out. In
// the copies, every aligned word that is an address of live device memory becomes the engine's
// address of it, so that the twin can work on what the host must not touch.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/fakes/gpu/cuda_abi.h"
#include "tests/fakes/gpu/devices.h"
#include "tests/fakes/gpu/engine.h"

namespace fake_gpu {
namespace {

constexpr size_t kMostParameters = 16;
constexpr size_t kMostBytes =
    4352;  // of one parameter; more than that needs a driver newer than ours may be

using Twin = void (*)(unsigned, unsigned, void**);
using Touch = void (*)(void* cookie, const void* at, size_t bytes, int writes);
using Touches = void (*)(unsigned, unsigned, void**, Touch, void*);

struct Module {
  int device;
};
struct Function {
  int device;
  std::string name;
  Twin twin;
  Touches touches;
};

// Functions are never freed: launches that are queued use them.
struct Loaded {
  std::mutex mutex;
  std::set<const void*> modules, functions;
};

Loaded& loaded() {
  static auto* loaded = new Loaded;
  return *loaded;
}

void* symbol(const std::string& name) {
  static void* const object = [] {
    const std::string& path = settings().kernels;
    void* opened = path.empty() ? nullptr : dlopen(path.c_str(), RTLD_NOW);
    if (!path.empty() && opened == nullptr)
      violation("settings", "FAKE_GPU_KERNELS: %s", dlerror());
    return opened;
  }();
  void* found = dlsym(RTLD_DEFAULT, name.c_str());
  return found == nullptr && object != nullptr ? dlsym(object, name.c_str()) : found;
}

// Copies what can be read of [from, +bytes); the kernel looks, so nothing faults. How many bytes
// that were.
size_t copy_readable(void* to, const void* from, size_t bytes) {
  static std::mutex mutex;
  static const int file = memfd_create("fake-gpu-parameters", MFD_CLOEXEC);
  const std::lock_guard lock(mutex);
  const long wrote = syscall(SYS_pwrite64, file, from, bytes, 0L);
  if (wrote <= 0) return 0;
  const ssize_t read = pread(file, to, static_cast<size_t>(wrote), 0);
  return read < 0 ? 0 : static_cast<size_t>(read);
}

// A launch's parameters, copied.
class Parameters {
 public:
  explicit Parameters(void** from) {
    std::array<void*, kMostParameters> sources = {};
    const size_t bytes = from == nullptr ? 0 : copy_readable(sources.data(), from, sizeof sources);
    for (size_t i = 0; i < bytes / sizeof(void*); ++i) {
      if (sources[i] == nullptr) continue;
      values_[i].resize(kMostBytes / sizeof(std::uint64_t));
      if (copy_readable(values_[i].data(), sources[i], kMostBytes) > 0) {
        pointers_[i] = values_[i].data();
      }
    }
  }

  void** pointers() { return pointers_.data(); }

  void use_engine_view() {
    for (auto& words : values_) {
      for (std::uint64_t& word : words) {
        if (!memory().is_device_range(word) || !memory().find(word)) continue;
        word = reinterpret_cast<std::uintptr_t>(memory().engine_view(word));
      }
    }
  }

 private:
  std::array<std::vector<std::uint64_t>, kMostParameters> values_;
  std::array<void*, kMostParameters> pointers_ = {};
};

struct Touched {
  const char* kernel;
  std::vector<Access> accesses;
};

void add_touch(void* cookie, const void* at, size_t bytes, int writes) {
  auto* touched = static_cast<Touched*>(cookie);
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  memory().require(touched->kernel, writes != 0 ? "writes" : "reads", begin, bytes);
  if (bytes > 0) touched->accesses.push_back(Access{begin, bytes, writes != 0});
}

// A fatbin, an ELF cubin, PTX, or what stands for one.
bool is_image(const void* image) {
  static constexpr unsigned kFatbinMagic = 0xBA55ED50, kWrapperMagic = 0x466243B1;
  unsigned magic = 0;
  memcpy(&magic, image, sizeof magic);
  return magic == kFatbinMagic || magic == kWrapperMagic || memcmp(image, "\177ELF", 4) == 0 ||
         strncmp(static_cast<const char*>(image), "FAKEFATB", 8) == 0;
}

int run(const Function& function, Parameters* parameters, unsigned grid, unsigned block) {
  if (const auto code = fault("kernel")) return static_cast<int>(*code);
  set_in_kernel(function.name.c_str());
  function.twin(grid, block, parameters->pointers());
  set_in_kernel(nullptr);
  return kCudaSuccess;
}

}  // namespace

extern "C" {

int cuModuleLoadData(Handle* module, const void* image) {
  FAKE_GPU_BEGIN("cuModuleLoadData");
  if (image == nullptr || !is_image(image)) return kCudaInvalidImage;
  auto* made = new Module{current_device()};
  const std::lock_guard lock(loaded().mutex);
  loaded().modules.insert(made);
  *module = made;
  return kCudaSuccess;
}

int cuModuleUnload(Handle module) {
  FAKE_GPU_BEGIN("cuModuleUnload");
  const std::lock_guard lock(loaded().mutex);
  if (loaded().modules.erase(module) == 0) return kCudaInvalidHandle;
  delete static_cast<Module*>(module);
  return kCudaSuccess;
}

int cuModuleGetFunction(Handle* function, Handle module, const char* name) {
  FAKE_GPU_BEGIN("cuModuleGetFunction");
  const std::lock_guard lock(loaded().mutex);
  if (loaded().modules.count(module) == 0) return kCudaInvalidHandle;
  const auto twin = reinterpret_cast<Twin>(symbol(std::string("hvd_gpu_host_") + name));
  if (twin == nullptr) return kCudaNotFound;
  const auto touches = reinterpret_cast<Touches>(symbol(std::string("hvd_gpu_touch_") + name));
  auto* made = new Function{static_cast<Module*>(module)->device, name, twin, touches};
  loaded().functions.insert(made);
  *function = made;
  return kCudaSuccess;
}

int cuLaunchKernel(Handle handle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned, Handle stream,
                   void** from, void** extra) {
  FAKE_GPU_BEGIN("cuLaunchKernel");
  {
    const std::lock_guard lock(loaded().mutex);
    if (loaded().functions.count(handle) == 0) return kCudaInvalidHandle;
  }
  const auto* function = static_cast<const Function*>(handle);
  const char* name = function->name.c_str();
  if (grid_x == 0 || grid_x > 0x7fffffffu || block_x == 0 || block_x > 1024 || grid_y != 1 ||
      grid_z != 1 || block_y != 1 || block_z != 1 || extra != nullptr) {
    return kCudaInvalidValue;
  }
  const auto target = engine().stream("cuLaunchKernel", stream, current_device());
  if (function->device != target->device) {
    violation("contexts", "kernel \"%s\" of device %d is launched in a stream of device %d", name,
              function->device, target->device);
  }
  auto parameters = std::make_shared<Parameters>(from);
  Touched touched{name, {}};
  if (function->touches != nullptr) {
    function->touches(grid_x, block_x, parameters->pointers(), add_touch, &touched);
  }
  parameters->use_engine_view();
  engine().submit(target, name, touched.accesses, [=](bool broken) {
    return broken ? static_cast<int>(kCudaSuccess)
                  : run(*function, parameters.get(), grid_x, block_x);
  });
  return kCudaSuccess;
}

}  // extern "C"
}  // namespace fake_gpu
