// SPDX-License-Identifier: Apache-2.0
//
// Topologies: what is read of hwloc's XML and of this machine, and how far things are.
#include "spank/topology.h"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "tests/random.h"
#include "tests/unit/bind_words.h"
#include "tests/unit/catch.h"
#include "tests/unit/folder.h"

namespace hvd {
namespace {

// A machine of 1 package with 2 NUMA nodes of 2 cores; `devices` are at its second NUMA node.
std::string machine_with(const std::string& devices) {
  return R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0xf" complete_cpuset="0xf" allowed_cpuset="0xf" nodeset="0x3" complete_nodeset="0x3" allowed_nodeset="0x3" gp_index="1">
  <object type="Package" os_index="0" cpuset="0xf" complete_cpuset="0xf" nodeset="0x3" complete_nodeset="0x3" gp_index="2">
   <object type="Group" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="3" kind="1001" subkind="0">
    <object type="NUMANode" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="4" local_memory="1"/>
    <object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="5">
     <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="6"/>
    </object>
    <object type="Core" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1" gp_index="7">
     <object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1" gp_index="8"/>
    </object>
   </object>
   <object type="Group" cpuset="0xc" complete_cpuset="0xc" nodeset="0x2" complete_nodeset="0x2" gp_index="9" kind="1001" subkind="0">
    <object type="NUMANode" os_index="1" cpuset="0xc" complete_cpuset="0xc" nodeset="0x2" complete_nodeset="0x2" gp_index="10" local_memory="1"/>
    <object type="Core" os_index="2" cpuset="0x4" complete_cpuset="0x4" nodeset="0x2" complete_nodeset="0x2" gp_index="11">
     <object type="PU" os_index="2" cpuset="0x4" complete_cpuset="0x4" nodeset="0x2" complete_nodeset="0x2" gp_index="12"/>
    </object>
    <object type="Core" os_index="3" cpuset="0x8" complete_cpuset="0x8" nodeset="0x2" complete_nodeset="0x2" gp_index="13">
     <object type="PU" os_index="3" cpuset="0x8" complete_cpuset="0x8" nodeset="0x2" complete_nodeset="0x2" gp_index="14"/>
    </object>
    <object type="Bridge" gp_index="15" bridge_type="0-1" depth="0" bridge_pci="0000:[00-ff]">)" +
         devices + R"(
    </object>
   </object>
  </object>
 </object>
</topology>
)";
}

std::string device(int bus, const char* type, const char* inside = "") {
  return format(
      "<object type=\"PCIDev\" gp_index=\"%d\" pci_busid=\"0000:%02x:00.0\" pci_type=\"%s "
      "[0000:0000] "
      "00\" pci_link_speed=\"0.0\">%s</object>",
      100 + bus, bus, type, inside);
}

std::string os_device(const char* name, int type, const char* inside = "") {
  static int next = 1000;
  return format("<object type=\"OSDev\" gp_index=\"%d\" name=\"%s\" osdev_type=\"%d\">%s</object>",
                next++, name, type, inside);
}

TEST_CASE("topology: what counts as a GPU") {
  const struct {
    const char* type;  // class [vendor:device]
    int bus;
    bool counts;
    Vendor vendor;
  } cases[] = {
      {"0302 [10de:1db1]", 4, true, Vendor::kNvidia},
      {"0300 [10de:2204]", 4, true, Vendor::kNvidia},
      {"0380 [1002:7408]", 4, true, Vendor::kAmd},
      {"1200 [1002:74a0]", 4, true, Vendor::kAmd},
      {"0380 [8086:0bd5]", 4, true, Vendor::kIntel},
      {"0300 [8086:3e98]", 0, false, {}},  // the processor's own graphics
      {"0300 [1a03:2000]", 4, false, {}},  // a baseboard controller's VGA
      {"0680 [10de:1ac2]", 4, false, {}},  // NVSwitch
      {"0403 [10de:10f0]", 4, false, {}},  // its sound
  };
  for (const auto& c : cases) {
    CAPTURE(c.type);
    const auto topology = read_topology(TopologySource::xml(machine_with(device(c.bus, c.type))));
    REQUIRE(topology.ok());
    REQUIRE(topology->gpus.size() == (c.counts ? 1 : 0));
    if (c.counts) {
      CHECK(topology->gpus[0].vendor == c.vendor);
      CHECK(topology->gpus[0].place.numa == 1);
      CHECK(topology->gpus[0].place.cpus.list() == "2-3");
    }
  }
}

