// SPDX-License-Identifier: Apache-2.0
//
// Addresses, as declared in the header.
#include "libhvd/transport/net/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hvd {
namespace {

int bits_of(int family) { return family == AF_INET ? 32 : 128; }

bool link_local(const Network& n) {
  return n.family == AF_INET6 && n.bytes[0] == 0xfe && (n.bytes[1] & 0xc0) == 0x80;
}

std::string published(const InterfaceAddress& a) {
  return format("%s/%d%%%s", a.ip.c_str(), a.prefix, a.interface.c_str());
}

int prefix_of(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  const void* bytes =
      mask->sa_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(mask)->sin_addr)
          : &reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr;
  int prefix = 0;
  const auto* p = static_cast<const unsigned char*>(bytes);
  for (int i = 0; i < bits_of(mask->sa_family) / 8; ++i) prefix += __builtin_popcount(p[i]);
  return prefix;
}

// The items of "eth0:10.0.0.0/8:[fd00::/8]": separated by ":", but not inside brackets.
std::vector<std::string> split_interfaces(const std::string& text) {
  std::vector<std::string> items(1);
  bool in_brackets = false;
  for (const char c : text) {
    if (c == '[' || c == ']') {
      in_brackets = c == '[';
    } else if (c == ':' && !in_brackets) {
      items.emplace_back();
    } else {
      items.back() += c;
    }
  }
  return items;
}

}  // namespace

bool Network::contains(const Network& address) const {
  if (family != address.family) return false;
  for (int bit = 0; bit < prefix; bit += 8) {
    const int left = std::min(8, prefix - bit);
    const auto mask = static_cast<unsigned char>(0xff00 >> left);
    if (((bytes[bit / 8] ^ address.bytes[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

bool Network::same_address(const Network& other) const {
  return family == other.family && memcmp(bytes, other.bytes, sizeof bytes) == 0;
}

std::optional<Network> parse_network(std::string_view text) {
  text = text.substr(0, text.find('%'));
  Network n;
  const size_t slash = text.find('/');
  const std::string ip(text.substr(0, slash));
  n.family = ip.find(':') == std::string::npos ? AF_INET : AF_INET6;
  if (inet_pton(n.family, ip.c_str(), n.bytes) != 1) return std::nullopt;
  n.prefix = bits_of(n.family);
  if (slash == std::string_view::npos) return n;
  const std::string_view digits = text.substr(slash + 1);
  if (digits.empty() || digits.size() > 3) return std::nullopt;
  int prefix = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    prefix = prefix * 10 + (c - '0');
  }
  if (prefix > n.prefix) return std::nullopt;
  n.prefix = prefix;
  return n;
}

Expected<std::vector<InterfaceAddress>> list_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return errno_error(errno, "listing the network interfaces");
  std::vector<InterfaceAddress> all;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const void* bytes =
        family == AF_INET
            ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr)
            : &reinterpret_cast<const sockaddr_in6*>(i->ifa_addr)->sin6_addr;
    char ip[INET6_ADDRSTRLEN];
    if (inet_ntop(family, bytes, ip, sizeof ip) == nullptr) continue;
    InterfaceAddress a;
    a.interface = i->ifa_name;
    a.ip = ip;
    a.prefix = prefix_of(i->ifa_netmask);
    a.up = (i->ifa_flags & IFF_UP) != 0 && (i->ifa_flags & IFF_RUNNING) != 0;
    a.loopback = (i->ifa_flags & IFF_LOOPBACK) != 0;
    all.push_back(std::move(a));
  }
  freeifaddrs(list);
  return all;
}

Expected<std::vector<std::string>> select_addresses(const std::vector<InterfaceAddress>& all,
                                                    const std::string& interfaces) {
  std::vector<const InterfaceAddress*> usable;
  bool only_loopback = true;
  for (const InterfaceAddress& a : all) {
    const auto network = parse_network(a.ip);
    if (!a.up || !network || link_local(*network)) continue;
    usable.push_back(&a);
    only_loopback = only_loopback && a.loopback;
  }
  std::vector<std::string> chosen;
  if (interfaces.empty()) {
    for (const InterfaceAddress* a : usable) {
      if (!a->loopback || only_loopback) chosen.push_back(published(*a));
    }
    return chosen;
  }
  for (const std::string& item : split_interfaces(interfaces)) {
    const auto range = parse_network(item);
    if (item.empty() || (!range && item.find('/') != std::string::npos)) {
      return error(Code::kInvalid,
                   "\"%s\" in \"%s\" is neither the name of an interface nor a range of addresses. "
                   "Write names or ranges with \":\" between them, IPv6 ranges in brackets, for "
                   "example \"ib0:10.1.0.0/16:[fd00::/8]\"",
                   item.c_str(), interfaces.c_str());
    }
    for (const InterfaceAddress* a : usable) {
      const bool wanted = range ? range->contains(*parse_network(a->ip)) : a->interface == item;
      const std::string text = published(*a);
      const bool twice = std::find(chosen.begin(), chosen.end(), text) != chosen.end();
      if (wanted && !twice) chosen.push_back(text);
    }
  }
  if (!chosen.empty()) return chosen;
  std::string there;
  for (const InterfaceAddress* a : usable) there += (there.empty() ? "" : ", ") + published(*a);
  return error(Code::kInvalid, "no address of this node is in \"%s\"; there is %s",
               interfaces.c_str(), there.empty() ? "none that is up" : there.c_str());
}

std::vector<std::string> order_addresses(const std::vector<std::string>& mine,
                                         const std::vector<std::string>& theirs) {
  std::vector<Network> own;
  for (const std::string& text : mine) {
    if (const auto network = parse_network(text)) own.push_back(*network);
  }
  std::vector<std::string> by_class[3];
  for (const std::string& text : theirs) {
    const auto network = parse_network(text);
    if (!network) continue;
    bool near = false, same = false;
    for (const Network& n : own) {
      near = near || (n.prefix == network->prefix && n.contains(*network));
      same = same || n.same_address(*network);
    }
    by_class[same ? 2 : near ? 0 : 1].push_back(text.substr(0, text.find_first_of("/%")));
  }
  std::vector<std::string> order = by_class[0];
  for (int i : {1, 2}) order.insert(order.end(), by_class[i].begin(), by_class[i].end());
  return order;
}

std::optional<std::pair<sockaddr_storage, socklen_t>> socket_address(const std::string& ip,
                                                                     int port) {
  const auto network = parse_network(ip);
  if (!network) return std::nullopt;
  sockaddr_storage storage{};
  if (network->family == AF_INET) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
    memcpy(&v4->sin_addr, network->bytes, sizeof v4->sin_addr);
    return std::make_pair(storage, static_cast<socklen_t>(sizeof *v4));
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(static_cast<uint16_t>(port));
  memcpy(&v6->sin6_addr, network->bytes, sizeof v6->sin6_addr);
  return std::make_pair(storage, static_cast<socklen_t>(sizeof *v6));
}

}  // namespace hvd
