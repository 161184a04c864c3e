// SPDX-License-Identifier: Apache-2.0
//
// What is read out of texts of /proc. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hvd::info {

struct UnixSocket {
  uint64_t inode = 0;
  bool listens = false;
  std::string name;  // of an abstract one, without the @; else empty
};

// A line of /proc/N/net/unix; nothing for its heading.
std::optional<UnixSocket> parse_unix_socket(std::string_view line);

// Inode of a socket, from what /proc/N/fd/M points to: "socket:[12345]".
std::optional<uint64_t> socket_inode(std::string_view target);

// Path of the first file mapped in /proc/N/maps whose name is one of `stems` (separated by blanks)
// with an ending such as ".40": "libmpi.so". Empty if there is none.
std::string mapped_file(std::string_view maps, std::string_view stems);

// "T" and so on, and the parent, from /proc/N/stat, whose name of the program may hold anything.
struct ProcessStat {
  char state = '?';
  int parent = 0;
};
ProcessStat parse_stat(std::string_view stat);

// A variable in /proc/N/environ; empty if it is not there.
std::string variable_in(std::string_view environ, std::string_view name);

}  // namespace hvd::info
