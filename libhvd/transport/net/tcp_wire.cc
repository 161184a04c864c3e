// SPDX-License-Identifier: Apache-2.0
//
// The neighbours' connections, and a listener that stays open: for the children at first, then for
// ranks that bring news of their dead leader.
#include "libhvd/transport/net/tcp_wire.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "libhvd/transport/acceptor.h"
#include "libhvd/transport/net/address.h"
#include "libhvd/transport/net/connection.h"
#include "libhvd/transport/net/connector.h"

namespace hvd {
namespace {

constexpr size_t kMostMessageBytes = 64 << 20;
constexpr size_t kMostNewsBytes = 4096;
constexpr size_t kMostNews = 64;  // connections that bring news, at a time
constexpr int64_t kNewsPatienceMs = 5000;
constexpr int64_t kTellMs = 150;    // for each neighbour, when the nodes cannot be connected
constexpr int kPollSliceMs = 1000;  // no sleep depends on a single event being seen

std::string name_of(const TcpWire::Config& config, int node) {
  const auto index = static_cast<size_t>(node);
  return index < config.names.size() ? config.names[index] : format("node %d", node);
}

Connector connector_to(const TcpWire::Config& config, int node, Role role) {
  static const Endpoint kNowhere;
  const auto endpoint = [&](int n) -> const Endpoint& {
    const auto index = static_cast<size_t>(n);
    return index < config.endpoints.size() ? config.endpoints[index] : kNowhere;
  };
  return Connector(config.secret, {role, config.node, node},
                   order_addresses(endpoint(config.node).addresses, endpoint(node).addresses),
                   endpoint(node).port);
}

}  // namespace

struct TcpWire::State {
  struct Neighbour {
    int node;
    std::unique_ptr<Connection> connection;  // empty before it has come and after it has gone
  };
  struct News {
    int node;
    std::unique_ptr<Connection> connection;
    Deadline deadline;
    bool told = false;
  };

  Config config;
  std::vector<Neighbour> neighbours;  // the parent, if there is one, and the children
  std::vector<News> news;
  std::unique_ptr<Acceptor> acceptor;
  mutable std::vector<pollfd> scratch;  // poll() makes no garbage

