// SPDX-License-Identifier: Apache-2.0
//
// A JSON array on disk that grows, and that parses whenever somebody copies it, or kill -9 or a
// full disk ends its writer. It knows no events: an element is a text.
//
// Growing in place cannot do that alone: JSON ends with a bracket, so that one more element means
// to change two places, and no single byte that is changed in between leaves valid JSON. Hence:
//
// - Room in advance. The file is `[`, elements, blanks (which JSON allows between elements) and, at
//   its very end, `]`. New elements are written over blanks; neither size nor bracket changes.
// - Pages. An element never crosses a multiple of 4096 bytes, each page begins with a comma, and a
//   page is written by a pwrite(2) of its own from memory of the same alignment, which Linux does
//   not leave halfway for a signal. So any mix of older and newer pages is valid, in whatever order
//   they reach the disk or a file server.
// - No witnesses. A reader's copy of a page may race with ours on file systems that do not lock
//   (ext4, tmpfs). So it is only written to under a write lease (fcntl(2)), which the kernel gives
//   if nobody else has the file open; who opens it then waits the microseconds until it is
//   returned. While somebody has it open, elements wait; after two seconds they go to a new file.
// - A new file, when the room is used up or somebody reads for long: a whole one, half as large
//   again, is written beside it (PATH.tmp) and renamed over it. Who has the old one open keeps a
//   complete array. If the disk is full, the old one stays.
//
// Where there are no leases (network file systems), what is left is a reader that copies the page
// that is being written, in the very moment, or whose reads do not begin at pages.
//
// One thread uses an object, with SIGXFSZ and SIGURG blocked.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libhvd/base/fd.h"
#include "libhvd/base/status.h"

namespace hvd {

class ArrayFile {
 public:
  static constexpr size_t kPage = 4096;
  // The longest element.
  static constexpr size_t kMostBytes = kPage - 8;

  // How much room a file has at first.
  explicit ArrayFile(size_t room = 256 << 10) : room_(room) {}

  // Makes the file with its first element, in place of one that is there. The text of an error
  // names the path.
  Status create(const std::string& path, std::string_view first);

  // Keeps an element for the next flush. No more than kMostBytes.
  void add(std::string_view element);

  // Writes what was added. False: not all, as somebody has the file open; call again soon. An
  // error is the end: the file has what found room.
  Expected<bool> flush();

  // Writes what was added and takes away the spare room, if the file is no larger than this.
  Status finish(size_t most_bytes_to_copy = 64 << 20);

 private:
  struct alignas(kPage) Page {
    char bytes[kPage];
  };

  Page& last() { return *fresh_.back(); }
  void begin_page();
  bool take_lease() const;
  void return_lease() const;
  Status write_in_place();
  Status write_what_fits();
  Status move_to_new_file(size_t room, bool last_time);
  Status fill(int fd, size_t room, bool last_time);
  Status copy_old_pages(int fd) const;
  Status trouble(int err) const;

  std::string path_;
  size_t room_;  // bytes of the file
  Fd fd_;
  bool leases_ = false;  // this file system has them
  bool changed_ = false;
  int64_t in_use_since_ns_ = 0;

  // The pages that are not on disk as they are here, in order; the last one is not full.
  std::vector<std::unique_ptr<Page>> fresh_;
  size_t first_fresh_ = 0;  // its number in the file
  size_t used_ = 0;         // bytes of the last page
};

}  // namespace hvd
