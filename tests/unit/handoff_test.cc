// SPDX-License-Identifier: Apache-2.0
//
// What the plugin writes, the library reads.
#include "libhvd/base/handoff.h"

#include <unistd.h>

#include <cstring>
#include <map>

#include "tests/unit/catch.h"

using hvd::Handoff;
using hvd::Origin;
using hvd::Setting;
using hvd::Settings;

namespace {

using Environment = std::map<std::string, std::string>;

hvd::Getenv getter(const Environment& environment) {
  return [&environment](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  };
}

Handoff example() {
  Handoff handoff;
  handoff.step = "12.3";
  handoff.node = 2;
  handoff.placement = {5, 8, 1, 2, 2, 4};
  handoff.hostname = "node2";
  handoff.site = {Setting::kPeerTimeout};
  handoff.option = {Setting::kFusionThreshold, Setting::kLogHideTime};
  return handoff;
}

Environment written(const Handoff& handoff) {
  Settings settings;
  REQUIRE(settings.set(Setting::kPeerTimeout, "20s", Origin::kSite).ok());
  REQUIRE(settings.set(Setting::kFusionThreshold, "64M", Origin::kOption).ok());
  REQUIRE(settings.set(Setting::kLogHideTime, "on", Origin::kOption).ok());
  Environment environment;
  for (const auto& [name, value] : handoff_variables(handoff, settings)) {
    CHECK(environment.emplace(name, value).second);
  }
  return environment;
}

}  // namespace

TEST_CASE("a task finds Horovod's own variables", "[base]") {
  const Environment environment = written(example());
  CHECK(environment == Environment{{"HOROVOD_RANK", "5"},
                                   {"HOROVOD_SIZE", "8"},
                                   {"HOROVOD_LOCAL_RANK", "1"},
                                   {"HOROVOD_LOCAL_SIZE", "2"},
                                   {"HOROVOD_CROSS_RANK", "2"},
                                   {"HOROVOD_CROSS_SIZE", "4"},
                                   {"HOROVOD_HOSTNAME", "node2"},
                                   {"HOROVOD_PEER_TIMEOUT", "20"},
                                   {"HOROVOD_FUSION_THRESHOLD", "67108864"},
                                   {"HOROVOD_LOG_HIDE_TIME", "1"},
                                   {"HOROVOD_INTERNAL_HANDOFF",
                                    "step=12.3,node=2,hostname=plugin,site=peer-timeout,"
                                    "option=fusion-threshold:log-hide-time"}});
}

TEST_CASE("what was written is read, with the origin of every setting", "[base]") {
  const Environment environment = written(example());
  const auto read = hvd::read_handoff(getter(environment));
  REQUIRE(read.ok());
  REQUIRE(read.value());
  const Handoff& handoff = *read.value();
  CHECK(handoff.step == "12.3");
  CHECK(handoff.node == 2);
  CHECK(handoff.placement.rank == 5);
  CHECK(handoff.placement.size == 8);
  CHECK(handoff.placement.local_rank == 1);
  CHECK(handoff.placement.local_size == 2);
  CHECK(handoff.placement.cross_rank == 2);
  CHECK(handoff.placement.cross_size == 4);
  CHECK(handoff.hostname == "node2");
  CHECK(handoff.own_hostname);

  auto settings = Settings::from_environment(getter(environment));
  REQUIRE(settings.ok());
  apply_origins(handoff, &settings.value());
  CHECK(settings->origin(Setting::kPeerTimeout) == Origin::kSite);
  CHECK(settings->origin(Setting::kFusionThreshold) == Origin::kOption);
  CHECK(settings->origin(Setting::kLogHideTime) == Origin::kOption);
  CHECK(settings->origin(Setting::kCycleTime) == Origin::kDefault);
}

TEST_CASE("a host name of the user's is told apart", "[base]") {
  Handoff handoff = example();
  handoff.own_hostname = false;
  const Environment environment = written(handoff);
  const auto read = hvd::read_handoff(getter(environment));
  REQUIRE(read.ok());
  CHECK_FALSE(read.value()->own_hostname);
}

TEST_CASE("without the plugin there is nothing to read", "[base]") {
  const Environment environment = {{"HOROVOD_RANK", "1"}, {"HOROVOD_SIZE", "2"}};
  const auto read = hvd::read_handoff(getter(environment));
  REQUIRE(read.ok());
  CHECK_FALSE(read.value());
}

TEST_CASE("a later step can clear what is not the user's choice", "[base]") {
  Handoff handoff = example();
  for (const bool own_hostname : {true, false}) {
    handoff.own_hostname = own_hostname;
    Environment environment = written(handoff);
    for (const char* name : hvd::variables_of_handoff(environment[hvd::kHandoffVariable])) {
      INFO(name);
      // Only with --horovod=report is it there.
      CHECK(environment.erase(name) == (strcmp(name, hvd::kReportVariable) == 0 ? 0 : 1));
    }
    Environment left = {{"HOROVOD_FUSION_THRESHOLD", "67108864"}, {"HOROVOD_LOG_HIDE_TIME", "1"}};
    if (!own_hostname) left["HOROVOD_HOSTNAME"] = "node2";
    CHECK(environment == left);
  }
  CHECK(hvd::variables_of_handoff("nonsense").size() == 9);
}

