// SPDX-License-Identifier: Apache-2.0
//
// Which work on a device is ordered after which, and which accesses to memory are not: vector
// clocks over streams, as a race detector has them over threads. It decides from the order of the
// calls alone, never from what happened to run first, so a forgotten wait is found in every run and
// with every delay. Not thread-safe: the engine calls it under its lock.
//
// Every stream has a clock; a task ticks its own component. The host is one more clock, shared by
// all its threads: what synchronises them with each other is not seen here, and to guess would
// accuse the innocent. A task knows what the host knew when it was submitted, what came before it
// in its stream, and the clocks of the events its stream waited for.
#ifndef TESTS_FAKES_GPU_ORDER_H
#define TESTS_FAKES_GPU_ORDER_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fake_gpu {

using Clock = std::vector<std::uint64_t>;  // by stream

struct Access {
  std::uintptr_t begin = 0;
  size_t bytes = 0;
  bool writes = false;
};

class Order {
 public:
  // Two accesses to the same bytes, at least one of which writes, without an order between them.
  struct Race {
    int stream;        // of the earlier one
    std::string what;  // the earlier one
    bool wrote;
    std::uintptr_t at;  // the first byte they share
  };

  // The new stream's number.
  int add_stream();

  // A task is submitted to the stream: it knows what the host knows.
  void step(int stream);

  // What is known after the stream's last task.
  const Clock& clock(int stream) const { return streams_[static_cast<size_t>(stream)]; }

  // The stream's next task comes after that.
  void join(int stream, const Clock& clock) { join(streams_[static_cast<size_t>(stream)], clock); }

  // The host has seen that.
  void host_knows(const Clock& clock) { join(host_, clock); }

  // The stream's last task touches memory. The first race with what was touched before, if there is
  // one.
  std::optional<Race> touch(int stream, const Access& access, const std::string& what);

  // The memory was freed, or is new.
  void forget(std::uintptr_t begin, size_t bytes);

 private:
  struct Mark {
    int stream;
    std::uint64_t tick;
    std::string what;
  };
  struct Piece {  // of memory whose bytes were all touched alike
    std::uintptr_t end;
    std::optional<Mark> written;
    std::vector<Mark> read;  // since then, the last of each stream
  };
  using Pieces = std::map<std::uintptr_t, Piece>;

  static void join(Clock& into, const Clock& clock);
  bool knows(int stream, const Mark& mark) const;
  std::optional<Race> race(int stream, std::uintptr_t begin, const Piece& piece, bool writes) const;
  void split(std::uintptr_t at);
  void add_read(Piece& piece, const Mark& mark);

  std::vector<Clock> streams_;
  Clock host_;
  Pieces pieces_;
};

}  // namespace fake_gpu

#endif  // TESTS_FAKES_GPU_ORDER_H
