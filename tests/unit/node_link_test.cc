// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of a node share, with ranks as threads and as processes.
#include "libhvd/transport/node_link.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cstring>
#include <map>

#include "tests/unit/catch.h"
#include "tests/unit/processes.h"

using hvd::Code;
using hvd::Deadline;
using hvd::Fd;
using hvd::NodeLink;
using hvd::NodeListener;
using hvd_test::eventually;
using hvd_test::in_threads;
using hvd_test::Process;
using Link = hvd::Expected<std::unique_ptr<NodeLink>>;

namespace {

constexpr const char* kSecret = "the job's secret";
constexpr const char* kLeader = "rank 4 on node2";
constexpr size_t kBytes = 100000;

// Local rank 0 is rank 4.
std::vector<std::string> names(int local_size) {
  std::vector<std::string> all;
  for (int r = 0; r < local_size; ++r) all.push_back(hvd::format("rank %d on node2", 4 + r));
  return all;
}

Deadline soon() { return Deadline::after_ms(20000); }

NodeListener open_listener() {
  auto listener = NodeListener::open();
  REQUIRE(listener.ok());
  return std::move(*listener);
}

// A node of threads: the result of every local rank.
std::vector<Link> meet(int local_size, size_t bytes, Deadline deadline) {
  NodeListener listener = open_listener();
  const std::string name = listener.name;
  std::vector<Link> links;
  for (int r = 0; r < local_size; ++r) links.emplace_back(hvd::Status(Code::kInternal, "not run"));
  in_threads(local_size, [&](int r) {
    links[r] =
        r == 0 ? NodeLink::lead(std::move(listener), kSecret, names(local_size), bytes, deadline)
               : NodeLink::join(name, kSecret, r, kLeader, deadline);
  });
  return links;
}

bool rings(const NodeLink& link) {
  std::vector<pollfd> fds;
  link.add_poll_fds(&fds);
  return poll(fds.data(), 1, 0) == 1;
}

std::map<int, std::string> deaths(NodeLink* link) {
  std::map<int, std::string> seen;
  link->check_peers([&](int r, const char* why) { seen[r] = why; });
  return seen;
}

Fd connect_raw(const std::string& name) {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  REQUIRE(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length) == 0);
  return fd;
}

}  // namespace

TEST_CASE("the ranks of a node share zeroed memory and can ring each other") {
  for (int size : {1, 2, 5}) {
    auto links = meet(size, kBytes, soon());
    for (int r = 0; r < size; ++r) {
      INFO("local rank " << r << " of " << size << ": " << links[r].status().text());
      REQUIRE(links[r].ok());
      NodeLink& link = **links[r];
      CHECK(link.local_rank() == r);
      CHECK(link.local_size() == size);
      CHECK(link.bytes() == kBytes);
      CHECK(link.base()[r] == 0);
      CHECK(link.base()[kBytes - 1 - r] == 0);
      link.base()[r] = static_cast<char>('a' + r);
    }
    for (int r = 0; r < size; ++r) {
      CHECK(std::string((*links[r])->base(), size) == std::string("abcde", size));
      for (int other = 0; other < size; ++other) {
        CHECK_FALSE(rings(**links[other]));
        (*links[r])->ring(other);
        (*links[r])->ring(other);
        CHECK(rings(**links[other]));
        (*links[other])->hush();
        CHECK_FALSE(rings(**links[other]));
      }
    }
  }
}