TEST_CASE("a later step can clear what env=torch has set, and nothing else by that name",
          "[base]") {
  Handoff handoff = example();
  handoff.torch = {{"MASTER_ADDR", "node0"}, {"RANK", "5"}, {"PATH", "/bin"}};
  Environment environment = written(handoff);
  CHECK(environment.at("RANK") == "5");
  environment["MASTER_PORT"] = "4711";  // the user's
  for (const char* name : hvd::variables_of_handoff(environment[hvd::kHandoffVariable])) {
    environment.erase(name);
  }
  CHECK(environment == Environment{{"HOROVOD_FUSION_THRESHOLD", "67108864"},
                                   {"HOROVOD_LOG_HIDE_TIME", "1"},
                                   {"MASTER_PORT", "4711"},
                                   {"PATH", "/bin"}});
}

TEST_CASE("of what a hand-off says that env=torch has set only what it can set counts, once",
          "[base]") {
  Environment environment = written(example());
  environment[hvd::kHandoffVariable] += ",torch=HOROVOD_RANK:RANK:PATH:RANK";
  const auto handoff = hvd::read_handoff(getter(environment));
  REQUIRE((handoff.ok() && *handoff));
  REQUIRE((*handoff)->torch.size() == 1);
  CHECK((*handoff)->torch[0].first == "RANK");
}

TEST_CASE("a hand-off that somebody changed is a sentence", "[base]") {
  const struct {
    const char* name;
    const char* value;
    const char* text;
  } cases[] = {
      {"HOROVOD_RANK", "x", "reading the hand-off: HOROVOD_RANK is \"x\", not a number"},
      {"HOROVOD_RANK", "-1", "reading the hand-off: HOROVOD_RANK is \"-1\", not a number"},
      {"HOROVOD_SIZE", "9999999999",
       "reading the hand-off: HOROVOD_SIZE is \"9999999999\", too large"},
      {"HOROVOD_LOCAL_RANK", nullptr, "reading the hand-off: HOROVOD_LOCAL_RANK is not set"},
      {"HOROVOD_RANK", "8", "reading the hand-off: rank 8 of 8 does not exist"},
      {"HOROVOD_CROSS_SIZE", "0", "reading the hand-off: cross rank 2 of 0 does not exist"},
      {"HOROVOD_INTERNAL_HANDOFF", "",
       "reading the hand-off: HOROVOD_INTERNAL_HANDOFF is \"\", not a list of fields"},
      {"HOROVOD_INTERNAL_HANDOFF", "step=1.0,node=a",
       "reading the hand-off: HOROVOD_INTERNAL_HANDOFF: node is \"a\", not a number"},
  };
  for (const auto& c : cases) {
    INFO(c.text);
    Environment environment = written(example());
    if (c.value == nullptr) {
      environment.erase(c.name);
    } else {
      environment[c.name] = c.value;
    }
    CHECK(hvd::read_handoff(getter(environment)).status().text() == c.text);
  }
}

TEST_CASE("plugin and PMIx must agree about rank and size", "[base]") {
  hvd::Handoff handoff;
  handoff.placement.rank = 3;
  handoff.placement.size = 4;
  CHECK(hvd::compare_with_handoff(handoff, 3, 4).ok());
  for (const auto& [rank, size] : {std::pair{2, 4}, std::pair{3, 8}}) {
    const hvd::Status status = hvd::compare_with_handoff(handoff, rank, size);
    CHECK(status.code() == hvd::Code::kMismatch);
    CHECK(status.text() ==
          hvd::format("PMIx says that this is rank %d of %d, but the Slurm plugin said rank 3 of 4 "
                      "(HOROVOD_RANK, HOROVOD_SIZE). Does the script set one of these variables?",
                      rank, size));
  }
}

TEST_CASE("fields of a newer plugin are skipped", "[base]") {
  Environment environment = written(example());
  environment["HOROVOD_INTERNAL_HANDOFF"] = "step=1.2,colour=blue,option=banana:slots";
  const auto read = hvd::read_handoff(getter(environment));
  REQUIRE(read.ok());
  CHECK(read.value()->step == "1.2");
  CHECK(read.value()->option == std::vector<Setting>{Setting::kSlots});
}

TEST_CASE("a node's name is the user's, else Slurm's, else the system's", "[base]") {
  char system[256] = "";
  gethostname(system, sizeof system - 1);
  const struct {
    Environment environment;
    std::string name;
  } cases[] = {
      {{{"HOROVOD_HOSTNAME", "sim1"}, {"SLURMD_NODENAME", "node1"}}, "sim1"},
      {{{"HOROVOD_HOSTNAME", ""}, {"SLURMD_NODENAME", "node1"}}, "node1"},
      {{}, system},
  };
  for (const auto& c : cases) CHECK(hvd::host_name(getter(c.environment)) == c.name);
}

TEST_CASE("only Slurm's own namespaces name a step", "[base]") {
  CHECK(hvd::slurm_step_of("slurm.pmix.12.0") == "12.0");
  CHECK(hvd::slurm_step_of("slurm.pmix.4294967290.7") == "4294967290.7");
  for (const char* other : {"", "slurm.pmix.", "slurm.pmix.12", "slurm.pmix.12.", "slurm.pmix.a.0",
                            "prterun-node0-12@1", "4051763201.1"}) {
    INFO(other);
    CHECK(hvd::slurm_step_of(other).empty());
  }
}
