// SPDX-License-Identifier: Apache-2.0
#include "libhvd/transport/gpu/shared_object.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>

#include <cstring>
#include <string_view>

namespace hvd {
namespace {

constexpr int kHow = RTLD_NOW | RTLD_LOCAL;

struct Scan {
  std::string_view stem;
  std::string found;
};

int look_at(dl_phdr_info* info, size_t, void* cookie) {
  auto* scan = static_cast<Scan*>(cookie);
  const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  if (file.substr(0, scan->stem.size()) != scan->stem) return 0;
  scan->found = path;
  return 1;
}

// Not by its name alone: a wheel's library is loaded from a folder that the linker does not know.
std::string loaded_file(const std::string& stem) {
  Scan scan = {stem, ""};
  dl_iterate_phdr(look_at, &scan);
  return scan.found;
}

std::string real_path(void* handle, const std::string& otherwise) {
  const link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name[0] == '\0') {
    return otherwise;
  }
  char path[PATH_MAX];
  return realpath(map->l_name, path) == nullptr ? map->l_name : path;
}

std::string linker_says() {
  const char* text = dlerror();
  return text == nullptr ? "the linker does not say why" : text;
}

}  // namespace

Expected<SharedObject> open_shared_object(const LibrarySearch& search) {
  const std::string loaded = loaded_file(search.stem);
  if (!loaded.empty()) {
    if (void* handle = dlopen(loaded.c_str(), kHow | RTLD_NOLOAD)) {
      return SharedObject{handle, real_path(handle, loaded), true};
    }
  }
  const std::string& file = search.chosen.empty() ? search.name : search.chosen;
  void* handle = dlopen(file.c_str(), kHow);
  if (handle != nullptr) return SharedObject{handle, real_path(handle, file), false};
  const std::string why = linker_says();
  if (search.chosen.empty()) return Status(Code::kSystem, why);
  return error(Code::kSystem, "%s is \"%s\", which cannot be opened: %s", search.chosen_by.c_str(),
               search.chosen.c_str(), why.c_str());
}

Status find_functions(const SharedObject& object, const FunctionTable& table, void* to,
                      std::vector<std::string>* missing) {
  for (size_t i = 0; i < table.count; ++i) {
    const FunctionRow& row = table.rows[i];
    void* function = dlsym(object.handle, row.name);
    if (function == nullptr && row.required) {
      return error(Code::kSystem, "\"%s\" lacks the function %s, which has been there since %s",
                   object.path.c_str(), row.name, table.version_text(row.since).c_str());
    }
    if (function == nullptr) missing->push_back(row.name);
    memcpy(static_cast<char*>(to) + row.offset, &function, sizeof function);
  }
  return ok_status();
}

}  // namespace hvd
