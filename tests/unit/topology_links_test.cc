// SPDX-License-Identifier: Apache-2.0
//
// Links between GPUs: what is read of hwloc's matrices, in XML and through its library, and that
// damage makes them unknown and nothing else.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "libhvd/base/parse.h"
#include "spank/topology.h"
#include "tests/random.h"
#include "tests/unit/bind_words.h"
#include "tests/unit/catch.h"
#include "tests/unit/folder.h"

namespace hvd {
namespace {

// PCI devices as hwloc writes them, on buses 1, 2, ...: GPUs have gp_index 100 + bus, and the
// system's device in them 200 + bus; "switch" is an NVSwitch that PCI tells nothing of.
std::string pci_device(int bus, const std::string& what) {
  const bool is_switch = what == "switch";
  const char* type = is_switch       ? "0000 [0000:0000]"
                     : what == "amd" ? "0380 [1002:7408]"
                                     : "0302 [10de:1db1]";
  const std::string inside = is_switch
                                 ? ""
                                 : format(
                                       "<object type=\"OSDev\" gp_index=\"%d\" name=\"gpu%d\" "
                                       "osdev_type=\"1\"></object>",
                                       200 + bus, bus);
  return format(
      "<object type=\"PCIDev\" gp_index=\"%d\"%s pci_busid=\"0000:%02x:00.0\" "
      "pci_type=\"%s [0000:0000] 00\" pci_link_speed=\"0.0\">%s</object>\n",
      100 + bus, is_switch ? " subtype=\"NVSwitch\"" : "", bus, type, inside.c_str());
}

// A machine of one core with these devices behind a bridge, and matrices.
std::string machine_with(const std::string& devices, const std::string& matrices) {
  const std::string sets =
      "cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\"";
  return R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
<object type="Machine" os_index="0" )" +
         sets + R"( allowed_cpuset="0x1" allowed_nodeset="0x1" gp_index="1">
<object type="Package" os_index="0" )" +
         sets + R"( gp_index="2">
<object type="NUMANode" os_index="0" )" +
         sets + R"( gp_index="3" local_memory="1"/>
<object type="Core" os_index="0" )" +
         sets + R"( gp_index="4"><object type="PU" os_index="0" )" + sets +
         R"( gp_index="5"/></object>
<object type="Bridge" gp_index="6" bridge_type="0-1" depth="0" bridge_pci="0000:[00-ff]">
)" + devices +
         "</object></object></object>\n" + matrices + "</topology>\n";
}

std::string machine_of(const std::vector<std::string>& kinds, const std::string& matrices) {
  std::string devices;
  for (size_t i = 0; i < kinds.size(); ++i) {
    devices += pci_device(static_cast<int>(i) + 1, kinds[i]);
  }
  return machine_with(devices, matrices);
}

// As hwloc: lengths of the text, and "OSDev:" before each id where types differ.
std::string matrix(const char* name, const std::string& ids, const std::string& values) {
  const size_t count = split(ids, ' ').size();
  const bool mixed = ids.find(':') != std::string::npos;
  const char* element = mixed ? "distances2hetero" : "distances2";
  const char* type = ids[0] == '1' ? "PCIDev" : "OSDev";
  const char* kind = mixed ? "25" : name == std::string("XGMIHops") ? "5" : "9";
  return format("<%s %snbobjs=\"%zu\" kind=\"%s\" name=\"%s\"%s>\n", element,
                mixed ? "" : format("type=\"%s\" ", type).c_str(), count, kind, name,
                mixed ? "" : " indexing=\"gp\"") +
         format("<indexes length=\"%zu\">%s </indexes>\n", ids.size() + 1, ids.c_str()) +
         format("<u64values length=\"%zu\">%s </u64values>\n</%s>\n", values.size() + 1,
                values.c_str(), element);
}

// By GPU, whom it is linked to at how many MB/s, "none", or "?" if that is unknown.
std::string shown(const Topology& topology) {
  std::string text;
  for (const Gpu& gpu : topology.gpus) {
    text += text.empty() ? "" : "; ";
    if (!gpu.links || gpu.links->empty()) {
      text += gpu.links ? "none" : "?";
      continue;
    }
    std::string its;
    for (const GpuLink& link : *gpu.links) {
      its += format("%s%d@%lld", its.empty() ? "" : " ", link.to,
                    static_cast<long long>(link.mb_per_s));
    }
    text += its;
  }
  return text;
}