TEST_CASE("topology: GPUs are in PCI order, whatever the order of the file") {
  const auto topology = read_topology(TopologySource::xml(
      machine_with(device(9, "0302 [10de:1db1]") + device(1, "0302 [10de:1db1]") +
                   device(5, "0380 [1002:7408]"))));
  REQUIRE(topology.ok());
  REQUIRE(topology->gpus.size() == 3);
  CHECK(topology->gpus[0].place.pci == "0000:01:00.0");
  CHECK(topology->gpus[1].place.pci == "0000:05:00.0");
  CHECK(topology->gpus[2].place.pci == "0000:09:00.0");
}

TEST_CASE("topology: NICs by fabric, with the port that is up") {
  const std::string net = os_device("ib0", 2);
  const std::string verbs = os_device("mlx5_0", 3, "<info name=\"Port1State\" value=\"4\"/>");
  const std::string second =
      os_device("mlx5_0", 3,
                "<info name=\"Port1State\" value=\"1\"/><info name=\"Port2State\" value=\"4\"/>");
  const std::string down = os_device("mlx5_0", 3, "<info name=\"Port1State\" value=\"1\"/>");
  const struct {
    const char* type;
    std::string inside;
    const char* name;  // nullptr: it does not count
    Fabric fabric;
    int port;
  } cases[] = {
      {"0207 [15b3:1017]", net + verbs, "mlx5_0", Fabric::kInfiniBand, 1},
      {"0207 [15b3:1017]", net + second, "mlx5_0", Fabric::kInfiniBand, 2},
      {"0207 [15b3:1017]", net + down, nullptr, {}, 0},
      {"0200 [15b3:1017]", net + verbs, "mlx5_0", Fabric::kRoce, 1},
      {"0208 [8086:24f0]", net + os_device("hfi1_0", 3), "hfi1_0", Fabric::kOmniPath, 1},
      {"0200 [17db:0501]", os_device("hsn0", 2), "hsn0", Fabric::kSlingshot, 1},
      {"0200 [8086:1537]", os_device("eth0", 2), "eth0", Fabric::kEthernet, 1},
      {"0200 [8086:1537]", "", nullptr, {}, 0},                    // without a driver
      {"0c03 [8086:1537]", os_device("usb0", 2), nullptr, {}, 0},  // behind USB
  };
  for (const auto& c : cases) {
    CAPTURE(c.type, c.inside);
    const auto topology =
        read_topology(TopologySource::xml(machine_with(device(4, c.type, c.inside.c_str()))));
    REQUIRE(topology.ok());
    REQUIRE(topology->nics.size() == (c.name != nullptr ? 1 : 0));
    if (c.name == nullptr) continue;
    CHECK(topology->nics[0].name() == c.name);
    CHECK(topology->nics[0].fabric == c.fabric);
    CHECK(topology->nics[0].port == c.port);
  }
}

TEST_CASE("topology: what is no topology is a sentence and not a crash") {
  const std::string whole = machine_with(device(4, "0302 [10de:1db1]"));
  const std::string head = "<topology version=\"2.0\">";
  std::string deep = head;
  for (int i = 0; i < 200; ++i) deep += "<object type=\"Group\">";
  std::string many = head;
  for (int i = 0; i < 100001; ++i) many += "<object/>";
  const struct {
    std::string xml;
    const char* text;
  } cases[] = {
      {"", "is empty"},
      {"x", "is no XML of hwloc"},
      {"<html><body/></html>", "is no XML of hwloc"},
      {std::string(1000, '<'), "is no XML of hwloc"},
      {std::string("\0\0\0", 3), "is no XML of hwloc"},
      {"<?xml version=\"1.0\"?><topology/>", "is of another version than hwloc 2"},
      {head + "</topology>", "has no CPU in it"},
      {head, "ends too early or is damaged"},
      {head + "<object>", "ends too early or is damaged"},
      {head + "<object></topology>", "ends too early or is damaged"},
      {head + "<!-- ", "ends too early or is damaged"},
      {deep, "is nested too deep"},
      {many, "has too many objects"},
      {std::string((32 << 20) + 1, ' '), "has more than 32 MB"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.text);
    const auto topology = read_topology(TopologySource::xml(c.xml));
    REQUIRE_FALSE(topology.ok());
    CHECK(topology.status().text() ==
          std::string("the topology ") + c.text +
              ". \"lstopo FILE.xml\" of hwloc 2 on the node writes one");
  }
  for (size_t length = 0; length < whole.size(); length += 97) {
    const auto topology = read_topology(TopologySource::xml(whole.substr(0, length)));
    CHECK_FALSE(topology.ok());
  }
}

