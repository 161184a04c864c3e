// SPDX-License-Identifier: Apache-2.0
#include "libhvd/tools/info/surroundings.h"

#include "libhvd/base/handoff.h"
#include "libhvd/base/parse.h"
#include "pmix/launch.h"

namespace hvd::info {
namespace {

int number_in(const Getenv& get, std::initializer_list<const char*> names, int fallback) {
  for (const char* name : names) {
    const char* text = get(name);
    const auto number = text == nullptr ? std::nullopt : parse_count(text);
    if (number) return static_cast<int>(*number);
  }
  return fallback;
}

// The plugin's hand-off, if it is for this very step.
Expected<std::optional<Handoff>> own_handoff(const Getenv& get, const Launch& launch) {
  if (!launch.slurm_step) return std::optional<Handoff>();
  auto handoff = read_handoff(get);
  if (!handoff.ok() || !*handoff) return handoff;
  if ((*handoff)->step != slurm_step_of(get("PMIX_NAMESPACE"))) return std::optional<Handoff>();
  return handoff;
}

Json layout_of_plugin(const Handoff& handoff) {
  const Placement& place = handoff.placement;
  return Json::object()
      .set("source", "plugin")
      .set("rank", place.rank)
      .set("size", place.size)
      .set("local_rank", place.local_rank)
      .set("local_size", place.local_size)
      .set("cross_rank", place.cross_rank)
      .set("cross_size", place.cross_size)
      .set("host", handoff.hostname);
}

// Without the plugin local and cross ranks are known when all ranks have met.
Json layout_of_launcher(const Getenv& get, const Launch& launch, const std::string& host) {
  const int size = number_in(get, {launch.slurm_step ? "SLURM_NTASKS" : "OMPI_COMM_WORLD_SIZE"}, 0);
  return Json::object()
      .set("source", "launcher")
      .set("rank", number_in(get, {"PMIX_RANK"}, 0))
      .set("size", size > 0 ? Json(size) : Json())
      .set("host", host);
}

Json layout_of_one(const std::string& host) {
  return Json::object().set("source", "none").set("rank", 0).set("size", 1).set("host", host);
}

Json texts(const std::vector<std::string>& lines) {
  Json all = Json::array();
  for (const std::string& line : lines) all.add(line);
  return all;
}

}  // namespace

Surroundings look_around(const Getenv& get, const char* const* environment,
                         const std::string& host) {
  std::vector<Status> bad;
  Settings settings = Settings::from_environment(get, &bad);

  Surroundings here;
  Json layout;
  const Expected<Launch> launch = find_launch(get);
  if (!launch.ok()) {
    bad.push_back(launch.status());
    here.task = number_in(get, {"SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}, 0);
  } else if (!launch->pmix) {
    layout = layout_of_one(host);
  } else {
    const auto handoff = own_handoff(get, *launch);
    if (!handoff.ok()) bad.push_back(handoff.status());
    if (handoff.ok() && *handoff) {
      apply_origins(**handoff, &settings);
      layout = layout_of_plugin(**handoff);
    } else {
      layout = layout_of_launcher(get, *launch, host);
    }
    here.task = static_cast<int>(layout["rank"].number());
  }

  const VariableRemarks remarks = check_variables(environment);
  std::vector<std::string> said = remarks.unknown;
  said.insert(said.end(), remarks.no_effect.begin(), remarks.no_effect.end());
  std::vector<std::string> errors;
  for (const Status& status : bad) errors.push_back(status.text());
  here.nccl_lib = settings.text(Setting::kNcclLib);
  here.facts = Json::object()
                   .set("layout", std::move(layout))
                   .set("settings", settings_json(settings))
                   .set("remarks", texts(said))
                   .set("errors", texts(errors));
  return here;
}

}  // namespace hvd::info
