// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a task's PYTHONPATH. Pure.
#pragma once

#include <string>
#include <string_view>

namespace hvd {

// `path` with `folder` first, so that its packages win over others of the same name. As it is if
// the folder is first already (a nested step inherits it); further down it may stay.
inline std::string with_folder_first(std::string_view folder, std::string_view path) {
  const std::string_view first = path.substr(0, path.find(':'));
  if (first == folder) return std::string(path);
  std::string result(folder);
  // An empty element is the current directory: PYTHONPATH= means none, "a::b" is kept.
  if (!path.empty()) result.append(1, ':').append(path);
  return result;
}

}  // namespace hvd
