// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/gpu/segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#include <map>
#include <mutex>

#include "tests/fakes/gpu/settings.h"

namespace fake_gpu {
namespace {

constexpr long kPatience = 5;  // ms, after which a waiter looks at what rings no bell
constexpr time_t kYoung = 10;  // s, in which a file may have no lock yet

size_t whole_pages(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

bool lock_byte(int file, off_t byte, off_t bytes) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_start = byte;
  lock.l_len = bytes;
  return fcntl(file, F_OFD_SETLK, &lock) == 0;
}

// Files that nobody has open any more: their ranks were killed before all had come.
void sweep() {
  DIR* directory = opendir(settings().directory.c_str());
  if (directory == nullptr) return;
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] == '.') continue;
    const int file = openat(dirfd(directory), entry->d_name, O_RDWR | O_CLOEXEC);
    if (file < 0) continue;
    struct stat status;
    if (fstat(file, &status) == 0 && time(nullptr) - status.st_mtime > kYoung &&
        lock_byte(file, 0, 0)) {
      unlinkat(dirfd(directory), entry->d_name, 0);
    }
    close(file);
  }
  closedir(directory);
}

struct Roots {
  std::mutex mutex;
  std::map<std::string, int> files;
  int made = 0;
};

Roots& roots() {
  static auto* roots = new Roots;
  return *roots;
}

std::string path_of(const std::string& name) { return settings().directory + "/" + name; }

int open_file(const std::string& name) {
  int file = -1;
  for (int tries = 0; file < 0 && tries < 10;
       ++tries) {  // others remove the directory with its last file
    mkdir(settings().directory.c_str(), 0700);
    file = ::open(path_of(name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  }
  return file;
}

// A root that nobody came to.
__attribute__((destructor)) void remove_roots() {
  for (const auto& [name, file] : roots().files) unlink(path_of(name).c_str());
  rmdir(settings().directory.c_str());
}

}  // namespace

bool Segment::make_root(std::string* name) {
  sweep();
  Roots& all = roots();
  const std::lock_guard lock(all.mutex);
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  *name = "comm-" + std::to_string(getpid()) + "-" + std::to_string(++all.made) + "-" +
          std::to_string(now.tv_sec * 1000000 + now.tv_nsec / 1000);
  const int file = open_file(*name);
  if (file < 0 || !lock_byte(file, 0, 1)) return false;
  all.files[*name] = file;
  return true;
}

void Segment::forget_root(const std::string& name) {
  const std::lock_guard lock(roots().mutex);
  const auto found = roots().files.find(name);
  if (found == roots().files.end()) return;
  close(found->second);
  roots().files.erase(found);
}

size_t Segment::bytes(int ranks) {
  const auto n = static_cast<size_t>(ranks);
  return whole_pages(sizeof(Shared)) + n * kSlotBytes + n * n * sizeof(Mail);
}

std::unique_ptr<Segment> Segment::open(const std::string& name, int ranks, int rank) {
  const int file = open_file(name);
  if (file < 0) return nullptr;
  std::unique_ptr<Segment> segment(new Segment(path_of(name), file, ranks));
  const size_t bytes = Segment::bytes(ranks);
  if (!lock_byte(file, rank + 1, 1) || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    return nullptr;
  }
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) return nullptr;
  segment->shared_ = static_cast<Shared*>(at);
  segment->slots_ = static_cast<char*>(at) + whole_pages(sizeof(Shared));
  segment->mails_ =
      reinterpret_cast<Mail*>(segment->slots_ + static_cast<size_t>(ranks) * kSlotBytes);
  return segment;
}

Segment::~Segment() {
  if (shared_ != nullptr) munmap(shared_, bytes(ranks_));
  close(file_);
}

void Segment::remove_name() {
  unlink(path_.c_str());
  rmdir(settings().directory.c_str());
}

void Segment::ring() {
  ++shared_->bell;
  syscall(SYS_futex, &shared_->bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Segment::wait(std::uint32_t seen) {
  const timespec patience = {0, kPatience * 1000000};
  syscall(SYS_futex, &shared_->bell, FUTEX_WAIT, seen, &patience, nullptr, 0);
}

bool Segment::is_alive(int rank) const {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_start = rank + 1;
  lock.l_len = 1;
  return fcntl(file_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace fake_gpu
