// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes what the library reads of its environment: the plugin's hand-off, the settings and
// variables that are none. What was read is written as the plugin does, and read again (libFuzzer;
// tests/fuzz/run).
#include "libhvd/base/handoff.h"

#include "tests/fuzz/lines.h"

namespace hvd {
namespace {

void expect(bool holds) {
  if (!holds) __builtin_trap();
}

bool same(const Placement& a, const Placement& b) {
  return a.rank == b.rank && a.size == b.size && a.local_rank == b.local_rank &&
         a.local_size == b.local_size && a.cross_rank == b.cross_rank &&
         a.cross_size == b.cross_size;
}

void check_again(const Handoff& handoff, const Settings& settings) {
  std::map<std::string, std::string> written;
  for (const auto& [name, value] : handoff_variables(handoff, settings)) written[name] = value;
  const Getenv get = [&](const char* name) -> const char* {
    const auto found = written.find(name);
    return found == written.end() ? nullptr : found->second.c_str();
  };
  const auto again = read_handoff(get);
  expect(again.ok() && *again);
  expect((*again)->step == handoff.step && (*again)->node == handoff.node);
  expect((*again)->hostname == handoff.hostname);
  expect((*again)->own_hostname == handoff.own_hostname);
  expect((*again)->site == handoff.site && (*again)->option == handoff.option);
  expect(same((*again)->placement, handoff.placement));
  const auto values = Settings::from_environment(get);
  expect(values.ok());
  for (const auto* given : {&handoff.site, &handoff.option}) {
    for (const Setting one : *given) expect(values->exported(one) == settings.exported(one));
  }
}

void check_remarks(const test::Lines& lines) {
  std::vector<std::string> all;
  for (const auto& [name, value] : lines.variables()) all.push_back(name + "=" + value);
  std::vector<const char*> environment;
  for (const std::string& one : all) environment.push_back(one.c_str());
  environment.push_back(nullptr);
  const VariableRemarks remarks = check_variables(environment.data());
  for (const std::string& line : remarks.unknown) expect(!line.empty());
  for (const std::string& line : remarks.no_effect) expect(!line.empty());
}

}  // namespace
}  // namespace hvd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hvd;
  const test::Lines lines(data, size);
  const Getenv get = lines.getter();
  std::vector<Status> bad;
  Settings settings = Settings::from_environment(get, &bad);
  for (const Status& status : bad) expect(!status.ok() && !status.text().empty());
  (void)settings_json(settings).dump();
  check_remarks(lines);
  (void)host_name(get);
  (void)slurm_step_of(lines.text("PMIX_NAMESPACE"));
  for (const char* name : variables_of_handoff(lines.text(kHandoffVariable))) {
    // The others are env=torch's, which the hand-off has to name.
    expect(std::string_view(name).substr(0, 8) == "HOROVOD_" ||
           std::string(lines.text(kHandoffVariable)).find(name) != std::string::npos);
  }

  const auto handoff = read_handoff(get);
  if (!handoff.ok()) {
    expect(!handoff.status().text().empty());
    return 0;
  }
  expect(handoff->has_value() == lines.has(kHandoffVariable));
  if (!*handoff) return 0;
  const Placement& place = (*handoff)->placement;
  expect(place.rank >= 0 && place.rank < place.size);
  expect(place.local_rank >= 0 && place.local_rank < place.local_size);
  expect(place.cross_rank >= 0 && place.cross_rank < place.cross_size);
  expect(compare_with_handoff(**handoff, place.rank, place.size).ok());
  apply_origins(**handoff, &settings);
  check_again(**handoff, settings);
  return 0;
}