TEST_CASE("more local ranks than descriptors fit a message") {
  rlimit before;
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  constexpr int kSize = 300;
  rlimit raised = before;
  raised.rlim_cur = std::min<rlim_t>(before.rlim_max, 4096);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &raised) == 0);
  // 300 processes that are forked with a sanitizer, on a machine that others use, take their time.
  const Deadline late = Deadline::after_ms(90000);
  NodeListener listener = open_listener();
  const std::string name = listener.name;
  Process others([&] {
    rlimit more = raised;
    if (setrlimit(RLIMIT_NOFILE, &more) != 0) return 1;
    std::vector<pid_t> pids;
    for (int r = 1; r < kSize; ++r) {
      const pid_t pid = fork();
      if (pid == 0) {
        auto link = NodeLink::join(name, kSecret, r, kLeader, late);
        if (!link.ok() || (*link)->local_size() != kSize) _exit(1);
        (*link)->base()[r] = 1;
        (*link)->ring(0);
        _exit(0);
      }
      pids.push_back(pid);
    }
    int bad = 0;
    for (pid_t pid : pids) {
      int status;
      waitpid(pid, &status, 0);
      bad += status != 0;
    }
    return bad == 0 ? 0 : 1;
  });
  auto link = NodeLink::lead(std::move(listener), kSecret, names(kSize), kBytes, late);
  INFO(link.status().text());
  REQUIRE(link.ok());
  CHECK(others.wait() == 0);
  CHECK(std::string((*link)->base() + 1, kSize - 1) == std::string(kSize - 1, 1));
  link = hvd::Status();
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("a rank without room for the descriptors says which limit to raise") {
  NodeListener listener = open_listener();
  Process joiner([&] {
    // Standard streams, the listener, the joiner's socket, and room for two more.
    const int next = dup(0);
    const rlimit few{static_cast<rlim_t>(next + 3), static_cast<rlim_t>(next + 3)};
    close(next);
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
    auto link = NodeLink::join(listener.name, kSecret, 1, kLeader, soon());
    return link.status().text().find("limit of open files (ulimit -n)") != std::string::npos ? 0
                                                                                             : 2;
  });
  auto link = NodeLink::lead(std::move(listener), kSecret, names(2), kBytes, soon());
  CHECK(joiner.wait() == 0);
}

TEST_CASE("local ranks that do not come are named, to those who came as well") {
  NodeListener listener = open_listener();
  const std::string name = listener.name;
  const Deadline deadline = Deadline::after_ms(300);
  Link leader = hvd::Status(), joiner = hvd::Status();
  in_threads(2, [&](int r) {
    if (r == 0) {
      leader = NodeLink::lead(std::move(listener), kSecret, names(4), kBytes, deadline);
    } else {
      joiner = NodeLink::join(name, kSecret, 2, kLeader, deadline);
    }
  });
  const std::string text =
      "rank 5 on node2, rank 7 on node2 did not connect to rank 4 on node2 in time";
  CHECK(leader.status().code() == Code::kTimeout);
  CHECK(leader.status().text() == text);
  CHECK(joiner.status().code() == Code::kTimeout);
  CHECK(joiner.status().text() == text);
}

TEST_CASE("a rank whose leader never answers gives up at the deadline, or at once if it is gone") {
  NodeListener listener = open_listener();
  auto link = NodeLink::join(listener.name, kSecret, 1, kLeader, Deadline::after_ms(50));
  CHECK(link.status().code() == Code::kTimeout);
  CHECK(link.status().text() == "rank 4 on node2 did not answer in time");

  const std::string name = listener.name;
  listener.fd.reset();
  link = NodeLink::join(name, kSecret, 1, kLeader, soon());
  CHECK(link.status().code() == Code::kPeerLost);
  CHECK(link.status().text() == "rank 4 on node2 does not listen at \"@" + name +
                                    "\". It has ended, or this rank is in another network "
                                    "namespace (container)");
}

TEST_CASE("strangers and garbage are not let in and do not disturb") {
  NodeListener listener = open_listener();
  const std::string name = listener.name;
  const Fd silent = connect_raw(name);
  const Fd garbage = connect_raw(name);
  REQUIRE(send(garbage.get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL) == 18);
  const Fd half = connect_raw(name);
  REQUIRE(send(half.get(), "HVD1", 4, MSG_NOSIGNAL) == 4);
  { const Fd gone = connect_raw(name); }

  Link links[4] = {hvd::Status(), hvd::Status(), hvd::Status(), hvd::Status()};
  std::atomic<int> refused{0};
  in_threads(4, [&](int i) {
    if (i == 0) {
      links[0] = NodeLink::lead(std::move(listener), kSecret, names(2), kBytes, soon());
    } else if (i < 3) {
      links[i] = NodeLink::join(name, i == 1 ? "another job's secret" : kSecret, i == 1 ? 1 : 7,
                                kLeader, soon());
      ++refused;
    } else {
      eventually([&] { return refused == 2; });
      links[3] = NodeLink::join(name, kSecret, 1, kLeader, soon());
    }
  });
  CHECK(links[0].ok());
  CHECK(links[1].status().text() ==
        "rank 4 on node2: not a process of this job (it does not know the "
        "job's secret)");
  CHECK(links[2].status().text() == "rank 4 on node2: the other side closed the connection");
  CHECK(links[3].ok());
}

