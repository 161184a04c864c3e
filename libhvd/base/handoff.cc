// SPDX-License-Identifier: Apache-2.0
//
// The internal variable is "step=12.0,node=1,hostname=plugin,site=KEY:KEY,option=KEY", with
// ",torch=NAME:NAME" for the variables of env=torch, less those that were the user's. Keys that a
// reader does not know are skipped: plugin and library may be of different versions.
#include "libhvd/base/handoff.h"

#include <limits.h>
#include <unistd.h>

#include <cstring>

#include "libhvd/base/parse.h"

namespace hvd {
namespace {

constexpr const char* kHostname = "HOROVOD_HOSTNAME";

struct PlacementRow {
  const char* variable;
  int Placement::*field;
};

constexpr PlacementRow kPlacement[] = {
    {"HOROVOD_RANK", &Placement::rank},
    {"HOROVOD_SIZE", &Placement::size},
    {"HOROVOD_LOCAL_RANK", &Placement::local_rank},
    {"HOROVOD_LOCAL_SIZE", &Placement::local_size},
    {"HOROVOD_CROSS_RANK", &Placement::cross_rank},
    {"HOROVOD_CROSS_SIZE", &Placement::cross_size},
};

// What env=torch may set.
constexpr const char* kTorch[] = {"MASTER_ADDR", "MASTER_PORT",      "RANK",       "WORLD_SIZE",
                                  "LOCAL_RANK",  "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK"};

std::string keys_of(const std::vector<Setting>& settings) {
  std::string text;
  for (Setting setting : settings) {
    if (!text.empty()) text += ':';
    text += setting_row(setting).key;
  }
  return text;
}

std::vector<Setting> settings_of(std::string_view keys) {
  std::vector<Setting> settings;
  for (std::string_view key : split(keys, ':')) {
    if (const auto setting = setting_by_key(key)) settings.push_back(*setting);
  }
  return settings;
}

Status read_number(const char* name, const char* text, int* value) {
  if (text == nullptr) return error(Code::kInvalid, "%s is not set", name);
  const auto number = parse_count(text);
  if (!number) return error(Code::kInvalid, "%s is \"%s\", not a number", name, text);
  if (*number > INT_MAX) return error(Code::kInvalid, "%s is \"%s\", too large", name, text);
  *value = static_cast<int>(*number);
  return ok_status();
}

// Each once, and nothing that is not ours to take away again.
void add_torch(std::string_view name, Handoff* handoff) {
  for (const auto& [before, value] : handoff->torch) {
    if (name == before) return;
  }
  for (const char* known : kTorch) {
    if (name == known) handoff->torch.emplace_back(name, "");
  }
}

Status read_internal(std::string_view text, Handoff* handoff) {
  for (std::string_view field : split(text, ',')) {
    const size_t equals = field.find('=');
    if (equals == std::string_view::npos) {
      return error(Code::kInvalid, "%s is \"%.*s\", not a list of fields", kHandoffVariable,
                   static_cast<int>(text.size()), text.data());
    }
    const std::string_view key = field.substr(0, equals);
    const std::string_view value = field.substr(equals + 1);
    if (key == "step") {
      handoff->step = value;
    } else if (key == "node") {
      const Status status = read_number("node", std::string(value).c_str(), &handoff->node);
      if (!status.ok()) return status.annotate(kHandoffVariable);
    } else if (key == "hostname") {
      handoff->own_hostname = value == "plugin";
    } else if (key == "site") {
      handoff->site = settings_of(value);
    } else if (key == "option") {
      handoff->option = settings_of(value);
    } else if (key == "torch") {
      for (std::string_view name : split(value, ':')) add_torch(name, handoff);
    }
  }
  return ok_status();
}

// The numbers must make sense with each other: who trusts a hand-off indexes arrays with them.
Status check(const Placement& p) {
  const struct {
    const char* name;
    int index;
    int size;
  } pairs[] = {{"rank", p.rank, p.size},
               {"local rank", p.local_rank, p.local_size},
               {"cross rank", p.cross_rank, p.cross_size}};
  for (const auto& pair : pairs) {
    if (pair.index >= pair.size) {
      return error(Code::kInvalid, "%s %d of %d does not exist", pair.name, pair.index, pair.size);
    }
  }
  return ok_status();
}

}  // namespace

Variables handoff_variables(const Handoff& handoff, const Settings& settings) {
  Variables variables;
  for (const PlacementRow& row : kPlacement) {
    variables.emplace_back(row.variable, std::to_string(handoff.placement.*row.field));
  }
  variables.emplace_back(kHostname, handoff.hostname);
  for (const auto* given : {&handoff.site, &handoff.option}) {
    for (Setting setting : *given) {
      variables.emplace_back(setting_row(setting).variable, settings.exported(setting));
    }
  }
  std::string internal = "step=" + handoff.step + ",node=" + std::to_string(handoff.node) +
                         ",hostname=" + (handoff.own_hostname ? "plugin" : "user") +
                         ",site=" + keys_of(handoff.site) + ",option=" + keys_of(handoff.option);
  for (const auto& [name, value] : handoff.torch) {
    internal += (name == handoff.torch.front().first ? ",torch=" : ":") + name;
    variables.emplace_back(name, value);
  }
  variables.emplace_back(kHandoffVariable, std::move(internal));
  return variables;
}

std::vector<const char*> variables_of_handoff(std::string_view internal) {
  Handoff handoff;
  // What cannot be read was not written by a plugin: nothing in it is to be kept.
  (void)read_internal(internal, &handoff).ok();
  std::vector<const char*> names = {kHandoffVariable, kReportVariable};
  for (const PlacementRow& row : kPlacement) names.push_back(row.variable);
  if (handoff.own_hostname) names.push_back(kHostname);
  for (Setting setting : handoff.site) names.push_back(setting_row(setting).variable);
  for (const char* known : kTorch) {
    for (const auto& [name, value] : handoff.torch) {
      if (name == known) names.push_back(known);
    }
  }
  return names;
}

Expected<std::optional<Handoff>> read_handoff(const Getenv& get) {
  const char* internal = get(kHandoffVariable);
  if (internal == nullptr) return std::optional<Handoff>();
  Handoff handoff;
  Status status = read_internal(internal, &handoff);
  for (const PlacementRow& row : kPlacement) {
    if (!status.ok()) break;
    status = read_number(row.variable, get(row.variable), &(handoff.placement.*row.field));
  }
  if (status.ok()) status = check(handoff.placement);
  if (!status.ok()) return status.annotate("reading the hand-off");
  const char* hostname = get(kHostname);
  if (hostname != nullptr) handoff.hostname = hostname;
  return std::optional<Handoff>(std::move(handoff));
}

Status compare_with_handoff(const Handoff& handoff, int rank, int size) {
  const Placement& p = handoff.placement;
  if (p.rank == rank && p.size == size) return ok_status();
  return error(Code::kMismatch,
               "PMIx says that this is rank %d of %d, but the Slurm plugin said rank %d of %d "
               "(HOROVOD_RANK, HOROVOD_SIZE). Does the script set one of these variables?",
               rank, size, p.rank, p.size);
}

void apply_origins(const Handoff& handoff, Settings* settings) {
  for (Setting setting : handoff.site) settings->set_origin(setting, Origin::kSite);
  for (Setting setting : handoff.option) settings->set_origin(setting, Origin::kOption);
}

std::string host_name(const Getenv& get) {
  for (const char* variable : {kHostname, "SLURMD_NODENAME"}) {
    const char* name = get(variable);
    if (name != nullptr && *name != '\0') return name;
  }
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

std::string_view slurm_step_of(std::string_view pmix_namespace) {
  constexpr std::string_view prefix = "slurm.pmix.";
  if (pmix_namespace.substr(0, prefix.size()) != prefix) return {};
  const std::string_view step = pmix_namespace.substr(prefix.size());
  const size_t dot = step.find('.');
  if (dot == std::string_view::npos) return {};
  if (!parse_count(step.substr(0, dot)) || !parse_count(step.substr(dot + 1))) return {};
  return step;
}

}  // namespace hvd
