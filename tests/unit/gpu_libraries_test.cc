// SPDX-License-Identifier: Apache-2.0
//
// Which CUDA and NCCL are opened, what is said of those that will not do, and what may be asked of
// a version of NCCL. The libraries are made here, each under a name of its own: none is ever
// closed.
#include "libhvd/transport/gpu/gpu_libraries.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/unit/catch.h"
#include "tests/unit/folder.h"

namespace hvd {
namespace {

using Names = std::vector<std::string>;

#define HVD_NAME(name, need, since, result, parameters) #name,
const Names kCudaNames = {HVD_CUDA_FUNCTIONS(HVD_NAME)};
const Names kNcclNames = {HVD_NCCL_FUNCTIONS(HVD_NAME)};

Names without(Names names, const Names& left_out) {
  for (const std::string& name : left_out) {
    names.erase(std::remove(names.begin(), names.end(), name), names.end());
  }
  return names;
}

// A library with these functions; the one called `teller` tells the version, as CUDA's and NCCL's.
void make_library(const std::string& path, const Names& functions, const std::string& teller,
                  int version) {
  const std::string command = "cc -shared -fPIC -w -x c -o '" + path + "' -";
  FILE* compiler = popen(command.c_str(), "w");
  REQUIRE(compiler != nullptr);
  for (const std::string& name : functions) {
    if (name == teller) {
      fprintf(compiler, "int %s(int *to) { *to = %d; return 0; }\n", name.c_str(), version);
    } else {
      fprintf(compiler, "int %s(void) { return 42; }\n", name.c_str());
    }
  }
  REQUIRE(pclose(compiler) == 0);
}

// A place for libNAME.so and the search that finds it there alone.
struct Place {
  explicit Place(const std::string& name)
      : path(folder.path() + "/lib" + name + ".so.2"),
        search{path, "lib" + name + ".so", "", "HOROVOD_NCCL_LIB"} {}
  test::Folder folder;
  std::string path;
  LibrarySearch search;
};

bool has(const Names& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

TEST_CASE("gpu: what may be asked of a version of NCCL") {
  const struct {
    int version;
    const char* refused;
    bool nonblocking, split, windows, abort_waits, same_nvls;
    Names remarks;
  } cases[] = {
      {2804,
       "NCCL 2.8.4 is too old: before 2.14 a communicator cannot be made under a deadline. Install "
       "2.28.9 or a later one",
       true,
       true,
       true,
       false,
       false,
       {}},
      {21304,
       "NCCL 2.13.4 is too old: before 2.14 a communicator cannot be made under a deadline. "
       "Install "
       "2.28.9 or a later one",
       true,
       true,
       true,
       false,
       false,
       {}},
      {21403,
       "",
       true,
       false,
       false,
       false,
       false,
       {"NCCL 2.14.3 cannot split communicators; 2.18 can",
        "NCCL 2.14.3 works; 2.28.9 or a later one is recommended"}},
      {21701,
       "",
       true,
       false,
       false,
       true,
       false,
       {"NCCL 2.17.1 cannot split communicators; 2.18 can",
        "NCCL 2.17.1 aborts a communicator only when all ranks do",
        "NCCL 2.17.1 works; 2.28.9 or a later one is recommended"}},
      {21801,
       "",
       true,
       true,
       false,
       false,
       false,
       {"NCCL 2.18.1 works; 2.28.9 or a later one is recommended"}},
      {22501,
       "NCCL 2.25.1 may hang for ever in ncclCommAbort; 2.26.2 does not. Install 2.28.9 or a later "
       "one",
       true,
       true,
       false,
       false,
       false,
       {}},
      {22602,
       "",
       false,
       true,
       false,
       false,
       false,
       {"NCCL 2.26.2 may hang at random with communicators that do not block, so they block",
        "NCCL 2.26.2 works; 2.28.9 or a later one is recommended"}},
      {22703,
       "",
       true,
       true,
       true,
       false,
       true,
       {"NCCL 2.27.3 works; 2.28.9 or a later one is recommended"}},
      {22803,
       "",
       true,
       true,
       false,
       false,
       true,
       {"NCCL 2.28.3 corrupts small tensors in symmetric memory, which is not used; 2.28.7 does "
        "not",
        "NCCL 2.28.3 works; 2.28.9 or a later one is recommended"}},
      {22807,
       "",
       true,
       true,
       true,
       false,
       true,
       {"NCCL 2.28.7 works; 2.28.9 or a later one is recommended"}},
      {22809, "", true, true, true, false, true, {}},
      {22902, "", true, true, true, false, false, {}},
  };
  for (const auto& c : cases) {
    CAPTURE(c.version);
    const NcclPolicy policy = nccl_policy(c.version);
    CHECK(policy.usable.text() == c.refused);
    CHECK(policy.nonblocking == c.nonblocking);
    CHECK(policy.abort_waits_for_all == c.abort_waits);
    CHECK(policy.same_nvls_everywhere == c.same_nvls);
    CHECK(policy.remarks == c.remarks);
    if (!policy.usable.ok()) continue;
    CHECK(policy.split == c.split);
    CHECK(policy.windows == c.windows);
  }
}

TEST_CASE("gpu: versions as people write them") {
  CHECK(cuda_version_text(12040) == "12.4");
  CHECK(cuda_version_text(13000) == "13.0");
  CHECK(cuda_version_text(0) == "");
  CHECK(nccl_version_text(2804) == "2.8.4");
  CHECK(nccl_version_text(22105) == "2.21.5");
}

TEST_CASE("gpu: libraries with all functions can be called, and everything in them is enabled") {
  Place cuda_place("hvdcudaright");
  make_library(cuda_place.path, kCudaNames, "cuDriverGetVersion", 12040);
  const CudaLibrary cuda = open_cuda(cuda_place.search);
  CHECK(cuda.status.text() == "");
  CHECK(cuda.path == cuda_place.path);
  CHECK(cuda.version == 12040);
  CHECK(cuda.missing.empty());
  CHECK(cuda.call.cuInit(0) == 42);

  Place nccl_place("hvdncclright");
  make_library(nccl_place.path, kNcclNames, "ncclGetVersion", 22809);
  const NcclLibrary nccl = open_nccl(nccl_place.search);
  CHECK(nccl.status.text() == "");
  CHECK(nccl.path == nccl_place.path);
  CHECK(nccl.version == 22809);
  CHECK(nccl.call.ncclGroupStart() == 42);
  CHECK(nccl.enabled() == Names{"non-blocking", "split", "several roots", "registered memory",
                                "windows", "shrink", "revoke"});
}

TEST_CASE("gpu: an optional function may be missing, and what needs it is not enabled") {
  Place place("hvdncclsome");
  make_library(place.path, without(kNcclNames, {"ncclCommShrink", "ncclCommDeregister"}),
               "ncclGetVersion", 22602);
  const NcclLibrary nccl = open_nccl(place.search);
  CHECK(nccl.status.text() == "");
  CHECK(nccl.missing == Names{"ncclCommShrink", "ncclCommDeregister"});
  CHECK(nccl.call.ncclCommShrink == nullptr);
  CHECK(nccl.enabled() == Names{"split", "several roots", "revoke"});
}

TEST_CASE("gpu: a library that will not do is refused with its path and the reason") {
  const struct {
    const char* name;
    Names functions;
    int version;
    const char* text;  // %s is the path
  } cases[] = {
      {"hvdncclabort", without(kNcclNames, {"ncclCommAbort"}), 22809,
       "\"%s\" lacks the function ncclCommAbort, which has been there since 2.14.0"},
      {"hvdncclold",
       {"ncclGetVersion", "ncclAllReduce"},
       21003,
       "NCCL 2.10.3 is too old: before 2.14 a communicator cannot be made under a deadline. "
       "Install "
       "2.28.9 or a later one"},
      {"hvdncclbad", kNcclNames, 22501,
       "NCCL 2.25.1 may hang for ever in ncclCommAbort; 2.26.2 does not. Install 2.28.9 or a later "
       "one"},
      {"hvdncclnone", {"something"}, 0, "\"%s\" is no NCCL: it lacks the function ncclGetVersion"},
      {"hvdnccldumb", kNcclNames, 0, "\"%s\" does not tell its version: ncclGetVersion returns 0"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.name);
    Place place(c.name);
    make_library(place.path, c.functions, "ncclGetVersion", c.version);
    const NcclLibrary nccl = open_nccl(place.search);
    CHECK(nccl.status.text() == format(c.text, place.path.c_str()));
    CHECK(nccl.path == place.path);
    CHECK(nccl.version == c.version);
    CHECK(nccl.enabled().empty());
  }
  Place place("hvdcudaold");
  make_library(place.path, {"cuDriverGetVersion"}, "cuDriverGetVersion", 10020);
  const CudaLibrary cuda = open_cuda(place.search);
  CHECK(cuda.status.text() ==
        "the CUDA driver \"" + place.path + "\" is for CUDA 10.2; 11.0 is the oldest that will do");
}

TEST_CASE("gpu: what cannot be opened is told in the linker's words, and who has chosen it") {
  Place place("hvdncclabsent");
  CHECK(open_nccl(place.search).status.text() ==
        place.path + ": cannot open shared object file: No such file or directory");
  FILE* file = fopen(place.path.c_str(), "w");
  REQUIRE(file != nullptr);
  fputs("GROUP ( libnccl_static.a ) and more than a header would be long, so that it is read\n",
        file);
  REQUIRE(fclose(file) == 0);
  place.search.chosen = place.path;
  const std::string text = open_nccl(place.search).status.text();
  CHECK(text.find("HOROVOD_NCCL_LIB is \"" + place.path + "\", which cannot be opened: ") == 0);
}

TEST_CASE("gpu: the chosen library wins over the system's, the one that is loaded over both") {
  Place system("hvdncclorder");
  Place chosen("hvdncclorder");
  make_library(system.path, kNcclNames, "ncclGetVersion", 22809);
  make_library(chosen.path, kNcclNames, "ncclGetVersion", 22902);
  LibrarySearch search = system.search;
  search.chosen = chosen.path;
  search.stem = "libhvdncclnobody.so";  // or the first one opened would be the one that is loaded
  CHECK(open_nccl(system.search).version == 22809);
  CHECK(open_nccl(search).version == 22902);

  LibrarySearch late = {"libhvdnccllate.so.2", "libhvdnccllate.so", chosen.path,
                        "HOROVOD_NCCL_LIB"};
  Place early("hvdnccllate");
  make_library(early.path, kNcclNames, "ncclGetVersion", 22807);
  REQUIRE(dlopen(early.path.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr);
  const NcclLibrary nccl = open_nccl(late);
  CHECK(nccl.version == 22807);
  CHECK(nccl.path == early.path);
  REQUIRE(nccl.policy.remarks.size() == 2);
  CHECK(nccl.policy.remarks[1] == "HOROVOD_NCCL_LIB is \"" + chosen.path +
                                      "\", but the program has loaded \"" + early.path +
                                      "\" before");
}

TEST_CASE("gpu: the libraries are looked for under their names") {
  CHECK(cuda_search().name == "libcuda.so.1");
  CHECK(nccl_search("/x").name == "libnccl.so.2");
  CHECK(nccl_search("/x").stem == "libnccl.so");
  CHECK(nccl_search("/x").chosen == "/x");
  CHECK(has(kNcclNames, "ncclCommGetAsyncError"));
}

}  // namespace hvd
