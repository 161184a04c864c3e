// SPDX-License-Identifier: Apache-2.0
//
// Which of a node's addresses to publish, and in which order to try those of another node. Pure,
// but for the one function that asks the system. No names are resolved: records carry addresses.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libhvd/base/status.h"

namespace hvd {

// An address and the network it is in, e.g. 10.0.0.1/24. Bytes in network order.
struct Network {
  int family = 0;             // AF_INET or AF_INET6
  unsigned char bytes[16]{};  // 4 of them for AF_INET
  int prefix = 0;             // bits

  bool contains(const Network& address) const;  // by this one's prefix
  bool same_address(const Network& other) const;
};

// "10.0.0.1", "10.0.0.0/24", "fd00::1/64"; without a prefix all bits count. A "%interface" behind
// it is skipped.
std::optional<Network> parse_network(std::string_view text);

struct InterfaceAddress {
  std::string interface;
  std::string ip;
  int prefix = 0;
  bool up = false;
  bool loopback = false;
};

// Every IPv4 and IPv6 address of this node.
Expected<std::vector<InterfaceAddress>> list_interfaces();

// The ones to publish, as "ip/prefix%interface"; see local_addresses() in tcp_wire.h. In the order
// of `interfaces` if that is given, else in the system's. Link-local IPv6 addresses never: they
// mean nothing without an interface of the other side. Empty if nothing is up and nothing is asked.
Expected<std::vector<std::string>> select_addresses(const std::vector<InterfaceAddress>& all,
                                                    const std::string& interfaces);

// The addresses (without prefix) of `theirs` in the order to try: those in a subnet of `mine`, then
// the others, last those which I have as well (container bridges have the same one everywhere).
// What does not parse is left out.
std::vector<std::string> order_addresses(const std::vector<std::string>& mine,
                                         const std::vector<std::string>& theirs);

// For connect(2). `ip` as given by order_addresses.
std::optional<std::pair<sockaddr_storage, socklen_t>> socket_address(const std::string& ip,
                                                                     int port);

}  // namespace hvd