std::string links_in(const std::string& xml) {
  const auto topology = read_topology(TopologySource::xml(xml));
  return topology.ok() ? shown(*topology) : topology.status().text();
}

const std::vector<std::string> kFour = {"nvidia", "nvidia", "nvidia", "nvidia"};
const char* const kPairs =
    "1000000 50000 0 0 50000 1000000 0 0 0 0 1000000 25000 0 0 25000 1000000";

struct LinkCase {
  const char* name;
  std::vector<std::string> kinds;
  std::string matrices;
  const char* links;
};

const LinkCase kCases[] = {
    {"no matrix", kFour, "", "?; ?; ?; ?"},
    {"pairs with bridges", kFour, matrix("NVLinkBandwidth", "201 202 203 204", kPairs),
     "1@50000; 0@50000; 3@25000; 2@25000"},
    {"the matrix has an order of its own", kFour,
     matrix("NVLinkBandwidth", "203 201 204 202", kPairs), "2@50000; 3@25000; 0@50000; 1@25000"},
    {"the PCI device itself", kFour, matrix("NVLinkBandwidth", "101 102 103 104", kPairs),
     "1@50000; 0@50000; 3@25000; 2@25000"},
    {"a GPU that the matrix lacks", kFour,
     matrix("NVLinkBandwidth", "201 202 203", "0 50000 0 50000 0 0 0 0 0"),
     "1@50000; 0@50000; none; ?"},
    {"one end only", kFour, matrix("NVLinkBandwidth", "201 202", "0 50000 0 0"),
     "none; none; ?; ?"},
    {"two switches are one fabric",
     {"nvidia", "nvidia", "switch", "nvidia", "switch"},
     matrix("NVLinkBandwidth", "OSDev:201 OSDev:202 OSDev:204 PCIDev:103 PCIDev:105",
            "0 0 0 25000 25000 0 0 0 50000 25000 0 0 0 0 100000 25000 50000 0 0 0 25000 25000 "
            "100000 0 0"),
     "1@50000 2@50000; 0@50000 2@75000; 0@50000 1@75000"},
    {"GPUs that meet at a processor are not linked",
     {"nvidia", "nvidia"},
     matrix("NVLinkBandwidth", "OSDev:201 OSDev:202 Package:2",
            "0 0 25000 0 0 25000 25000 25000 0"),
     "none; none"},
    {"one hop of XGMI, with bandwidth",
     {"amd", "amd", "amd"},
     matrix("XGMIBandwidth", "201 202 203",
            "1000000 100000 50000 100000 1000000 200000 50000 200000 1000000") +
         matrix("XGMIHops", "203 202 201", "0 1 2 1 0 1 2 1 0"),
     "1@100000; 0@100000 2@200000; 1@200000"},
    {"hops alone", {"amd", "amd"}, matrix("XGMIHops", "201 202", "0 1 1 0"), "1@0; 0@0"},
    {"bandwidth alone",
     {"amd", "amd", "amd"},
     matrix("XGMIBandwidth", "201 202 203", "9 5 0 5 9 0 0 0 9"),
     "1@5; 0@5; none"},
    {"two vendors",
     {"nvidia", "amd", "nvidia", "amd"},
     matrix("NVLinkBandwidth", "201 203", "9 7 7 9") + matrix("XGMIHops", "202 204", "0 1 1 0"),
     "2@7; 3@0; 0@7; 1@0"},
    {"other distances", kFour,
     matrix("NUMALatency", "201 202", "10 20 20 10") + matrix("Mine", "201 202", "1 1 1 1"),
     "?; ?; ?; ?"},
};

TEST_CASE("links: what counts as one") {
  for (const LinkCase& c : kCases) {
    CAPTURE(c.name);
    CHECK(links_in(machine_of(c.kinds, c.matrices)) == c.links);
  }
}

