// SPDX-License-Identifier: Apache-2.0
//
// Trees of wires as threads over loopback.
#include "libhvd/transport/net/tcp_wire.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <atomic>
#include <map>

#include "libhvd/transport/net/connection.h"
#include "tests/unit/catch.h"
#include "tests/unit/processes.h"

using hvd::Code;
using hvd::Deadline;
using hvd::Fd;
using hvd::TcpListener;
using hvd::TcpWire;
using hvd_test::eventually;
using hvd_test::in_threads;
using Wire = hvd::Expected<std::unique_ptr<TcpWire>>;
using Closed = std::map<int, std::string>;

namespace {

Deadline soon() { return Deadline::after_ms(20000); }

// A tree of `nodes` leaders on this machine: node n's parent is (n - 1) / 2.
struct Tree {
  std::vector<TcpWire::Config> configs;
  std::vector<TcpListener> listeners;
  std::vector<Wire> wires;

  explicit Tree(int nodes) : configs(nodes), listeners(nodes) {
    std::vector<hvd::Endpoint> endpoints;
    std::vector<std::string> names;
    for (int n = 0; n < nodes; ++n) {
      auto listener = TcpListener::open();
      REQUIRE(listener.ok());
      endpoints.push_back({{"127.0.0.1/8%lo"}, listener->port});
      names.push_back(hvd::format("rank %d on node%d", 2 * n, n));
      listeners[n] = std::move(*listener);
      wires.emplace_back(hvd::Status(Code::kInternal, "not run"));
    }
    for (int n = 0; n < nodes; ++n) {
      configs[n].node = n;
      configs[n].parent = n == 0 ? -1 : (n - 1) / 2;
      for (int child : {2 * n + 1, 2 * n + 2}) {
        if (child < nodes) configs[n].children.push_back(child);
      }
      configs[n].endpoints = endpoints;
      configs[n].names = names;
      configs[n].secret = "the job's secret";
    }
  }