TEST_CASE("topology: files that cannot be one are named") {
  test::Folder folder;
  const std::string fifo = folder.path() + "/fifo";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  const std::string big = folder.path() + "/big";
  FILE* file = fopen(big.c_str(), "w");
  REQUIRE(file != nullptr);
  REQUIRE(ftruncate(fileno(file), (32 << 20) + 1) == 0);
  fclose(file);
  const std::string empty = folder.path() + "/empty";
  fclose(fopen(empty.c_str(), "w"));
  const struct {
    std::string path;
    std::string text;
  } cases[] = {
      {"/nowhere/x.xml", "reading a topology: /nowhere/x.xml: No such file or directory"},
      {fifo,
       "reading a topology: " + fifo + ": not a file of at most 32 MB, as lstopo FILE.xml writes"},
      {big,
       "reading a topology: " + big + ": not a file of at most 32 MB, as lstopo FILE.xml writes"},
      {empty, "the topology " + empty +
                  " is empty. \"lstopo FILE.xml\" of hwloc 2 on the node writes one"},
  };
  for (const auto& c : cases) {
    const auto topology = read_topology(TopologySource::file(c.path));
    REQUIRE_FALSE(topology.ok());
    CHECK(topology.status().text() == c.text);
  }
}

#ifdef HVD_HAVE_HWLOC

TEST_CASE("topology: this machine has the CPUs that this process may use") {
  const auto topology = read_topology(TopologySource::machine());
  REQUIRE(topology.ok());
  cpu_set_t own;
  CPU_ZERO(&own);
  REQUIRE(sched_getaffinity(0, sizeof own, &own) == 0);
  CpuSet mine;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &own)) mine.add(cpu);
  }
  CAPTURE(mine.list(), topology->cpus().list());
  CHECK(topology->cpus().includes(mine));
}

#else

TEST_CASE("topology: without hwloc it says so") {
  const auto topology = read_topology(TopologySource::machine());
  REQUIRE_FALSE(topology.ok());
  CHECK(topology.status().text().find("built without hwloc") != std::string::npos);
}

#endif

