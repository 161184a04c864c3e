// SPDX-License-Identifier: Apache-2.0
//
// Memory of the fake devices, and host memory that they know. Device memory is one range of
// addresses of the process that nobody can touch; its bytes are mapped a second time for the
// engine. So a host access is a SIGSEGV, which is answered with a sentence. Addresses are never
// given out twice, an allocation ends at a page that is no one's, and new memory is filled with
// 0xCB: a use of freed memory, an overrun, and a read of what nobody wrote do not pass for luck.
// Thread-safe.
#ifndef TESTS_FAKES_GPU_MEMORY_H
#define TESTS_FAKES_GPU_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "tests/fakes/gpu/settings.h"

namespace fake_gpu {

class FAKE_GPU_EXPORT Memory {
 public:
  enum class Kind { kPageable, kPinned, kDevice };
  struct Block {
    std::uintptr_t begin = 0;
    size_t bytes = 0;
    int device = -1;
    std::uint64_t id = 0;
    Kind kind = Kind::kPageable;
    bool registered = false;  // pinned, but not ours
  };

  // All return a CudaResult.
  int open();
  int allocate(size_t bytes, int device, std::uintptr_t* address);
  int release(std::uintptr_t address);
  int allocate_host(size_t bytes, int device, void** memory);
  int release_host(void* memory);
  int register_host(void* memory, size_t bytes, int device);
  int unregister_host(void* memory);

  // The block that the address is in; empty for pageable memory.
  std::optional<Block> find(std::uintptr_t address);
  bool is_device_range(std::uintptr_t address) const;
  size_t used(int device);
  // Blocks that are not freed, and how many of these are pinned host memory.
  size_t count(size_t* pinned);

  // Ends the process if [address, +bytes) is device memory that was freed or never was, or leaves
  // its block. What: the call.
  void require(const char* what, const char* does, std::uintptr_t address, size_t bytes);

  // Where the engine finds what is at the address: device memory through its own mapping, all else
  // as it is.
  char* engine_view(std::uintptr_t address) const;

 private:
  std::optional<Block> find_locked(std::uintptr_t address) const;

  mutable std::mutex mutex_;
  std::uintptr_t range_ = 0;  // device addresses
  std::uintptr_t view_ = 0;   // the engine's
  size_t next_ = 0;           // offset of what was never given out
  int file_ = -1;
  std::uint64_t ids_ = 0;
  std::map<std::uintptr_t, Block> blocks_;
  std::map<std::uintptr_t, size_t> freed_;
};

FAKE_GPU_EXPORT Memory& memory();

// A host twin runs in this thread: what faults is its doing, not the program's.
void set_in_kernel(const char* name);

}  // namespace fake_gpu

#endif  // TESTS_FAKES_GPU_MEMORY_H
