// SPDX-License-Identifier: Apache-2.0
//
// See array_file.h.
#include "libhvd/trace/array_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "libhvd/base/clock.h"

namespace hvd {
namespace {

constexpr int64_t kPatienceNs = 2000000000;
// What waits for a reader to go may have so many pages before it is waited no more.
constexpr size_t kMostFreshPages = 2048;
constexpr size_t kCopyBytes = 256 << 10;

// 0 or an errno value.
int write_all(int fd, const char* bytes, size_t size, off_t at) {
  while (size > 0) {
    const ssize_t n = pwrite(fd, bytes, size, at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : ENOSPC;
    bytes += n, size -= static_cast<size_t>(n), at += n;
  }
  return 0;
}

// Whole pages of blanks from `at` to `end`, and the bracket. 0 or an errno value.
int write_blanks(int fd, size_t at, size_t end) {
  std::string blanks(std::min(kCopyBytes, end - at), ' ');
  for (size_t i = ArrayFile::kPage - 1; i < blanks.size(); i += ArrayFile::kPage) blanks[i] = '\n';
  for (; at < end; at += blanks.size()) {
    blanks.resize(std::min(blanks.size(), end - at));
    if (at + blanks.size() == end) blanks[blanks.size() - 2] = ']';
    const int err = write_all(fd, blanks.data(), blanks.size(), static_cast<off_t>(at));
    if (err != 0) return err;
  }
  return 0;
}

// Where symbolic links lead; the path itself if there is nothing yet.
std::string resolved(const std::string& path) {
  char real[PATH_MAX];
  return realpath(path.c_str(), real) != nullptr ? real : path;
}

}  // namespace

Status ArrayFile::create(const std::string& path, std::string_view first) {
  path_ = resolved(path);
  struct stat old;
  if (stat(path_.c_str(), &old) == 0 && !S_ISREG(old.st_mode)) {
    return error(Code::kSystem, "timeline file \"%s\" is there and is no regular file",
                 path.c_str());
  }
  begin_page();
  last().bytes[0] = '[';
  last().bytes[1] = '\n';
  memcpy(last().bytes + 2, first.data(), first.size());
  used_ = 2 + first.size();
  return move_to_new_file(std::max(room_ / kPage * kPage, 4 * kPage), false);
}

void ArrayFile::add(std::string_view element) {
  if (used_ + 2 + element.size() >= kPage) begin_page();
  char* at = last().bytes + used_;
  at[0] = ',';
  at[1] = '\n';
  memcpy(at + 2, element.data(), element.size());
  used_ += 2 + element.size();
  changed_ = true;
}

void ArrayFile::begin_page() {
  fresh_.push_back(std::make_unique<Page>());
  memset(last().bytes, ' ', kPage - 1);
  last().bytes[kPage - 1] = '\n';
  used_ = 0;
}

Expected<bool> ArrayFile::flush() {
  if (!changed_) return true;
  // The last page is the bracket's.
  if ((first_fresh_ + fresh_.size() + 1) * kPage > room_) {
    const size_t more = std::max(room_ / 2, (fresh_.size() + 1) * kPage);
    if (Status s = move_to_new_file((room_ + more) / kPage * kPage, false); !s.ok()) {
      static_cast<void>(write_what_fits());
      return s;
    }
    return true;
  }
  if (take_lease()) {
    in_use_since_ns_ = 0;
    const Status written = write_in_place();
    return_lease();
    if (!written.ok()) return written;
    return true;
  }
  if (in_use_since_ns_ == 0) in_use_since_ns_ = now_ns();
  if (now_ns() - in_use_since_ns_ < kPatienceNs && fresh_.size() < kMostFreshPages) return false;
  if (Status s = move_to_new_file(room_, false); !s.ok()) return s;
  return true;
}

Status ArrayFile::finish(size_t most_bytes_to_copy) {
  Status moved;
  const size_t bytes = (first_fresh_ + fresh_.size()) * kPage;
  const bool fits = bytes + kPage <= room_;
  if (bytes <= most_bytes_to_copy || !fits) {
    moved = move_to_new_file(bytes + kPage, true);
    if (moved.ok()) return moved;
  }
  const Status written = write_what_fits();
  return fits ? written : moved;
}

// The last that is written: rather in sight of a reader than not at all.
Status ArrayFile::write_what_fits() {
  while ((first_fresh_ + fresh_.size() + 1) * kPage > room_) fresh_.pop_back();
  const bool leased = take_lease();
  const Status written = write_in_place();
  if (leased) return_lease();
  return written;
}

bool ArrayFile::take_lease() const {
  return !leases_ || fcntl(fd_.get(), F_SETLEASE, F_WRLCK) == 0;
}

void ArrayFile::return_lease() const {
  if (leases_) fcntl(fd_.get(), F_SETLEASE, F_UNLCK);
}

Status ArrayFile::write_in_place() {
  for (size_t i = 0; i < fresh_.size(); ++i) {
    const auto at = static_cast<off_t>((first_fresh_ + i) * kPage);
    if (const int err = write_all(fd_.get(), fresh_[i]->bytes, kPage, at); err != 0)
      return trouble(err);
  }
  first_fresh_ += fresh_.size() - 1;
  fresh_.erase(fresh_.begin(), fresh_.end() - 1);
  changed_ = false;
  return ok_status();
}

Status ArrayFile::move_to_new_file(size_t room, bool last_time) {
  const std::string temporary = path_ + ".tmp";
  unlink(temporary.c_str());
  Fd fd(open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd.valid()) return trouble(errno);
  Status status = fill(fd.get(), room, last_time);
  if (status.ok()) {
    // The signal that somebody waits for the lease: to this thread, which blocks it.
    const f_owner_ex owner = {F_OWNER_TID, gettid()};
    fcntl(fd.get(), F_SETOWN_EX, &owner);
    fcntl(fd.get(), F_SETSIG, SIGURG);
    // Nobody else can have it open: if there is no lease now, there never is.
    leases_ = fcntl(fd.get(), F_SETLEASE, F_WRLCK) == 0;
    if (leases_) fcntl(fd.get(), F_SETLEASE, F_UNLCK);
    if (rename(temporary.c_str(), path_.c_str()) != 0) status = trouble(errno);
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  fd_ = std::move(fd);
  room_ = room;
  in_use_since_ns_ = 0;
  first_fresh_ += fresh_.size() - 1;
  fresh_.erase(fresh_.begin(), fresh_.end() - 1);
  changed_ = false;
  return ok_status();
}

// Nobody sees this file yet.
Status ArrayFile::fill(int fd, size_t room, bool last_time) {
  if (Status s = copy_old_pages(fd); !s.ok()) return s;
  size_t at = first_fresh_ * kPage;
  for (const auto& page : fresh_) {
    const size_t bytes = last_time && page == fresh_.back() ? used_ : kPage;
    if (const int err = write_all(fd, page->bytes, bytes, static_cast<off_t>(at)); err != 0)
      return trouble(err);
    at += bytes;
  }
  if (const int err = last_time ? write_all(fd, "\n]\n", 3, static_cast<off_t>(at))
                                : write_blanks(fd, at, room);
      err != 0) {
    return trouble(err);
  }
  // File servers say only now that a quota is used up, and the old file is to stay then.
  return fdatasync(fd) == 0 ? ok_status() : trouble(errno);
}

Status ArrayFile::copy_old_pages(int fd) const {
  std::string buffer(std::min(kCopyBytes, first_fresh_ * kPage), '\0');
  for (size_t at = 0, end = first_fresh_ * kPage; at < end;) {
    const ssize_t n =
        pread(fd_.get(), &buffer[0], std::min(buffer.size(), end - at), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return trouble(n < 0 ? errno : EIO);
    if (const int err =
            write_all(fd, buffer.data(), static_cast<size_t>(n), static_cast<off_t>(at));
        err != 0) {
      return trouble(err);
    }
    at += static_cast<size_t>(n);
  }
  return ok_status();
}

Status ArrayFile::trouble(int err) const {
  return errno_error(err, "timeline file \"%s\"", path_.c_str());
}

}  // namespace hvd
