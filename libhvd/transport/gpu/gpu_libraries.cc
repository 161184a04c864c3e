// SPDX-License-Identifier: Apache-2.0
#include "libhvd/transport/gpu/gpu_libraries.h"

#include <dlfcn.h>

#include <cstddef>
#include <iterator>

namespace hvd {
namespace {

constexpr int kOldestCuda = 11000;

constexpr bool kRequired = true;
constexpr bool kOptional = false;

#define HVD_CUDA_ROW(name, need, since, result, parameters) \
  {#name, need, since, offsetof(cuda::Functions, name)},
constexpr FunctionRow kCudaRows[] = {HVD_CUDA_FUNCTIONS(HVD_CUDA_ROW)};
constexpr FunctionTable kCudaTable = {kCudaRows, std::size(kCudaRows), cuda_version_text};

#define HVD_NCCL_ROW(name, need, since, result, parameters) \
  {#name, need, since, offsetof(nccl::Functions, name)},
constexpr FunctionRow kNcclRows[] = {HVD_NCCL_FUNCTIONS(HVD_NCCL_ROW)};
constexpr FunctionTable kNcclTable = {kNcclRows, std::size(kNcclRows), nccl_version_text};

// What such a function says: int f(int* version), 0 if all is well.
Expected<int> version_of(const SharedObject& object, const char* function, const char* library) {
  void* symbol = dlsym(object.handle, function);
  if (symbol == nullptr) {
    return error(Code::kSystem, "\"%s\" is no %s: it lacks the function %s", object.path.c_str(),
                 library, function);
  }
  int version = 0;
  const int result = reinterpret_cast<int (*)(int*)>(symbol)(&version);
  if (result != 0 || version <= 0) {
    return error(Code::kSystem, "\"%s\" does not tell its version: %s returns %d",
                 object.path.c_str(), function, result);
  }
  return version;
}

}  // namespace

LibrarySearch cuda_search() { return {"libcuda.so.1", "libcuda.so", "", ""}; }

LibrarySearch nccl_search(const std::string& chosen) {
  return {"libnccl.so.2", "libnccl.so", chosen, "HOROVOD_NCCL_LIB"};
}

CudaLibrary open_cuda(const LibrarySearch& search) {
  CudaLibrary cuda;
  const auto object = open_shared_object(search);
  if (!object.ok()) {
    cuda.status = object.status();
    return cuda;
  }
  cuda.path = object->path;
  const auto version = version_of(*object, "cuDriverGetVersion", "CUDA driver");
  if (!version.ok()) {
    cuda.status = version.status();
    return cuda;
  }
  cuda.version = *version;
  if (cuda.version < kOldestCuda) {
    cuda.status = error(Code::kSystem,
                        "the CUDA driver \"%s\" is for CUDA %s; 11.0 is the oldest that will do",
                        cuda.path.c_str(), cuda_version_text(cuda.version).c_str());
    return cuda;
  }
  cuda.status = find_functions(*object, kCudaTable, &cuda.call, &cuda.missing);
  return cuda;
}

NcclLibrary open_nccl(const LibrarySearch& search) {
  NcclLibrary nccl;
  const auto object = open_shared_object(search);
  if (!object.ok()) {
    nccl.status = object.status();
    return nccl;
  }
  nccl.path = object->path;
  const auto version = version_of(*object, "ncclGetVersion", "NCCL");
  if (!version.ok()) {
    nccl.status = version.status();
    return nccl;
  }
  nccl.version = *version;
  nccl.policy = nccl_policy(nccl.version);
  nccl.status = nccl.policy.usable;
  if (!nccl.status.ok()) return nccl;
  nccl.status = find_functions(*object, kNcclTable, &nccl.call, &nccl.missing);
  if (object->was_loaded && !search.chosen.empty() && search.chosen != nccl.path) {
    nccl.policy.remarks.push_back(format("%s is \"%s\", but the program has loaded \"%s\" before",
                                         search.chosen_by.c_str(), search.chosen.c_str(),
                                         nccl.path.c_str()));
  }
  return nccl;
}

std::vector<std::string> NcclLibrary::enabled() const {
  std::vector<std::string> all;
  if (!status.ok()) return all;
  const struct {
    bool is;
    const char* name;
  } features[] = {
      {policy.nonblocking, "non-blocking"},
      {policy.split && call.ncclCommSplit != nullptr, "split"},
      {call.ncclCommInitRankScalable != nullptr, "several roots"},
      {call.ncclMemAlloc != nullptr && call.ncclMemFree != nullptr &&
           call.ncclCommRegister != nullptr && call.ncclCommDeregister != nullptr,
       "registered memory"},
      {policy.windows && call.ncclCommWindowRegister != nullptr &&
           call.ncclCommWindowDeregister != nullptr,
       "windows"},
      {call.ncclCommShrink != nullptr, "shrink"},
      {call.ncclCommRevoke != nullptr, "revoke"},
  };
  for (const auto& feature : features) {
    if (feature.is) all.push_back(feature.name);
  }
  return all;
}

}  // namespace hvd
