// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a task's environment.
#include "spank/bind_environment.h"

#include <map>

#include "tests/unit/bind_words.h"
#include "tests/unit/catch.h"

namespace hvd {
namespace {

using Variables = std::map<std::string, std::string>;

// "NAME=value ... -NAME"
std::string changes(const Topology& topology, const BindRequest& request, int rank,
                    const Variables& before = {}) {
  const auto binding = bind(topology, request);
  if (!binding.ok()) return binding.status().text();
  const auto change = environment_of(topology, request, *binding, rank, [&](const char* name) {
    const auto at = before.find(name);
    return at == before.end() ? nullptr : at->second.c_str();
  });
  std::string text;
  for (const auto& [name, value] : change.set) text += name + "=" + value + " ";
  for (const std::string& name : change.unset) text += "-" + name + " ";
  return text;
}

Topology of_vendor(Vendor vendor) { return test::node_of({2, 1, 4, 1, {1, 0}, {}, {}, vendor}); }

TEST_CASE("bind: the list of GPUs is in the variable of their vendor") {
  const Topology nvidia = of_vendor(Vendor::kNvidia);
  const auto crossed = [](const Topology& topology) {
    BindRequest request = test::request_of(topology, 2, "0,1");
    request.masks = test::masks_of("0-3;4-7");
    return request;
  };
  CHECK(changes(nvidia, crossed(nvidia), 0) ==
        "CUDA_VISIBLE_DEVICES=1,0 CUDA_DEVICE_ORDER=PCI_BUS_ID ");
  CHECK(changes(nvidia, crossed(nvidia), 1) == changes(nvidia, crossed(nvidia), 0));
  CHECK(changes(nvidia, crossed(nvidia), 0, {{"CUDA_DEVICE_ORDER", "FASTEST_FIRST"}}) ==
        "CUDA_VISIBLE_DEVICES=1,0 ");
  // UUIDs mean the same in every order.
  CHECK(changes(nvidia, test::request_of(nvidia, 2, "GPU-02,GPU-01", "", "closest"), 1) ==
        "CUDA_VISIBLE_DEVICES=GPU-02 ");
  CHECK(changes(nvidia, test::request_of(nvidia, 2, "MIG-b,MIG-a"), 1) ==
        "CUDA_VISIBLE_DEVICES=MIG-b ");

  const Topology amd = of_vendor(Vendor::kAmd);
  CHECK(changes(amd, crossed(amd), 0) == "ROCR_VISIBLE_DEVICES=1,0 ");
  CHECK(changes(amd, crossed(amd), 0,
                {{"ROCR_VISIBLE_DEVICES", "0,1"},
                 {"CUDA_VISIBLE_DEVICES", "0,1"},
                 {"HIP_VISIBLE_DEVICES", "0,1"},
                 {"GPU_DEVICE_ORDINAL", "0,1"}}) ==
        "ROCR_VISIBLE_DEVICES=1,0 -HIP_VISIBLE_DEVICES -CUDA_VISIBLE_DEVICES -GPU_DEVICE_ORDINAL ");

  const Topology intel = of_vendor(Vendor::kIntel);
  CHECK(changes(intel, test::request_of(intel, 2, "0.0,1.0"), 0) == "ZE_AFFINITY_MASK=0.0,1.0 ");
}

TEST_CASE("bind: of a vendor that is not known, only variables that are there are set") {
  const Topology none = test::node_of({1, 1, 4, 1, {}, {}});
  const BindRequest request = test::request_of(none, 2, "0,1", "", "map:1:0");
  CHECK(changes(none, request, 0) == "");
  CHECK(changes(none, request, 0, {{"CUDA_VISIBLE_DEVICES", "0,1"}, {"ZE_AFFINITY_MASK", "0,1"}}) ==
        "ZE_AFFINITY_MASK=1,0 CUDA_VISIBLE_DEVICES=1,0 CUDA_DEVICE_ORDER=PCI_BUS_ID ");
}

TEST_CASE("bind: what Slurm or the user has bound is not touched") {
  const Topology nvidia = of_vendor(Vendor::kNvidia);
  CHECK(changes(nvidia, test::request_of(nvidia, 2, "0,1", "", "none"), 0) == "");
  BindRequest bound = test::request_of(nvidia, 2, "0,1");
  bound.rank_gpus = {{1}, {0}};
  CHECK(changes(nvidia, bound, 0) == "");
}

TEST_CASE("bind: NICs are named where the choice is not ambiguous") {
  const auto of = [](const Topology& topology, NicPolicy policy = NicPolicy::kAuto) {
    const char* gpus = topology.gpus.empty() ? "" : "0,1";
    BindRequest request = test::request_of(topology, 2, gpus, "", "none");
    request.nic = policy;
    return request;
  };
  const Topology one_each = test::node_of({2, 1, 4, 1, {0, 1}, {0, 1}});
  CHECK(changes(one_each, of(one_each), 0) ==
        "UCX_NET_DEVICES=mlx5_0:1 NCCL_IB_HCA==mlx5_0,mlx5_1 ");
  CHECK(changes(one_each, of(one_each), 1) ==
        "UCX_NET_DEVICES=mlx5_1:1 NCCL_IB_HCA==mlx5_0,mlx5_1 ");
  CHECK(changes(one_each, of(one_each), 1, {{"UCX_NET_DEVICES", "all"}, {"NCCL_IB_HCA", "mlx5"}}) ==
        "");
  CHECK(changes(one_each, of(one_each, NicPolicy::kNone), 0) == "");

  const Topology two_each = test::node_of({2, 1, 4, 1, {0, 1}, {0, 0, 1, 1}});
  CHECK(changes(two_each, of(two_each), 0) == "");
  CHECK(changes(two_each, of(two_each, NicPolicy::kNearest), 1) ==
        "UCX_NET_DEVICES=mlx5_2:1 NCCL_IB_HCA==mlx5_0,mlx5_2 ");

  const Topology no_gpu = test::node_of({1, 1, 4, 1, {}, {0}});
  CHECK(changes(no_gpu, of(no_gpu), 0) == "UCX_NET_DEVICES=mlx5_0:1 ");

  Topology second_port = test::node_of({1, 1, 4, 1, {0, 0}, {0}});
  second_port.nics[0].port = 2;
  CHECK(changes(second_port, of(second_port), 0) ==
        "UCX_NET_DEVICES=mlx5_0:2 NCCL_IB_HCA==mlx5_0 ");
}

TEST_CASE("bind: interfaces are named for all of Slingshot, or for the one Ethernet") {
  Topology topology = test::node_of({2, 1, 4, 1, {0, 1}, {0, 1}});
  const BindRequest request = test::request_of(topology, 2, "0,1", "", "none");
  for (Nic& nic : topology.nics) {
    nic.device.clear();
    nic.fabric = Fabric::kEthernet;
  }
  CHECK(changes(topology, request, 0) == "");
  for (Nic& nic : topology.nics) nic.fabric = Fabric::kSlingshot;
  CHECK(changes(topology, request, 0) == "NCCL_SOCKET_IFNAME==ib0,ib1 ");
  CHECK(changes(topology, request, 0, {{"NCCL_SOCKET_IFNAME", "hsn"}}) == "");
  topology.nics.pop_back();
  topology.nics[0].fabric = Fabric::kEthernet;
  CHECK(changes(topology, request, 0) == "NCCL_SOCKET_IFNAME==ib0 ");
}

}  // namespace
}  // namespace hvd
