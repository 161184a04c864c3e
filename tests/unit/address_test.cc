// SPDX-License-Identifier: Apache-2.0
//
// Which addresses are published, and in which order they are tried.
#include "libhvd/transport/net/address.h"

#include "libhvd/transport/net/tcp_wire.h"
#include "tests/unit/catch.h"

using hvd::InterfaceAddress;
using hvd::order_addresses;
using hvd::parse_network;
using hvd::select_addresses;
using Texts = std::vector<std::string>;

namespace {

const std::vector<InterfaceAddress> kNode = {
    {"lo", "127.0.0.1", 8, true, true},        {"lo", "::1", 128, true, true},
    {"eth0", "10.0.0.1", 24, true, false},     {"eth0", "fe80::1", 64, true, false},
    {"eth0", "fd00:1::1", 64, true, false},    {"ib0", "10.1.0.1", 16, true, false},
    {"eth1", "192.168.7.1", 24, false, false}, {"docker0", "172.17.0.1", 16, true, false}};

}  // namespace

TEST_CASE("addresses and ranges are read, and nothing else") {
  for (const char* text : {"10.0.0.1", "10.0.0.0/8", "0.0.0.0/0", "fd00::/8", "::1/128",
                           "10.0.0.1/24%eth0", "fd00::1/64%ib0"}) {
    INFO(text);
    CHECK(parse_network(text).has_value());
  }
  for (const char* text : {"", "eth0", "10.0.0", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/x",
                           "fd00::/129", "10.0.0.0/-1", "10.0.0.0/1000", "fd00:::1"}) {
    INFO(text);
    CHECK_FALSE(parse_network(text).has_value());
  }
}

TEST_CASE("a range contains the addresses that begin with its bits") {
  const struct {
    const char* range;
    const char* address;
    bool contained;
  } cases[] = {
      {"10.0.0.0/24", "10.0.0.255", true},  {"10.0.0.0/24", "10.0.1.0", false},
      {"10.0.0.0/23", "10.0.1.0", true},    {"10.0.0.64/26", "10.0.0.63", false},
      {"10.0.0.64/26", "10.0.0.127", true}, {"0.0.0.0/0", "1.2.3.4", true},
      {"0.0.0.0/0", "::1", false},          {"fd00::/8", "fd12:3456::1", true},
      {"fd00::/8", "fe80::1", false},       {"10.0.0.1", "10.0.0.1", true},
      {"10.0.0.1", "10.0.0.2", false},
  };
  for (const auto& c : cases) {
    INFO(c.range << " and " << c.address);
    CHECK(parse_network(c.range)->contains(*parse_network(c.address)) == c.contained);
  }
}

TEST_CASE("published are the addresses that are up and wanted, in the order they are wanted in") {
  const struct {
    const char* interfaces;
    Texts published;
  } cases[] = {
      {"", {"10.0.0.1/24%eth0", "fd00:1::1/64%eth0", "10.1.0.1/16%ib0", "172.17.0.1/16%docker0"}},
      {"ib0", {"10.1.0.1/16%ib0"}},
      {"ib0:eth0", {"10.1.0.1/16%ib0", "10.0.0.1/24%eth0", "fd00:1::1/64%eth0"}},
      {"10.0.0.0/8", {"10.0.0.1/24%eth0", "10.1.0.1/16%ib0"}},
      {"[fd00::/8]:10.1.0.0/16", {"fd00:1::1/64%eth0", "10.1.0.1/16%ib0"}},
      {"10.0.0.0/24:eth0", {"10.0.0.1/24%eth0", "fd00:1::1/64%eth0"}},
      {"lo", {"127.0.0.1/8%lo", "::1/128%lo"}},
      {"eth9:10.1.0.1", {"10.1.0.1/16%ib0"}},
  };
  for (const auto& c : cases) {
    INFO("interfaces \"" << c.interfaces << '"');
    auto got = select_addresses(kNode, c.interfaces);
    REQUIRE(got.ok());
    CHECK(*got == c.published);
  }
}

TEST_CASE("loopback is published where nothing else is up, and nothing where nothing is") {
  CHECK(*select_addresses({kNode[0], kNode[6]}, "") == Texts{"127.0.0.1/8%lo"});
  CHECK(select_addresses({}, "")->empty());
}

TEST_CASE("a choice of interfaces that leaves nothing is an error that says what there is") {
  const struct {
    const char* interfaces;
    const char* text;
  } cases[] = {
      {"eth1",
       "no address of this node is in \"eth1\"; there is 127.0.0.1/8%lo, ::1/128%lo, "
       "10.0.0.1/24%eth0, fd00:1::1/64%eth0, 10.1.0.1/16%ib0, 172.17.0.1/16%docker0"},
      {"10.0.0.0/40",
       "\"10.0.0.0/40\" in \"10.0.0.0/40\" is neither the name of an interface nor a range of "
       "addresses. Write names or ranges with \":\" between them, IPv6 ranges in brackets, for "
       "example \"ib0:10.1.0.0/16:[fd00::/8]\""},
      {"eth0:",
       "\"\" in \"eth0:\" is neither the name of an interface nor a range of addresses. Write "
       "names or ranges with \":\" between them, IPv6 ranges in brackets, for example "
       "\"ib0:10.1.0.0/16:[fd00::/8]\""},
  };
  for (const auto& c : cases) {
    auto got = select_addresses(kNode, c.interfaces);
    CHECK(got.status().code() == hvd::Code::kInvalid);
    CHECK(got.status().text() == c.text);
  }
  CHECK(select_addresses({}, "eth0").status().text() ==
        "no address of this node is in \"eth0\"; there is none that is up");
}

TEST_CASE("a common subnet is tried first, an address that is mine too last") {
  const Texts mine = {"10.0.0.1/24%eth0", "10.1.0.1/16%ib0", "172.17.0.1/16%docker0"};
  const struct {
    Texts theirs, order;
  } cases[] = {
      {{"172.17.0.1/16%docker0", "192.168.0.2/24%eth2", "10.1.0.2/16%ib0"},
       {"10.1.0.2", "192.168.0.2", "172.17.0.1"}},
      {{"10.0.0.2/25%eth0", "10.0.0.2/24%eth0"}, {"10.0.0.2", "10.0.0.2"}},
      {{"fd00::2/64%eth0", "10.0.0.2/24%eth0"}, {"10.0.0.2", "fd00::2"}},
      {{"garbage", "10.0.0.300/24%eth0"}, {}},
  };
  for (const auto& c : cases) CHECK(order_addresses(mine, c.theirs) == c.order);
}

TEST_CASE("this machine has an address") {
  auto addresses = hvd::local_addresses("");
  REQUIRE(addresses.ok());
  CHECK_FALSE(addresses->empty());
  CHECK(hvd::local_addresses("no-such-interface").status().code() == hvd::Code::kInvalid);
}