TEST_CASE("topology: real nodes are read as they are") {
  const struct {
    const char* name;
    size_t packages, numas, cores;
    const char* gpus;  // PCI address@NUMA node
    const char* nics;  // name@NUMA node, but Ethernet
    const char* model;
  } cases[] = {
      {"lassen-4xV100-power9.xml", 2, 2, 40,
       "0004:04:00.0@0 0004:05:00.0@0 0035:03:00.0@8 "
       "0035:04:00.0@8 ",
       "mlx5_0@0 mlx5_1@0 mlx5_2@8 mlx5_3@8 ", "Tesla V100-SXM2-16GB"},
      {"pascal-2xP100.xml", 2, 2, 36, "0000:04:00.0@0 0000:07:00.0@0 ", "mlx5_0@0 ",
       "Tesla P100-PCIE-16GB"},
      {"dgx2-16xV100.xml", 2, 2, 4,
       "0000:34:00.0@0 0000:36:00.0@0 0000:39:00.0@0 0000:3b:00.0@0 0000:57:00.0@0 "
       "0000:59:00.0@0 0000:5c:00.0@0 0000:5e:00.0@0 0000:b7:00.0@1 0000:b9:00.0@1 "
       "0000:bc:00.0@1 0000:be:00.0@1 0000:e0:00.0@1 0000:e2:00.0@1 0000:e5:00.0@1 "
       "0000:e7:00.0@1 ",
       "", "Tesla V100-SXM3-32GB-H"},
      {"tioga-8xMI250X.xml", 1, 4, 64,
       "0000:c1:00.0@3 0000:c6:00.0@3 0000:c9:00.0@1 0000:ce:00.0@1 0000:d1:00.0@0 "
       "0000:d6:00.0@0 0000:d9:00.0@2 0000:de:00.0@2 ",
       "hsi0@3 hsi1@1 hsi2@0 hsi3@2 ", "AMD INSTINCT MI200 (MCM) OAM LC MBA HPE C2"},
  };
  for (const auto& c : cases) {
    const auto xml = test::real_node(c.name);
    if (!xml) continue;
    CAPTURE(c.name);
    const auto topology = read_topology(TopologySource::xml(*xml));
    REQUIRE(topology.ok());
    CHECK(topology->packages.size() == c.packages);
    CHECK(topology->numas.size() == c.numas);
    CHECK(topology->cores.size() == c.cores);
    const auto at = [&](const Place& place) {
      const int numa =
          place.numa < 0 ? -1 : topology->numas[static_cast<size_t>(place.numa)].os_index;
      return "@" + std::to_string(numa) + " ";
    };
    std::string gpus;
    for (const Gpu& gpu : topology->gpus) {
      gpus += gpu.place.pci + at(gpu.place);
      CHECK(gpu.model == c.model);
    }
    CHECK(gpus == c.gpus);
    std::string nics;
    for (const Nic& nic : topology->nics) {
      if (nic.fabric != Fabric::kEthernet) nics += nic.name() + at(nic.place);
    }
    CHECK(nics == c.nics);
  }
}

TEST_CASE("topology: a real file with damage is read or refused") {
  const auto xml = test::real_node("pascal-2xP100.xml");
  if (!xml) return;
  test::Random random(3);
  for (int round = 0; round < 40; ++round) {
    std::string damaged = *xml;
    for (size_t i = 1 + random.below(8); i > 0; --i) {
      const size_t at = random.below(damaged.size());
      if (random.one_in(2)) {
        damaged.erase(at, random.below(400));
      } else {
        damaged[at] = static_cast<char>(random.next());
      }
    }
    const auto topology = read_topology(TopologySource::xml(damaged));
    if (!topology.ok()) CHECK_FALSE(topology.status().text().empty());
  }
}

TEST_CASE("topology: hops from a GPU to CPUs") {
  Topology topology = test::node_of({2, 2, 2, 1, {1}, {}});
  const Place place = topology.gpus[0].place;  // CPUs 2-3 of 0-7
  CHECK(hops(topology, place, 2) == 0);
  CHECK(hops(topology, place, 0) == 2);
  CHECK(hops(topology, place, 7) == 3);
  CHECK(hops(topology, place, 99) == 3);
  CHECK(distance(topology, place, {2, 3}) == 0);
  CHECK(distance(topology, place, {0, 2}) == 1000);
  CHECK(distance(topology, place, {}) == 0);
  Place cache = place;
  cache.cpus = {2};
  CHECK(hops(topology, cache, 3) == 1);
}

TEST_CASE("topology: a common bridge is nearer than a common NUMA node") {
  Topology topology = test::node_of({2, 2, 2, 1, {0, 0, 1, 2}, {}});
  const auto at = [&](size_t i) { return topology.gpus[i].place; };
  CHECK(distance(at(0), at(1)) == 100);
  CHECK(distance(at(0), at(2)) == 300);
  CHECK(distance(at(0), at(3)) == 400);
  Place a = at(0);
  Place b = at(0);
  a.bridges = {1, 2, 3};
  b.bridges = {1, 2, 4};
  CHECK(distance(a, b) == 2);
  b.bridges = {1, 5, 6, 7};
  CHECK(distance(a, b) == 5);
  a.cpus = {0};
  b.bridges = {9};
  CHECK(distance(a, b) == 200);
}

}  // namespace
}  // namespace hvd