  // Connects those nodes, each in a thread.
  void connect(const std::vector<int>& nodes, Deadline deadline = soon()) {
    in_threads(static_cast<int>(nodes.size()), [&](int i) {
      const int n = nodes[i];
      wires[n] = TcpWire::connect(configs[n], std::move(listeners[n]), deadline);
    });
  }
};

Fd connect_raw(int port) {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

// Collects what a wire hands on.
struct Inbox {
  std::map<int, std::vector<std::string>> messages;
  Closed closed;
  std::vector<std::pair<int, std::string>> news;
  TcpWire::Sink sink{[this](int n, std::string_view m) { messages[n].emplace_back(m); },
                     [this](int n, const std::string& why) { closed[n] += why; },
                     [this](int n, std::string_view text) { news.emplace_back(n, text); }};
};

}  // namespace

TEST_CASE("a tree connects, whoever comes first, and neighbours get messages in order") {
  Tree tree(7);
  tree.connect({6, 5, 4, 3, 2, 1, 0});
  for (int n = 0; n < 7; ++n) {
    INFO("node " << n << ": " << tree.wires[n].status().text());
    REQUIRE(tree.wires[n].ok());
  }
  constexpr int kMessages = 200;
  Inbox inboxes[7];
  for (int i = 0; i < kMessages; ++i) {
    for (int n = 0; n < 7; ++n) {
      std::vector<int> neighbours = tree.configs[n].children;
      if (n > 0) neighbours.push_back(tree.configs[n].parent);
      for (int to : neighbours) (*tree.wires[n])->send(to, hvd::format("%d to %d: %d", n, to, i));
    }
  }
  const auto all_there = [&] {
    size_t messages = 0;
    for (int n = 0; n < 7; ++n) {
      (*tree.wires[n])->poll(inboxes[n].sink);
      for (const auto& from : inboxes[n].messages) messages += from.second.size();
    }
    return messages == 12 * kMessages;
  };
  CHECK(eventually(all_there));
  for (int n = 0; n < 7; ++n) {
    for (const auto& [from, messages] : inboxes[n].messages) {
      std::vector<std::string> expected;
      for (int i = 0; i < kMessages; ++i) {
        expected.push_back(hvd::format("%d to %d: %d", from, n, i));
      }
      CHECK(messages == expected);
    }
    CHECK(inboxes[n].closed.empty());
    CHECK((*tree.wires[n])->queued() == 0);
    CHECK_FALSE((*tree.wires[n])->poll(inboxes[n].sink));
  }
}

TEST_CASE("empty and big messages arrive whole, while both sides send") {
  Tree tree(2);
  tree.connect({0, 1});
  REQUIRE(tree.wires[0].ok());
  REQUIRE(tree.wires[1].ok());
  std::string big(20 << 20, '\0');
  for (size_t i = 0; i < big.size(); ++i) big[i] = static_cast<char>(i * 31 >> 3);
  Inbox inboxes[2];
  in_threads(2, [&](int n) {
    TcpWire& wire = **tree.wires[n];
    wire.send(1 - n, "");
    wire.send(1 - n, big);
    wire.send(1 - n, "end");
    eventually([&] {
      wire.poll(inboxes[n].sink);
      return inboxes[n].messages[1 - n].size() == 3 && wire.queued() == 0;
    });
  });
  for (int n : {0, 1}) {
    const auto& got = inboxes[n].messages[1 - n];
    REQUIRE(got.size() == 3);
    CHECK(got[0].empty());
    CHECK(got[1] == big);
    CHECK(got[2] == "end");
  }
}

TEST_CASE("a message may be answered from within poll") {
  Tree tree(2);
  tree.connect({0, 1});
  REQUIRE(tree.wires[1].ok());
  Inbox inbox;
  TcpWire::Sink echo = inbox.sink;
  echo.message = [&](int n, std::string_view m) { (*tree.wires[0])->send(n, m); };
  for (int i = 0; i < 100; ++i) (*tree.wires[1])->send(0, std::to_string(i));
  CHECK(eventually([&] {
    (*tree.wires[0])->poll(echo);
    (*tree.wires[1])->poll(inbox.sink);
    return inbox.messages[0].size() == 100;
  }));
}

TEST_CASE("a neighbour's end is reported once, after its last words; the others go on") {
  Tree tree(3);
  tree.connect({0, 1, 2});
  for (int n : {0, 1, 2}) REQUIRE(tree.wires[n].ok());
  (*tree.wires[1])->send(0, "last words");
  (*tree.wires[0])->send(1, "never read");
  tree.wires[1] = hvd::Status();
  Inbox inbox;
  CHECK(eventually([&] {
    (*tree.wires[0])->send(1, "into the void");
    (*tree.wires[0])->poll(inbox.sink);
    return !inbox.closed.empty();
  }));
  CHECK(inbox.closed == Closed{{1, "connection closed"}});
  CHECK(inbox.messages[1] == std::vector<std::string>{"last words"});
  (*tree.wires[2])->send(0, "still here");
  CHECK(eventually([&] {
    (*tree.wires[0])->poll(inbox.sink);
    return !inbox.messages[2].empty();
  }));
  CHECK(inbox.closed.size() == 1);
  CHECK((*tree.wires[0])->queued() == 0);
}

TEST_CASE("who does not come is named, by both sides") {
  Tree tree(3);
  tree.listeners[2].fd.reset();
  tree.connect({0, 1}, Deadline::after_ms(300));
  CHECK(tree.wires[0].status().code() == Code::kTimeout);
  CHECK(tree.wires[0].status().text() == "connecting the nodes: rank 4 on node2 did not connect");

  Tree alone(2);
  alone.listeners[0].fd.reset();
  alone.connect({1}, Deadline::after_ms(300));
  CHECK(alone.wires[1].status().code() == Code::kTimeout);
  CHECK(alone.wires[1].status().text() ==
        hvd::format("connecting the nodes: rank 0 on node0 cannot be reached (tried 127.0.0.1 port "
                    "%d; 127.0.0.1: Connection refused). Where nodes have several networks, the "
                    "setting \"interfaces\" says which to use",
                    alone.configs[1].endpoints[0].port));
}

TEST_CASE("addresses that lead nowhere or to somebody else do not keep nodes apart") {
  Tree tree(2);
  auto stranger = TcpListener::open();  // accepts, and says nothing
  REQUIRE(stranger.ok());
  // 192.0.2.0/24 is nobody's (RFC 5737).
  tree.configs[1].endpoints[0].addresses = {"garbage", "192.0.2.1/24%eth0", "127.0.0.1/8%lo"};
  tree.connect({0, 1});
  CHECK(tree.wires[0].ok());
  CHECK(tree.wires[1].ok());

  Tree refused(2);
  refused.configs[1].endpoints[0].port = stranger->port;
  refused.connect({1}, Deadline::after_ms(300));
  CHECK(refused.wires[1].status().text().find("cannot be reached") != std::string::npos);
}

TEST_CASE("strangers, garbage and a second child of the same number are not let in") {
  Tree tree(2);
  const int port = tree.listeners[0].port;
  const Fd silent = connect_raw(port);
  const Fd garbage = connect_raw(port);
  REQUIRE(send(garbage.get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL) == 18);
  TcpWire::Config stranger = tree.configs[1], twin = tree.configs[1];
  stranger.secret = "another job's secret";
  Wire results[2] = {hvd::Status(), hvd::Status()};
  tree.connect({0, 1});
  REQUIRE(tree.wires[0].ok());
  REQUIRE(tree.wires[1].ok());
  std::atomic<int> over{0};
  Inbox inbox;
  in_threads(3, [&](int i) {
    if (i == 2) {  // the parent lives on meanwhile
      eventually([&] {
        (*tree.wires[0])->poll(inbox.sink);
        return over == 2;
      });
      return;
    }
    results[i] = TcpWire::connect(i == 0 ? stranger : twin, TcpListener(), Deadline::after_ms(500));
    ++over;
  });
  CHECK(results[0].status().text().find("127.0.0.1: not a process of this job (it does not know "
                                        "the job's secret)") != std::string::npos);
  CHECK(results[1].status().text().find("127.0.0.1: the other side closed the connection") !=
        std::string::npos);
  char byte;
  CHECK(recv(garbage.get(), &byte, 1, 0) <= 0);
  CHECK(inbox.closed.empty());
  (*tree.wires[1])->send(0, "the real one");
  CHECK(eventually([&] {
    (*tree.wires[0])->poll(inbox.sink);
    return inbox.messages[1] == std::vector<std::string>{"the real one"};
  }));
}

TEST_CASE(
    "a message that is too long ends the connection, where it is sent and where it comes in") {
  Tree tree(2);
  tree.connect({0, 1});
  REQUIRE(tree.wires[0].ok());
  Inbox inbox;
  (*tree.wires[1])->send(0, std::string((64 << 20) + 1, 'x'));
  CHECK(eventually([&] {
    (*tree.wires[1])->poll(inbox.sink);
    return !inbox.closed.empty();
  }));
  CHECK(inbox.closed == Closed{{0, "a message of 67108865 bytes for it is too long"}});

  int pair[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
  hvd::Connection generous(Fd(pair[0]), 1000, 0), strict(Fd(pair[1]), 100, 0);
  generous.send("short enough");
  generous.send(std::string(101, 'x'));
  generous.send("never seen");
  std::vector<std::string> got;
  strict.receive([&](std::string_view m) { got.emplace_back(m); });
  CHECK(got == std::vector<std::string>{"short enough"});
  CHECK(strict.ended() == "a message of 101 bytes from it does not parse");
}

TEST_CASE("news of a dead leader reach a neighbour, and its bringer knows") {
  Tree tree(2);
  tree.connect({0, 1});
  REQUIRE(tree.wires[0].ok());
  Inbox inbox;
  hvd::Status brought;
  std::atomic<bool> over{false};
  in_threads(2, [&](int i) {
    if (i == 0) {
      eventually([&] {
        (*tree.wires[0])->poll(inbox.sink);
        return over.load();
      });
    } else {
      brought = TcpWire::bring_news(tree.configs[1], 0, "rank 2 on node1 is gone", soon());
      over = true;
    }
  });
  CHECK(brought.ok());
  CHECK(inbox.news == std::vector<std::pair<int, std::string>>{{1, "rank 2 on node1 is gone"}});
  CHECK(inbox.closed.empty());

  tree.wires[0] = hvd::Status();
  brought = TcpWire::bring_news(tree.configs[1], 0, "nobody listens", Deadline::after_ms(100));
  CHECK(brought.code() == Code::kTimeout);
  CHECK(brought.text() == "bringing the news to rank 0 on node0: it did not take it");
}

TEST_CASE("an idle wire sleeps") {
  Tree tree(2);
  tree.connect({0, 1});
  REQUIRE(tree.wires[0].ok());
  std::vector<pollfd> fds;
  (*tree.wires[0])->add_poll_fds(&fds);
  CHECK(fds.size() == 2);  // the child and the listener
  CHECK(poll(fds.data(), fds.size(), 0) == 0);
  (*tree.wires[1])->send(0, "wake up");
  CHECK(poll(fds.data(), fds.size(), 10000) == 1);
}

TEST_CASE("what keeps one node from starting is told to its neighbours, connected or not") {
  // Node 2 is missing; node 1 has connected.
  Tree tree(3);
  tree.listeners[2].fd.reset();
  Inbox inbox;
  in_threads(2, [&](int n) {
    const Deadline deadline = n == 0 ? Deadline::after_ms(300) : soon();
    tree.wires[n] = TcpWire::connect(tree.configs[n], std::move(tree.listeners[n]), deadline);
    if (n == 0 || !tree.wires[1].ok()) return;
    eventually([&] {
      (*tree.wires[1])->poll(inbox.sink);
      return !inbox.closed.empty();
    });
  });
  const std::string text = "connecting the nodes: rank 4 on node2 did not connect";
  CHECK(tree.wires[0].status().text() == text);
  CHECK(inbox.news == std::vector<std::pair<int, std::string>>{{0, text}});

  // A leader whose own ranks did not come brings it to one that still waits.
  Tree waiting(3);
  in_threads(2, [&](int i) {
    if (i == 0) {
      waiting.wires[0] =
          TcpWire::connect(waiting.configs[0], std::move(waiting.listeners[0]), soon());
    } else {
      (void)TcpWire::bring_news(waiting.configs[1], 0, "rank 3 did not come", soon()).ok();
    }
  });
  CHECK(waiting.wires[0].status().code() == Code::kTimeout);
  CHECK(waiting.wires[0].status().text() == "rank 3 did not come");
}
