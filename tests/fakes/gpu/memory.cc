// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/gpu/memory.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tests/fakes/gpu/cuda_abi.h"

namespace fake_gpu {
namespace {

constexpr size_t kRange = size_t{32} << 30;  // device addresses of a process, for all its life
constexpr size_t kPage = 4096;
constexpr size_t kAlignment = 256;  // CUDA's

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

// LeakSanitizer (gcc 12) faults when it looks for a stream's thread's part of a library that was
// opened later; initial-exec memory is the thread's own.
__attribute__((tls_model("initial-exec"))) thread_local const char* kernel_of_thread = nullptr;
struct sigaction previous_handler;

// Says what happened, if it is ours to say, and lets the access fault again under the handler that
// was there before.
void on_segv(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (memory().is_device_range(address)) {
    char line[300];
    const char* kernel = kernel_of_thread;
    const int bytes = snprintf(
        line, sizeof line, "fake gpu: rank %d: device memory: %s%s%s %p, %s\n", settings().rank,
        kernel != nullptr ? "kernel \"" : "the host", kernel != nullptr ? kernel : "",
        kernel != nullptr ? "\" touched" : " touched", info->si_addr,
        kernel != nullptr ? "which is no live device memory" : "which only a device may; copy it");
    if (write(STDERR_FILENO, line, static_cast<size_t>(bytes)) < 0) _exit(139);
  }
  sigaction(SIGSEGV, &previous_handler, nullptr);
}

}  // namespace

Memory& memory() {
  static auto* memory = new Memory;
  return *memory;
}

void set_in_kernel(const char* name) { kernel_of_thread = name; }

int Memory::open() {
  const std::lock_guard lock(mutex_);
  if (range_ != 0) return kCudaSuccess;
  file_ = memfd_create("fake-gpu", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(kRange)) != 0) return kCudaOutOfMemory;
  const auto map = [&] {
    void* at = mmap(nullptr, kRange, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file_, 0);
    if (at != MAP_FAILED) madvise(at, kRange, MADV_DONTDUMP);
    return at;
  };
  void* range = map();
  void* view = map();
  if (range == MAP_FAILED || view == MAP_FAILED) return kCudaOutOfMemory;
  range_ = reinterpret_cast<std::uintptr_t>(range);
  view_ = reinterpret_cast<std::uintptr_t>(view);

  struct sigaction handler = {};
  handler.sa_sigaction = on_segv;
  handler.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &handler, &previous_handler);
  return kCudaSuccess;
}

bool Memory::is_device_range(std::uintptr_t address) const {
  return range_ != 0 && address >= range_ && address - range_ < kRange;
}

size_t Memory::used(int device) {
  const std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (const auto& [begin, block] : blocks_) {
    if (block.kind == Kind::kDevice && block.device == device) bytes += block.bytes;
  }
  return bytes;
}

size_t Memory::count(size_t* pinned) {
  const std::lock_guard lock(mutex_);
  *pinned = 0;
  for (const auto& [begin, block] : blocks_) *pinned += block.kind == Kind::kPinned;
  return blocks_.size();
}

int Memory::allocate(size_t bytes, int device, std::uintptr_t* address) {
  if (bytes == 0) return kCudaInvalidValue;
  if (used(device) + bytes > settings().memory_bytes) return kCudaOutOfMemory;
  const std::lock_guard lock(mutex_);
  const size_t rounded = round_up(bytes, kAlignment);
  const size_t pages = round_up(rounded, kPage);
  if (next_ + pages + kPage > kRange) return kCudaOutOfMemory;
  const std::uintptr_t offset = next_ + pages - rounded;
  void* view = reinterpret_cast<void*>(view_ + next_);
  if (mprotect(view, pages, PROT_READ | PROT_WRITE) != 0) return kCudaOutOfMemory;
  memset(view, 0xCB, pages);
  next_ += pages + kPage;
  *address = range_ + offset;
  blocks_[*address] = Block{*address, bytes, device, ++ids_, Kind::kDevice, false};
  return kCudaSuccess;
}

int Memory::release(std::uintptr_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || found->second.kind != Kind::kDevice) {
    if (freed_.count(address) != 0) {
      violation("freed memory", "device memory %p is freed twice",
                reinterpret_cast<void*>(address));
    }
    return kCudaInvalidValue;
  }
  const size_t bytes = found->second.bytes;
  const std::uintptr_t begin = (address - range_) / kPage * kPage;
  const size_t pages = round_up(address - range_ + bytes - begin, kPage);
  mprotect(reinterpret_cast<void*>(view_ + begin), pages, PROT_NONE);
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
            static_cast<off_t>(pages));
  freed_[address] = bytes;
  blocks_.erase(found);
  return kCudaSuccess;
}

int Memory::allocate_host(size_t bytes, int device, void** result) {
  if (bytes == 0) return kCudaInvalidValue;
  void* at = mmap(nullptr, round_up(bytes, kPage), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return kCudaOutOfMemory;
  const std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  blocks_[address] = Block{address, bytes, device, ++ids_, Kind::kPinned, false};
  *result = at;
  return kCudaSuccess;
}

int Memory::release_host(void* at) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(reinterpret_cast<std::uintptr_t>(at));
  if (found == blocks_.end() || found->second.kind != Kind::kPinned || found->second.registered) {
    return kCudaInvalidValue;
  }
  munmap(at, round_up(found->second.bytes, kPage));
  blocks_.erase(found);
  return kCudaSuccess;
}

int Memory::register_host(void* at, size_t bytes, int device) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  if (at == nullptr || bytes == 0 || is_device_range(address)) return kCudaInvalidValue;
  const std::lock_guard lock(mutex_);
  const auto next = blocks_.lower_bound(address);
  if (find_locked(address) || (next != blocks_.end() && next->first < address + bytes)) {
    return kCudaAlreadyRegistered;
  }
  blocks_[address] = Block{address, bytes, device, ++ids_, Kind::kPinned, true};
  return kCudaSuccess;
}

int Memory::unregister_host(void* at) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(reinterpret_cast<std::uintptr_t>(at));
  if (found == blocks_.end() || !found->second.registered) return kCudaNotRegistered;
  blocks_.erase(found);
  return kCudaSuccess;
}

std::optional<Memory::Block> Memory::find(std::uintptr_t address) {
  const std::lock_guard lock(mutex_);
  return find_locked(address);
}

std::optional<Memory::Block> Memory::find_locked(std::uintptr_t address) const {
  auto found = blocks_.upper_bound(address);
  if (found == blocks_.begin()) return std::nullopt;
  --found;
  if (address - found->first >= found->second.bytes) return std::nullopt;
  return found->second;
}

void Memory::require(const char* what, const char* does, std::uintptr_t address, size_t bytes) {
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  const auto block = find_locked(address);
  void* at = reinterpret_cast<void*>(address);
  if (!block) {
    if (!is_device_range(address)) return;  // pageable
    const auto freed = freed_.upper_bound(address);
    if (freed != freed_.begin() && address - std::prev(freed)->first < std::prev(freed)->second) {
      violation("freed memory", "%s %s %p, which was freed", what, does, at);
    }
    violation("device memory", "%s %s %p, which is no device memory", what, does, at);
  }
  const size_t left = block->begin + block->bytes - address;
  if (bytes > left) {
    violation("device memory",
              "%s %s %zu bytes at %p, where an allocation of %zu bytes has %zu left", what, does,
              bytes, at, block->bytes, left);
  }
}

char* Memory::engine_view(std::uintptr_t address) const {
  return reinterpret_cast<char*>(is_device_range(address) ? address - range_ + view_ : address);
}

}  // namespace fake_gpu