TEST_CASE("links: a matrix with damage is unknown, and the node is as it was") {
  const std::string good = matrix("NVLinkBandwidth", "201 202", "9 5 5 9");
  const auto with = [&](const char* from, const std::string& to) {
    std::string bad = good;
    const size_t at = bad.find(from);
    REQUIRE(at != std::string::npos);
    return bad.replace(at, std::string(from).size(), to);
  };
  std::string many;
  for (int i = 0; i < 300; ++i) many += (i == 0 ? "" : " ") + std::to_string(i + 1);
  const struct {
    const char* name;
    std::string matrices;
  } cases[] = {
      {"too few values", with("9 5 5 9", "9 5 5")},
      {"too many values", with("9 5 5 9", "9 5 5 9 9")},
      {"no value", with("9 5 5 9", "")},
      {"too few ids", with("201 202", "201")},
      {"too many ids", with("201 202", "201 202 203")},
      {"a huge nbobjs", with("nbobjs=\"2\"", "nbobjs=\"4294967295\"")},
      {"nbobjs beyond all numbers", with("nbobjs=\"2\"", "nbobjs=\"99999999999999999999999\"")},
      {"a negative nbobjs", with("nbobjs=\"2\"", "nbobjs=\"-2\"")},
      {"nbobjs of 0", with("nbobjs=\"2\"", "nbobjs=\"0\"")},
      {"no nbobjs", with("nbobjs=\"2\" ", "")},
      {"a negative value", with("9 5 5 9", "9 -5 5 9")},
      {"a NaN", with("9 5 5 9", "9 nan 5 9")},
      {"a fraction", with("9 5 5 9", "9 5.5 5 9")},
      {"letters", with("201 202", "201 x")},
      {"no id behind the type", with("201 202", "OSDev: OSDev:")},
      {"numbers of another kind", with("indexing=\"gp\"", "indexing=\"os\"")},
      {"a name cut off", with("NVLinkBandwidth", "NVLinkBandwid")},
      {"more than a node has", matrix("NVLinkBandwidth", many, "1")},
      {"values elsewhere", "<u64values>9 5 5 9</u64values><indexes>201 202</indexes>"},
      {"a first one with damage", with("9 5 5 9", "9 5 5") + good},
  };
  CHECK(links_in(machine_of(kFour, good)) == "1@5; 0@5; ?; ?");
  for (const auto& c : cases) {
    CAPTURE(c.name);
    CHECK(links_in(machine_of(kFour, c.matrices)) == "?; ?; ?; ?");
  }
  // Objects that are not there, or no GPU, are left out of it.
  CHECK(links_in(machine_of(kFour, with("201 202", "201 999"))) == "none; ?; ?; ?");
  CHECK(links_in(machine_of(kFour, with("201 202", "0 0"))) == "?; ?; ?; ?");
  CHECK(links_in(machine_of(kFour, with("201 202", "201 201"))) == "none; ?; ?; ?");
  CHECK(links_in(machine_of(kFour, with("201 202", "201 5"))) == "none; ?; ?; ?");
  // What does not fit is a lot.
  CHECK(links_in(
            machine_of(kFour, with("9 5 5 9", "9 99999999999999999999 99999999999999999999 9"))) ==
        "1@1000000000; 0@1000000000; ?; ?");
}

TEST_CASE("links: the order of devices and of the matrix changes nothing") {
  test::Random random(7);
  for (int round = 0; round < 50; ++round) {
    const size_t count = 2 + random.below(7);
    std::vector<std::vector<size_t>> mb(count, std::vector<size_t>(count, 0));
    for (size_t a = 0; a < count; ++a) {
      for (size_t b = 0; b < a; ++b) mb[a][b] = mb[b][a] = random.below(3) * 25000;
    }
    const auto drawn = [&](const std::vector<size_t>& order, const std::vector<size_t>& rows) {
      std::string devices, ids, values;
      for (const size_t i : order) devices += pci_device(static_cast<int>(i) + 1, "nvidia");
      for (const size_t a : rows) {
        ids += (ids.empty() ? "" : " ") + std::to_string(201 + a);
        for (const size_t b : rows) values += std::to_string(mb[a][b]) + " ";
      }
      return links_in(machine_with(devices, matrix("NVLinkBandwidth", ids, values)));
    };
    std::vector<size_t> order(count);
    for (size_t i = 0; i < count; ++i) order[i] = i;
    std::vector<size_t> rows = order;
    const std::string plain = drawn(order, rows);
    random.shuffle(&order);
    random.shuffle(&rows);
    CAPTURE(round);
    CHECK(drawn(order, rows) == plain);
  }
}

