// SPDX-License-Identifier: Apache-2.0
//
// See fate.h.
#include "libhvd/engine/fate.h"

#include <unistd.h>

#include "libhvd/base/clock.h"
#include "libhvd/base/status.h"

namespace hvd {
namespace {

// What the ranks of a node with a dead leader have to bring the line themselves.
constexpr int64_t kPatienceNs = 200 * 1000000LL;

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
  if (board_->presence(local_rank) == Board::Presence::kAtEnd) {
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
    suspicion_ = Suspicion{leader, why, now_ns() + kPatienceNs};
  }
}

bool Fate::check_suspicion(int64_t now_ns) {
  if (!suspicion_ || now_ns < suspicion_->due_ns) return false;
  const Suspicion suspicion = *suspicion_;
  suspicion_.reset();
  declare(suspicion.rank, suspicion.why);
  return true;
}

void Fate::declare(int rank, const std::string& why) {
  if (!board_->claim_news()) return;
  const int survivors = layout_.size - 1;
  const std::string line =
      format("%s is gone (%s); %d rank%s stop%s", rank_on_host(rank).c_str(), why.c_str(),
             survivors, survivors == 1 ? "" : "s", survivors == 1 ? "s" : "");
  const std::string written = "horovod: " + line + "\n";
  if (write(fd_, written.data(), written.size()) < 0) {
    // Nobody is left to read it; the handles carry the same text.
  }
  board_->tell(line);
  board_->rouse();
  events_.tell_neighbours(line);
}

void Fate::news(const std::string& line) {
  suspicion_.reset();
  if (!board_->claim_news()) return;
  board_->tell(line);
  board_->rouse();
}

}  // namespace hvd