TEST_CASE("too much memory is an error that says how much, on every rank") {
  auto links = meet(2, size_t{1} << 50, soon());
  CHECK(links[0].status().code() == Code::kSystem);
  const std::string& text = links[0].status().text();
  CHECK(text.find("reserving 1125899906842624 bytes of memory that the ranks of this node share: "
                  "the node has ") == 0);
  CHECK(text.find("left. Ask for more memory (--mem), or run fewer ranks on the node") !=
        std::string::npos);
  CHECK(links[1].status().text() == text);
}

TEST_CASE("a rank that ends while the others still come is named") {
  NodeListener listener = open_listener();
  Process joiner([&] {
    (void)NodeLink::join(listener.name, kSecret, 2, kLeader, Deadline::after_ms(100)).ok();
    return 0;
  });
  auto link = NodeLink::lead(std::move(listener), kSecret, names(3), kBytes, soon());
  CHECK(link.status().code() == Code::kPeerLost);
  CHECK(link.status().text() == "rank 6 on node2 ended while the ranks of its node met");
}

TEST_CASE("the end of a process is seen by the leader, and the leader's by all, once") {
  NodeListener listener = open_listener();
  const std::string name = listener.name;
  // A node of processes: 0 is this one, 1 dies, 2 watches the leader.
  Process one([&] {
    auto link = NodeLink::join(name, kSecret, 1, kLeader, soon());
    pause();
    return 0;
  });
  Process two([&] {
    listener.fd.reset();
    auto link = NodeLink::join(name, kSecret, 2, kLeader, soon());
    if (!link.ok()) return 1;
    std::map<int, std::string> seen;
    eventually([&] { return !(seen = deaths(link->get())).empty(); });
    return seen == std::map<int, std::string>{{0, "connection closed"}} ? 0 : 2;
  });
  auto link = NodeLink::lead(std::move(listener), kSecret, names(3), kBytes, soon());
  REQUIRE(link.ok());
  CHECK(deaths(link->get()).empty());
  one.kill_now();
  std::map<int, std::string> seen;
  CHECK(eventually([&] { return !(seen = deaths(link->get())).empty(); }));
  CHECK(seen == std::map<int, std::string>{{1, "connection closed"}});
  CHECK(deaths(link->get()).empty());
  std::vector<pollfd> fds;
  (*link)->add_poll_fds(&fds);
  CHECK(poll(fds.data(), fds.size(), 0) == 0);
  link = hvd::Status();
  CHECK(two.wait() == 0);
}

TEST_CASE("a process is seen to end while its child still holds the socket") {
  NodeListener listener = open_listener();
  const std::string name = listener.name;
  int to_child[2];
  REQUIRE(pipe2(to_child, O_CLOEXEC) == 0);
  Process one([&] {
    auto link = NodeLink::join(name, kSecret, 1, kLeader, soon());
    if (!link.ok()) return 1;
    if (fork() == 0) {  // a data loader that keeps everything open until the test is over
      close(to_child[1]);
      char byte;
      (void)!read(to_child[0], &byte, 1);
      _exit(0);
    }
    (*link)->ring(0);
    pause();
    return 0;
  });
  auto link = NodeLink::lead(std::move(listener), kSecret, names(2), kBytes, soon());
  REQUIRE(link.ok());
  REQUIRE(eventually([&] { return rings(**link); }));
  one.kill_now();
  std::map<int, std::string> seen;
  CHECK(eventually([&] { return !(seen = deaths(link->get())).empty(); }));
  CHECK(seen == std::map<int, std::string>{{1, "process ended"}});
  close(to_child[0]);
  close(to_child[1]);
}
