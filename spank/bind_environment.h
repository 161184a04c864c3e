// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a task's environment, given a binding. Pure.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "spank/bind.h"

namespace hvd {

struct EnvironmentChange {
  std::vector<std::pair<std::string, std::string>> set;
  std::vector<std::string> unset;
};

// Of local rank `rank`. `get` reads the task's environment as Slurm made it; nullptr is not set.
//
// GPUs, if the binding sets them: CUDA_VISIBLE_DEVICES (NVIDIA; with numbers also
// CUDA_DEVICE_ORDER=PCI_BUS_ID, which is how Slurm counts, unless it is set), ROCR_VISIBLE_DEVICES
// (AMD; HIP_, CUDA_VISIBLE_DEVICES and GPU_DEVICE_ORDINAL, which select among what it leaves, are
// unset), ZE_AFFINITY_MASK (Intel). GPUs of a vendor that is not known: those of the three that
// are set already.
//
// NICs, never over what is set: UCX_NET_DEVICES, if one is nearest. Of ranks with a GPU also
// NCCL_IB_HCA, if each rank has one: those of all ranks of the node, because NCCL numbers NICs and
// ranks of a node must count alike. NCCL_SOCKET_IFNAME: all of Slingshot, or the one Ethernet of a
// node that has no more.
EnvironmentChange environment_of(const Topology& topology, const BindRequest& request,
                                 const Binding& binding, int rank,
                                 const std::function<const char*(const char* variable)>& get);

}  // namespace hvd