TEST_CASE("links: they follow their GPUs into PCI order") {
  Topology topology;
  for (const char* pci : {"0000:03:00.0", "0000:01:00.0", "0000:02:00.0"}) {
    topology.gpus.emplace_back();
    topology.gpus.back().place.pci = pci;
  }
  topology.gpus[0].links = {{2, 5}, {1, 7}};
  topology.gpus[1].links = {{0, 7}};
  topology.gpus[2].links = {{0, 5}};
  finish_topology(&topology);
  CHECK(shown(topology) == "2@7; 2@5; 0@7 1@5");
  REQUIRE(link_of(topology, 2, 1) != nullptr);
  CHECK(link_of(topology, 2, 1)->mb_per_s == 5);
  CHECK(link_of(topology, 0, 1) == nullptr);
}

TEST_CASE("links: those of real nodes") {
  const struct {
    const char* name;
    size_t gpus;
    int64_t mb_per_s;  // from each to each; -1: unknown
  } cases[] = {
      {"dgx2-16xV100.xml", 16, 150000},  // six links of 25 GB/s to the switches
      {"tioga-8xMI250X.xml", 8, 100000},
      {"lassen-4xV100-power9.xml", 4, -1},
      {"pascal-2xP100.xml", 2, -1},
  };
  for (const auto& c : cases) {
    const auto xml = test::real_node(c.name);
    if (!xml) continue;
    CAPTURE(c.name);
    const auto topology = read_topology(TopologySource::xml(*xml));
    REQUIRE(topology.ok());
    REQUIRE(topology->gpus.size() == c.gpus);
    for (size_t i = 0; i < c.gpus; ++i) {
      const auto& links = topology->gpus[i].links;
      REQUIRE(links.has_value() == (c.mb_per_s >= 0));
      if (!links) continue;
      REQUIRE(links->size() == c.gpus - 1);
      for (const GpuLink& link : *links) {
        CHECK(link.to != static_cast<int>(i));
        CHECK(link.mb_per_s == c.mb_per_s);
      }
    }
  }
}

TEST_CASE("links: numbers of a real node with damage are read or unknown") {
  const auto xml = test::real_node("dgx2-16xV100.xml");
  if (!xml) return;
  const size_t start = xml->find("<distances2hetero");
  REQUIRE(start != std::string::npos);
  const size_t length = xml->find("</distances2hetero") - start;
  test::Random random(11);
  for (int round = 0; round < 60; ++round) {
    std::string damaged = *xml;
    const size_t at = start + random.below(length);
    if (random.one_in(2)) {
      damaged.erase(at, random.below(300));
    } else {
      damaged[at] = static_cast<char>(random.next());
    }
    const auto topology = read_topology(TopologySource::xml(damaged));
    if (!topology.ok()) continue;
    for (const Gpu& gpu : topology->gpus) {
      for (const GpuLink& link : gpu.links.value_or(std::vector<GpuLink>())) {
        REQUIRE(link.to >= 0);
        REQUIRE(link.to < static_cast<int>(topology->gpus.size()));
      }
    }
  }
}

#ifdef HVD_HAVE_HWLOC

// hwloc itself knows links where NVML or ROCm SMI tell it, or a file does.
TEST_CASE("links: hwloc's library tells of the same ones as its XML") {
  test::Folder folder;
  const std::string path = folder.file("node.xml");
  setenv("HWLOC_XMLFILE", path.c_str(), 1);
  for (const LinkCase& c : kCases) {
    const std::string xml = machine_of(c.kinds, c.matrices);
    FILE* file = fopen(path.c_str(), "w");
    REQUIRE(file != nullptr);
    fputs(xml.c_str(), file);
    REQUIRE(fclose(file) == 0);
    CAPTURE(c.name);
    const auto topology = read_topology(TopologySource::machine());
    CHECK(topology.ok());
    if (topology.ok()) CHECK(shown(*topology) == c.links);
  }
  unsetenv("HWLOC_XMLFILE");
}

#endif

}  // namespace
}  // namespace hvd
