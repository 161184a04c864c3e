// SPDX-License-Identifier: Apache-2.0
#include "spank/torch_variables.h"

#include "libhvd/base/parse.h"
#include "spank/node_list.h"

namespace hvd {
namespace {

constexpr const char* kNodeList = "SLURM_STEP_NODELIST";
constexpr int kFirstPort = 20000;
constexpr int kPorts = 8192;
constexpr int kStepsOfJob = 61;  // no divisor of kPorts: jobs in turn do not meet soon

std::string text_of(const Getenv& get, const char* name) {
  const char* text = get(name);
  return text == nullptr ? "" : text;
}

// torchrun's first node is the one with rank 0; Slurm's mapping may begin with another.
int node_number(const Layout& layout, int node) {
  int before = 0;
  for (const auto& ranks : layout.ranks) {
    if (ranks[0] < layout.leader(node)) ++before;
  }
  return before;
}

// The mapping counts nodes as the list has them, in every distribution and in heterogeneous steps
// (seen with Slurm 22.05). Would a Slurm count otherwise, this node were not where it should be.
Expected<std::string> first_rank_node(const Layout& layout, const Handoff& handoff,
                                      const std::string& node_name, const Getenv& get) {
  const std::string list = text_of(get, kNodeList);
  if (list.empty()) return error(Code::kInternal, "Slurm has not set %s", kNodeList);
  const auto own = name_in_list(list, handoff.node);
  if (!own.ok()) return own.status().annotate(kNodeList);
  if (*own != node_name) {
    return error(Code::kInvalid, "node %d of %s \"%s\" is %s, but this is %s", handoff.node,
                 kNodeList, list.c_str(), own->c_str(), node_name.c_str());
  }
  return name_in_list(list, layout.node_of[0]);
}

// What Slurm keeps free for this step on all its nodes, as in "12000-12003", where slurm.conf has
// MpiParams=ports. Of a heterogeneous step's components each may have others.
std::optional<int> reserved_port(const Getenv& get) {
  if (!text_of(get, "SLURM_HET_SIZE").empty()) return std::nullopt;
  const std::string ports = text_of(get, "SLURM_STEP_RESV_PORTS");
  const auto first = parse_count(ports.substr(0, ports.find_first_of("-,")));
  if (!first || *first < 1 || *first > UINT16_MAX) return std::nullopt;
  return static_cast<int>(*first);
}

}  // namespace

int port_of_step(std::string_view step) {
  const size_t dot = step.find('.');
  const int64_t job = parse_count(step.substr(0, dot)).value_or(0);
  const int64_t number =
      dot == std::string_view::npos ? 0 : parse_count(step.substr(dot + 1)).value_or(0);
  // Each by itself: neither can overflow.
  return kFirstPort + static_cast<int>((job % kPorts * kStepsOfJob + number % kPorts) % kPorts);
}

Expected<Variables> torch_variables(const Layout& layout, const Handoff& handoff,
                                    const std::string& node_name, const Getenv& get) {
  const Placement& place = handoff.placement;
  const std::string node = std::to_string(node_number(layout, handoff.node));
  Variables variables = {
      {"RANK", std::to_string(place.rank)},
      {"WORLD_SIZE", std::to_string(place.size)},
      {"LOCAL_RANK", std::to_string(place.local_rank)},
      {"LOCAL_WORLD_SIZE", std::to_string(place.local_size)},
      {"GROUP_RANK", node},  // torchrun's word
      {"NODE_RANK", node},   // what Composer and many a script read
  };
  if (text_of(get, "MASTER_ADDR").empty()) {
    const auto name = first_rank_node(layout, handoff, node_name, get);
    if (!name.ok()) {
      return error(name.status().code(), "env=torch: %s. Set MASTER_ADDR to the host of rank 0",
                   name.status().text().c_str());
    }
    variables.emplace_back("MASTER_ADDR", *name);
  }
  if (text_of(get, "MASTER_PORT").empty()) {
    const int port = reserved_port(get).value_or(port_of_step(handoff.step));
    variables.emplace_back("MASTER_PORT", std::to_string(port));
  }
  return variables;
}

}  // namespace hvd
