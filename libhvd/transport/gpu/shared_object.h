// SPDX-License-Identifier: Apache-2.0
//
// A library that is opened at run time, and functions in it by a table. Never closed: neither CUDA
// nor NCCL survives that.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "libhvd/base/status.h"

namespace hvd {

struct LibrarySearch {
  std::string name;       // as the linker finds it: "libnccl.so.2"
  std::string stem;       // files of a process that are this library start so: "libnccl.so"
  std::string chosen;     // the file that a person has named, or ""
  std::string chosen_by;  // where: "HOROVOD_NCCL_LIB"
};

struct SharedObject {
  void* handle = nullptr;
  std::string path;  // without symbolic links
  bool was_loaded = false;
};

// The one that the process has loaded already (two in a process do not go well), else the chosen
// one, else what the linker finds. The error has the linker's own words.
Expected<SharedObject> open_shared_object(const LibrarySearch& search);

struct FunctionRow {
  const char* name;
  bool required;
  int since;      // the library's first version that has it
  size_t offset;  // of the pointer in the table
};

struct FunctionTable {
  const FunctionRow* rows;
  size_t count;
  std::string (*version_text)(int since);
};

// Fills the pointers at `to`. An error names the first required function that is not there; the
// optional ones become null, and their names are added to `missing`.
Status find_functions(const SharedObject& object, const FunctionTable& table, void* to,
                      std::vector<std::string>* missing);

}  // namespace hvd
