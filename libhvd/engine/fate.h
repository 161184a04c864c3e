// SPDX-License-Identifier: Apache-2.0
//
// Deaths: decides which ends are deaths, who writes the one line, and when.
//
// The first survivor that sees a death writes the line before it tells anyone: among the ranks of a
// node the one that claims it on the board; for a node whose leader is gone its other ranks have
// 200 ms to bring the line before a neighbour writes it itself (at once if it had no others).
// A process that said it was at its end has left in order and is no death.
//
// Called under the engine's lock.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libhvd/control/board.h"
#include "libhvd/topo/layout.h"

namespace hvd {

class Fate {
 public:
  struct Events {
    // This rank has just written the line about a death it saw itself: tell the others.
    std::function<void(const std::string& line)> tell_neighbours;
    // The leader of the node left in order: nothing can be agreed on any more.
    std::function<void(const std::string& why)> leader_left;
    // Another local rank left in order.
    std::function<void(int local_rank)> rank_left;
  };

  // `hosts` by rank. The line goes to descriptor `fd`.
  Fate(const Layout& layout, int rank, const std::vector<std::string>& hosts, Board* board, int fd,
       Events events);

  // The process of a local rank ended.
  void local_gone(int local_rank, const char* why);
  // The connection to the leader of a neighbour node ended. `in_order`: it was allowed to.
  void neighbour_gone(int node, const std::string& why, bool in_order);
  // A rank did what no rank does.
  void broken(int rank, const char* what) { declare(rank, what); }
  // The line came from another node: nobody here writes one.
  void news(const std::string& line);

  // The job cannot start, and `line` says why: everybody hears it, nobody writes it.
  void call_off(const std::string& line);
  // Whether a line that was told is about a death.
  static bool is_about_a_death(const std::string& line);

  // Writes the line about a rank where those who should have did not. True if it did.
  bool check_suspicion(int64_t now_ns);
  int64_t due_ns() const { return suspicion_ ? suspicion_->due_ns : INT64_MAX; }

  std::string rank_on_host(int rank) const;  // "rank 1 on node0"

 private:
  struct Suspicion {
    int rank;
    std::string why;
    int64_t due_ns;
    bool claimed;  // by a rank that has not told since
  };
  void declare(int rank, const std::string& why);
  void write_line(int rank, const std::string& why);

  const Layout& layout_;
  const int rank_;
  const std::vector<std::string>& hosts_;
  Board* const board_;
  const int fd_;
  const Events events_;
  std::optional<Suspicion> suspicion_;
};

}  // namespace hvd
