// SPDX-License-Identifier: Apache-2.0
//
// By name and not by header: this program is the same whether or not it was built with PMIx or MPI.
#include "libhvd/tools/info/libraries.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>

#include <functional>

#include "libhvd/base/status.h"

namespace hvd::info {
namespace {

// The file that a symbol comes from, without symbolic links: as /proc shows it.
Json path_of(void* symbol) {
  Dl_info where;
  if (dladdr(symbol, &where) == 0 || where.dli_fname == nullptr) return {};
  char path[PATH_MAX];
  return realpath(where.dli_fname, path) == nullptr ? Json(where.dli_fname) : Json(path);
}

Json library(const char* name, void* symbol, const std::function<std::string(void*)>& version) {
  Json json = Json::object().set("name", name).set("version", Json()).set("path", Json());
  if (symbol == nullptr) return json;
  const std::string text = version(symbol);
  if (!text.empty()) json.set("version", text);
  return json.set("path", path_of(symbol));
}

std::string plain_version(void* symbol) {
  const char* text = reinterpret_cast<const char* (*)()>(symbol)();
  return text == nullptr ? "" : text;
}

std::string mpi_version(void* symbol) {
  // MPI_MAX_LIBRARY_VERSION_STRING is 256 in Open MPI and 8192 in MPICH.
  std::string text(1 << 16, '\0');
  int length = 0;
  reinterpret_cast<int (*)(char*, int*)>(symbol)(text.data(), &length);
  return text.c_str();  // Open MPI 4.1 counts the zero byte, too
}

Json opened(const char* name, const std::string& version, const std::string& path) {
  return Json::object()
      .set("name", name)
      .set("version", version.empty() ? Json() : Json(version))
      .set("path", path.empty() ? Json() : Json(path));
}

}  // namespace

Json libraries_here(const CudaLibrary& cuda, const NcclLibrary& nccl) {
  Json all = Json::array();
  all.add(library("libhvd", dlsym(RTLD_DEFAULT, "hvd_version"), plain_version));
  all.add(library("PMIx", dlsym(RTLD_DEFAULT, "PMIx_Get_version"), plain_version));
  all.add(library("MPI", dlsym(RTLD_DEFAULT, "MPI_Get_library_version"), mpi_version));
  all.add(opened("CUDA", cuda_version_text(cuda.version), cuda.path));
  all.add(opened("NCCL", nccl_version_text(nccl.version), nccl.path));
  return all;
}

}  // namespace hvd::info
