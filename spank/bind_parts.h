// SPDX-License-Identifier: Apache-2.0
//
// The parts of bind(), in the order in which they decide. For bind.cc and its tests alone.
#pragma once

#include <vector>

#include "spank/bind.h"

namespace hvd {

// choose_gpus.cc: fills visible and gpu of every rank.
Status choose_gpus(const Topology& topology, const BindRequest& request, Binding* binding);

// Cores of the step near `place` (nullptr: anywhere), as indices in Topology::cores: those of its
// NUMA node; if the step has none there, of its package; else all.
std::vector<int> cores_near(const Topology& topology, const CpuSet& allowed, const Place* place);

// deal_cores.cc: the CPUs of each rank. places[rank]: of its GPU, or nullptr.
//
// Ranks of the same locality get whole cores of it, as even as possible, in runs of neighbours;
// which rank gets which run is an assignment problem. Nobody takes from a rank with fewer places to
// go: one whose locality is wide (a package, the machine) gets what narrower ones within leave
// after each has had its even share. Where cores are fewer than ranks they share all of them.
std::vector<CpuSet> deal_cores(const Topology& topology, const CpuSet& allowed,
                               const std::vector<const Place*>& places);

// choose_nics.cc: fills nics of every rank.
void choose_nics(const Topology& topology, const BindRequest& request, Binding* binding);

// bind_warnings.cc: what will hurt.
std::vector<BindWarning> find_trouble(const Topology& topology, const BindRequest& request,
                                      const Binding& binding);

// Of the GPU at this position of the list; nullptr if that is -1 or not known.
const Place* place_of(const Topology& topology, const BindRequest& request, int position);

}  // namespace hvd
