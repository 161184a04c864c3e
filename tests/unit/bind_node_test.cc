// SPDX-License-Identifier: Apache-2.0
//
// Binding on real nodes: those of shared/topologies, where they are there.
#include <algorithm>

#include "spank/bind_report.h"
#include "tests/unit/bind_words.h"
#include "tests/unit/catch.h"

namespace hvd {
namespace {

std::string all_gpus(const Topology& topology) {
  std::string list;
  for (size_t i = 0; i < topology.gpus.size(); ++i) {
    list += (i == 0 ? "" : ",") + std::to_string(i);
  }
  return list;
}

std::string nics_of(const Topology& topology, const Binding& binding) {
  std::string text;
  for (const RankPlace& rank : binding.ranks) {
    text += text.empty() ? "" : "; ";
    for (const int i : rank.nics) text += topology.nics[static_cast<size_t>(i)].name() + " ";
  }
  return text;
}

struct RealCase {
  const char* file;
  int ranks;
  const char* cpus;
  const char* policy;
  const char* answer;
  const char* nics;
};

const RealCase kCases[] = {
    {"lassen-4xV100-power9.xml", 4, "", "auto", "0* 8-47; 1* 48-87; 2* 96-135; 3* 136-175",
     "mlx5_0 mlx5_1 ; mlx5_0 mlx5_1 ; mlx5_2 mlx5_3 ; mlx5_2 mlx5_3 "},
    {"lassen-4xV100-power9.xml", 2, "", "closest", "0(0,1) 8-87; 2(2,3) 96-175",
     "mlx5_0 mlx5_1 ; mlx5_2 mlx5_3 "},
    {"lassen-4xV100-power9.xml", 4, "96-175", "auto",
     "0* 96-115; 1* 116-135; 2* 136-155; 3* 156-175",
     "mlx5_0 mlx5_1 ; mlx5_0 mlx5_1 ; mlx5_2 mlx5_3 ; mlx5_2 mlx5_3 "},
    {"lassen-4xV100-power9.xml", 2, "96-175", "auto", "2* 96-135; 3* 136-175",
     "mlx5_2 mlx5_3 ; mlx5_2 mlx5_3 "},
    {"pascal-2xP100.xml", 2, "", "auto", "0* 0-8,36-44; 1* 9-17,45-53", "mlx5_0 ; mlx5_0 "},
    {"pascal-2xP100.xml", 2, "18-35", "auto", "0* 18-26; 1* 27-35", "mlx5_0 ; mlx5_0 "},
    {"dgx2-16xV100.xml", 4, "", "auto", "0* 0; 1* 1; 8* 24; 9* 25", ""},
    {"tioga-8xMI250X.xml", 8, "", "auto",
     "0* 48-55,112-119; 1* 56-63,120-127; 2* 16-23,80-87; 3* 24-31,88-95; 4* 0-7,64-71; "
     "5* 8-15,72-79; 6* 32-39,96-103; 7* 40-47,104-111",
     "hsi0 ; hsi0 ; hsi1 ; hsi1 ; hsi2 ; hsi2 ; hsi3 ; hsi3 "},
    // The first core of every L3 cache is the system's, as sites do.
    {"tioga-8xMI250X.xml", 8, "1-7,9-15,17-23,25-31,33-39,41-47,49-55,57-63", "closest",
     "0(0) 49-55; 1(1) 57-63; 2(2) 17-23; 3(3) 25-31; 4(4) 1-7; 5(5) 9-15; 6(6) 33-39; 7(7) 41-47",
     "hsi0 ; hsi0 ; hsi1 ; hsi1 ; hsi2 ; hsi2 ; hsi3 ; hsi3 "},
    {"tioga-8xMI250X.xml", 2, "0-15", "auto", "4* 0-7; 5* 8-15", "hsi2 ; hsi2 "},
};

TEST_CASE("bind: ranks of real nodes are beside their GPUs and NICs") {
  for (const RealCase& c : kCases) {
    const auto xml = test::real_node(c.file);
    if (!xml) continue;
    const auto topology = read_topology(TopologySource::xml(*xml));
    CAPTURE(c.file, c.ranks, c.cpus);
    REQUIRE(topology.ok());
    const BindRequest request =
        test::request_of(*topology, c.ranks, all_gpus(*topology), c.cpus, c.policy);
    const auto binding = bind(*topology, request);
    REQUIRE(binding.ok());
    CHECK(test::shown(request, *binding) == c.answer);
    CHECK(nics_of(*topology, *binding) == c.nics);
  }
}

TEST_CASE("bind: drawings of real nodes say which GPUs are linked, where that is known") {
  const struct {
    const char* file;
    const char* gpus;
    const char* line;
  } cases[] = {
      {"lassen-4xV100-power9.xml", "", ""},           {"pascal-2xP100.xml", "", ""},
      {"dgx2-16xV100.xml", "", "linked: all\n"},      {"tioga-8xMI250X.xml", "", "linked: all\n"},
      {"tioga-8xMI250X.xml", "1,6", "linked: all\n"}, {"tioga-8xMI250X.xml", "3", ""},
  };
  for (const auto& c : cases) {
    const auto xml = test::real_node(c.file);
    if (!xml) continue;
    const auto topology = read_topology(TopologySource::xml(*xml));
    CAPTURE(c.file, c.gpus);
    REQUIRE(topology.ok());
    const std::string gpus = *c.gpus == '\0' ? all_gpus(*topology) : c.gpus;
    const BindRequest request = test::request_of(*topology, 1, gpus);
    const auto binding = bind(*topology, request);
    REQUIRE(binding.ok());
    const std::string drawing = report_drawing(report_of("n", {0}, *topology, request, *binding));
    CHECK(drawing.substr(drawing.rfind("+\n") + 2) == c.line);
  }
}

TEST_CASE("bind: on a node of MI250X each rank's cores are in the NUMA node of its GCD") {
  const auto xml = test::real_node("tioga-8xMI250X.xml");
  if (!xml) return;
  const auto topology = read_topology(TopologySource::xml(*xml));
  REQUIRE(topology.ok());
  const BindRequest request = test::request_of(*topology, 8, all_gpus(*topology));
  const auto binding = bind(*topology, request);
  REQUIRE(binding.ok());
  for (const RankPlace& rank : binding->ranks) {
    const Place& place = topology->gpus[static_cast<size_t>(rank.gpu)].place;
    REQUIRE(place.numa >= 0);
    CHECK(topology->numas[static_cast<size_t>(place.numa)].cpus.includes(rank.cpus));
    CHECK(place.cpus == rank.cpus);  // and there, under the cache that the GCD is attached to
  }
  CHECK(binding->distance == 0);
  CHECK(binding->warnings.empty());
}

}  // namespace
}  // namespace hvd
