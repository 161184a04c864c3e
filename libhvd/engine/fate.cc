// SPDX-License-Identifier: Apache-2.0
//
// See fate.h.
#include "libhvd/engine/fate.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "libhvd/base/clock.h"
#include "libhvd/base/status.h"

namespace hvd {
namespace {

// What the ranks of a node with a dead leader have to bring the line themselves.
constexpr int64_t kPatienceNs = 200 * 1000000LL;
constexpr const char* kIsGone = " is gone (";
// What a rank that claimed the line has to write and tell it.
constexpr int64_t kClaimNs = 500 * 1000000LL;

// One write(2). A closed standard error must not end the survivor, and nobody is left to complain
// to: the handles carry the same text.
void write_without_sigpipe(int fd, const std::string& text) {
  sigset_t pipe_signal;
  sigset_t before;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  if (write(fd, text.data(), text.size()) < 0 && errno == EPIPE &&
      sigismember(&before, SIGPIPE) == 0) {
    const timespec at_once = {0, 0};
    sigtimedwait(&pipe_signal, nullptr, &at_once);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

Fate::Fate(const Layout& layout, int rank, const std::vector<std::string>& hosts, Board* board,
           int fd, Events events)
    : layout_(layout),
      rank_(rank),
      hosts_(hosts),
      board_(board),
      fd_(fd),
      events_(std::move(events)) {}

std::string Fate::rank_on_host(int rank) const {
  return format("rank %d on %s", rank, hosts_[static_cast<size_t>(rank)].c_str());
}

void Fate::local_gone(int local_rank, const char* why) {
  const int rank = layout_.ranks[layout_.node_of[rank_]][static_cast<size_t>(local_rank)];
  if (board_->presence(local_rank) != Board::Presence::kHere) {
    if (local_rank == 0) {
      events_.leader_left(rank_on_host(rank) + " has shut down");
    } else {
      events_.rank_left(local_rank);
    }
    return;
  }
  declare(rank, why);
}

void Fate::neighbour_gone(int node, const std::string& why, bool in_order) {
  const int leader = layout_.leader(node);
  if (in_order) {
    events_.leader_left(rank_on_host(leader) + " has shut down");
  } else if (layout_.ranks[node].size() == 1) {
    declare(leader, why);
  } else if (!suspicion_) {
    suspicion_ = Suspicion{leader, why, now_ns() + kPatienceNs, false};
  }
}

bool Fate::check_suspicion(int64_t now_ns) {
  if (!suspicion_ || now_ns < suspicion_->due_ns) return false;
  const Suspicion suspicion = *suspicion_;
  suspicion_.reset();
  if (board_->told()) return false;
  if (suspicion.claimed) {
    write_line(suspicion.rank, suspicion.why);
  } else {
    declare(suspicion.rank, suspicion.why);
  }
  return true;
}

void Fate::declare(int rank, const std::string& why) {
  if (board_->told()) return;
  if (board_->claim_news()) {
    write_line(rank, why);
  } else if (!suspicion_) {
    // Who claimed it writes and tells within microseconds, unless it dies first.
    suspicion_ = Suspicion{rank, why, now_ns() + kClaimNs, true};
  }
}

void Fate::write_line(int rank, const std::string& why) {
  const int survivors = layout_.size - 1;
  const std::string line =
      format("%s%s%s); %d rank%s stop%s", rank_on_host(rank).c_str(), kIsGone, why.c_str(),
             survivors, survivors == 1 ? "" : "s", survivors == 1 ? "s" : "");
  write_without_sigpipe(fd_, "horovod: " + line + "\n");
  board_->tell(line);
  board_->ring_all();
  events_.tell_neighbours(line);
}

void Fate::call_off(const std::string& line) {
  if (!board_->claim_news()) return;
  board_->tell(line);
  board_->ring_all();
  events_.tell_neighbours(line);
}

bool Fate::is_about_a_death(const std::string& line) {
  return line.find(kIsGone) != std::string::npos;
}

void Fate::news(const std::string& line) {
  suspicion_.reset();
  if (!board_->claim_news()) return;
  board_->tell(line);
  board_->ring_all();
}

}  // namespace hvd