  Neighbour* find(int node) {
    for (Neighbour& n : neighbours) {
      if (n.node == node) return &n;
    }
    return nullptr;
  }
  void listen(TcpListener listener);
  void adopt(int node, Fd fd);
  bool admits(const Introduction& who);
  bool complete() const;
  void add_poll_fds(std::vector<pollfd>* fds) const;
  Status meet(Connector* to_parent, Deadline deadline);
  Status check_arrived() const;
  Status nobody_came(const Connector* to_parent) const;
  bool poll_neighbours(const Sink& sink);
  bool poll_news(const Sink& sink);
};

void TcpWire::State::listen(TcpListener listener) {
  Acceptor::Rules rules;
  rules.secret = config.secret;
  rules.own = config.node;
  rules.admit = [this](const Introduction& who) { return admits(who); };
  rules.arrived = [this](Fd fd, const Introduction& who) {
    if (who.role == Role::kChild) return adopt(who.from, std::move(fd));
    tune_socket(fd.get(), config.peer_timeout_ms);
    news.push_back(
        {who.from,
         std::make_unique<Connection>(std::move(fd), kMostNewsBytes, config.peer_timeout_ms),
         Deadline::after_ms(kNewsPatienceMs)});
  };
  acceptor = std::make_unique<Acceptor>(std::move(listener.fd), std::move(rules));
}

void TcpWire::State::adopt(int node, Fd fd) {
  tune_socket(fd.get(), config.peer_timeout_ms);
  find(node)->connection =
      std::make_unique<Connection>(std::move(fd), kMostMessageBytes, config.peer_timeout_ms);
}

bool TcpWire::State::admits(const Introduction& who) {
  if (who.role == Role::kNews) return who.from >= 0 && news.size() < kMostNews;
  if (who.role != Role::kChild || who.from == config.parent) return false;
  // A child comes once: its connection's end is its death.
  const Neighbour* child = find(who.from);
  return child != nullptr && child->connection == nullptr && !complete();
}

bool TcpWire::State::complete() const {
  return std::all_of(neighbours.begin(), neighbours.end(),
                     [](const Neighbour& n) { return n.connection != nullptr; });
}

void TcpWire::State::add_poll_fds(std::vector<pollfd>* fds) const {
  for (const Neighbour& n : neighbours) {
    if (n.connection) fds->push_back({n.connection->fd(), n.connection->poll_events(), 0});
  }
  for (const News& n : news) fds->push_back({n.connection->fd(), n.connection->poll_events(), 0});
  acceptor->add_poll_fds(fds);
}

// A neighbour that came and is gone again: better an error now than one at the first message.
Status TcpWire::State::check_arrived() const {
  for (const Neighbour& n : neighbours) {
    if (!n.connection) continue;
    pollfd p{n.connection->fd(), POLLRDHUP, 0};
    if (::poll(&p, 1, 0) == 1) {
      return error(Code::kPeerLost, "%s ended while the nodes connected",
                   name_of(config, n.node).c_str());
    }
  }
  return ok_status();
}

Status TcpWire::State::nobody_came(const Connector* to_parent) const {
  std::string text;
  for (const Neighbour& n : neighbours) {
    if (n.connection) continue;
    text += (text.empty() ? "" : "; ") + name_of(config, n.node);
    if (n.node == config.parent) {
      text += " cannot be reached (" + to_parent->describe() +
              "). Where nodes have several networks, the setting \"interfaces\" says which to use";
    } else {
      text += " did not connect";
    }
  }
  return Status(Code::kTimeout, text);
}

Status TcpWire::State::meet(Connector* to_parent, Deadline deadline) {
  Status heard;
  Sink sink;
  sink.news = [&](int, std::string_view text) {
    heard = Status(Code::kTimeout, std::string(text));
  };
  std::vector<pollfd> fds;
  for (;;) {
    acceptor->step();
    poll_news(sink);
    if (!heard.ok()) return heard;
    Neighbour* parent = find(config.parent);
    const bool connects = parent != nullptr && !parent->connection;
    if (connects && to_parent->step()) {
      adopt(config.parent, to_parent->take());
      continue;
    }
    Status status = check_arrived();
    if (status.ok() && complete()) return status;
    if (status.ok() && deadline.passed()) status = nobody_came(to_parent);
    if (!status.ok()) return status.annotate("connecting the nodes");
    fds.clear();
    acceptor->add_poll_fds(&fds);
    for (const News& n : news) fds.push_back({n.connection->fd(), n.connection->poll_events(), 0});
    if (connects) to_parent->add_poll_fds(&fds);
    for (const Neighbour& n : neighbours) {
      if (n.connection) fds.push_back({n.connection->fd(), POLLRDHUP, 0});
    }
    const int slice = connects ? to_parent->sleep_ms() : kPollSliceMs;
    ::poll(fds.data(), fds.size(), deadline.poll_ms(slice));
  }
}

bool TcpWire::State::poll_neighbours(const Sink& sink) {
  bool moved = false;
  for (Neighbour& n : neighbours) {
    Connection* connection = n.connection.get();
    if (connection == nullptr) continue;
    moved |= connection->flush();
    moved |= connection->receive([&](std::string_view m) { sink.message(n.node, m); });
    if (connection->ended().empty()) continue;
    const std::string why = connection->ended();
    n.connection.reset();
    sink.closed(n.node, why);
  }
  return moved;
}

bool TcpWire::State::poll_news(const Sink& sink) {
  bool moved = false;
  for (size_t i = 0; i < news.size();) {
    News& n = news[i];
    moved |= n.connection->flush();
    moved |= n.connection->receive([&](std::string_view text) {
      if (std::exchange(n.told, true)) return;
      if (sink.news) sink.news(n.node, text);
      n.connection->send("");  // it has arrived
    });
    // Who brought it closes after the receipt.
    if (n.connection->broken() || n.deadline.passed()) {
      news.erase(news.begin() + static_cast<ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return moved;
}

Expected<TcpListener> TcpListener::open() {
  TcpListener listener;
  // One socket for both kinds of addresses; IPv4 alone where the kernel has no IPv6.
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  const auto bind_to = [&](int family, const void* address, socklen_t length) {
    listener.fd = Fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener.fd.valid()) return false;
    const int off = 0;
    if (family == AF_INET6) {
      setsockopt(listener.fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    return bind(listener.fd.get(), static_cast<const sockaddr*>(address), length) == 0 &&
           ::listen(listener.fd.get(), 128) == 0;
  };
  sockaddr_in6 bound{};  // the port is at the same place in both
  socklen_t length = sizeof bound;
  if ((!bind_to(AF_INET6, &any6, sizeof any6) && !bind_to(AF_INET, &any4, sizeof any4)) ||
      getsockname(listener.fd.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    return errno_error(errno, "opening the TCP port on which the nodes meet");
  }
  listener.port = ntohs(bound.sin6_port);
  return listener;
}

Expected<std::vector<std::string>> local_addresses(const std::string& interfaces) {
  auto all = list_interfaces();
  if (!all.ok()) return all.status();
  return select_addresses(*all, interfaces);
}

TcpWire::TcpWire(std::unique_ptr<State> state) : state_(std::move(state)) {}

TcpWire::~TcpWire() {
  for (State::Neighbour& n : state_->neighbours) {
    if (n.connection) n.connection->close();
  }
}

Expected<std::unique_ptr<TcpWire>> TcpWire::connect(Config config, TcpListener listener,
                                                    Deadline deadline) {
  auto state = std::make_unique<State>();
  state->config = std::move(config);
  if (state->config.parent >= 0) state->neighbours.push_back({state->config.parent, nullptr});
  for (const int child : state->config.children) state->neighbours.push_back({child, nullptr});
  state->listen(std::move(listener));
  Connector to_parent = connector_to(state->config, state->config.parent, Role::kChild);
  Status status = state->meet(&to_parent, deadline);
  if (!status.ok()) {
    call_off(state->config, status.text());
    return status;
  }
  return std::unique_ptr<TcpWire>(new TcpWire(std::move(state)));
}

void TcpWire::call_off(const Config& config, std::string_view text) {
  std::vector<int> neighbours = config.children;
  if (config.parent >= 0) neighbours.push_back(config.parent);
  for (const int node : neighbours) {
    (void)bring_news(config, node, text, Deadline::after_ms(kTellMs)).ok();
  }
}

void TcpWire::send(int node, std::string_view message) {
  State::Neighbour* n = state_->find(node);
  if (n != nullptr && n->connection) n->connection->send(message);
}

bool TcpWire::poll(const Sink& sink) {
  State& s = *state_;
  s.scratch.clear();
  s.add_poll_fds(&s.scratch);
  const int ready = ::poll(s.scratch.data(), s.scratch.size(), 0);
  const auto broken = [](const State::Neighbour& n) {
    return n.connection && n.connection->broken();
  };
  const bool any_broken = std::any_of(s.neighbours.begin(), s.neighbours.end(), broken);
  bool moved = false;
  if (ready > 0 || any_broken) moved |= s.poll_neighbours(sink);
  if (ready > 0 || s.acceptor->has_pending()) moved |= s.acceptor->step();
  if (!s.news.empty()) moved |= s.poll_news(sink);
  return moved;
}

size_t TcpWire::queued() const {
  size_t bytes = 0;
  for (const State::Neighbour& n : state_->neighbours) {
    if (n.connection) bytes += n.connection->queued();
  }
  return bytes;
}

void TcpWire::add_poll_fds(std::vector<pollfd>* fds) const { state_->add_poll_fds(fds); }

Status TcpWire::bring_news(const Config& config, int node, std::string_view text,
                           Deadline deadline) {
  const auto late = [&] {
    return error(Code::kTimeout, "bringing the news to %s: it did not take it",
                 name_of(config, node).c_str());
  };
  Connector connector = connector_to(config, node, Role::kNews);
  std::vector<pollfd> fds;
  while (!connector.step()) {
    if (deadline.passed()) return late();
    fds.clear();
    connector.add_poll_fds(&fds);
    ::poll(fds.data(), fds.size(), deadline.poll_ms(connector.sleep_ms()));
  }
  Connection connection(connector.take(), kMostNewsBytes, config.peer_timeout_ms);
  connection.send(text.substr(0, kMostNewsBytes));
  bool taken = false;
  while (!taken && connection.ended().empty()) {
    if (deadline.passed()) return late();
    pollfd p{connection.fd(), connection.poll_events(), 0};
    ::poll(&p, 1, deadline.poll_ms(kPollSliceMs));
    connection.flush();
    connection.receive([&](std::string_view) { taken = true; });
  }
  if (taken) return ok_status();
  return error(Code::kPeerLost, "bringing the news to %s: %s", name_of(config, node).c_str(),
               connection.ended().c_str());
}

}  // namespace hvd
