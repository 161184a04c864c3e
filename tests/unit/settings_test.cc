// SPDX-License-Identifier: Apache-2.0
//
// The table of settings: it is consistent, what it allows is read, what it does not is a sentence.
#include "libhvd/base/settings.h"

#include <map>
#include <set>

#include "libhvd/base/parse.h"
#include "tests/unit/catch.h"

using hvd::Kind;
using hvd::Origin;
using hvd::Setting;
using hvd::SettingRow;
using hvd::Settings;

namespace {

hvd::Expected<Settings> from(const std::map<std::string, std::string>& environment) {
  return Settings::from_environment([&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

}  // namespace

TEST_CASE("every row's default is allowed by the row, and its names are unique", "[base]") {
  std::set<std::string> keys, variables;
  int index = 0;
  for (const SettingRow& row : hvd::setting_rows()) {
    INFO(row.key);
    CHECK(static_cast<int>(row.setting) == index++);
    CHECK(Settings().set(row.setting, row.default_text, Origin::kOption).text() == "");
    CHECK(keys.insert(row.key).second);
    CHECK(variables.insert(row.variable).second);
    CHECK(std::string(row.variable).substr(0, 8) == "HOROVOD_");
    CHECK(hvd::setting_by_key(row.key) == row.setting);
    CHECK(std::string(row.meaning).find('\n') == std::string::npos);
    CHECK(std::string(row.meaning).back() != '.');
  }
  CHECK_FALSE(hvd::setting_by_key("fusion"));
}

TEST_CASE("the built-in values", "[base]") {
  const Settings settings;
  CHECK(settings.number(Setting::kFusionThreshold) == 128 << 20);
  CHECK(settings.ns(Setting::kCycleTime) == 0);
  CHECK(settings.number(Setting::kCacheCapacity) == 1024);
  CHECK(settings.ns(Setting::kStartTimeout) == 30 * hvd::kNsPerSecond);
  CHECK(settings.ns(Setting::kPeerTimeout) == 10 * hvd::kNsPerSecond);
  CHECK(settings.text(Setting::kInterfaces) == "");
  CHECK(settings.text(Setting::kMpi) == "auto");
  CHECK(settings.text(Setting::kLogLevel) == "warning");
  CHECK_FALSE(settings.flag(Setting::kLogHideTime));
  CHECK(settings.number(Setting::kBlockSize) == 0);
  CHECK(settings.number(Setting::kSlots) == 4);
  CHECK(settings.text(Setting::kTimeline) == "");
  CHECK_FALSE(settings.flag(Setting::kTimelineMarkCycles));
  for (const SettingRow& row : hvd::setting_rows()) {
    CHECK(settings.origin(row.setting) == Origin::kDefault);
  }
}

TEST_CASE("Horovod's variables are read in Horovod's units, with suffixes too", "[base]") {
  const auto settings = from({{"HOROVOD_FUSION_THRESHOLD", "67108864"},
                              {"HOROVOD_CYCLE_TIME", "0.5"},
                              {"HOROVOD_START_TIMEOUT", "1m"},
                              {"HOROVOD_PEER_TIMEOUT", "20"},
                              {"HOROVOD_INTERFACES", "eth0:ib0"},
                              {"HOROVOD_LOG_LEVEL", "DEBUG"},
                              {"HOROVOD_LOG_HIDE_TIME", "1"},
                              {"HOROVOD_BLOCK_SIZE", ""}});
  REQUIRE(settings.ok());
  CHECK(settings->number(Setting::kFusionThreshold) == 64 << 20);
  CHECK(settings->ns(Setting::kCycleTime) == 500000);
  CHECK(settings->ns(Setting::kStartTimeout) == 60 * hvd::kNsPerSecond);
  CHECK(settings->ns(Setting::kPeerTimeout) == 20 * hvd::kNsPerSecond);
  CHECK(hvd::list_elements(settings->text(Setting::kInterfaces)) ==
        std::vector<std::string>{"eth0", "ib0"});
  CHECK(settings->text(Setting::kLogLevel) == "debug");
  CHECK(settings->flag(Setting::kLogHideTime));
  CHECK(settings->origin(Setting::kLogHideTime) == Origin::kEnvironment);
  CHECK(settings->origin(Setting::kBlockSize) == Origin::kDefault);
}

TEST_CASE("a bad value is a sentence that names the variable and says how to write it", "[base]") {
  const struct {
    const char* variable;
    const char* value;
    const char* text;
  } cases[] = {
      {"HOROVOD_FUSION_THRESHOLD", "12X",
       "HOROVOD_FUSION_THRESHOLD is \"12X\", not a size; write a number of bytes, or 64M"},
      {"HOROVOD_FUSION_THRESHOLD", "2T",
       "HOROVOD_FUSION_THRESHOLD is \"2T\", more than 1T, the most"},
      {"HOROVOD_CYCLE_TIME", "fast",
       "HOROVOD_CYCLE_TIME is \"fast\", not a duration; write a number of milliseconds, or 2ms"},
      {"HOROVOD_START_TIMEOUT", "0", "HOROVOD_START_TIMEOUT is \"0\", less than 100ms, the least"},
      {"HOROVOD_PEER_TIMEOUT", "soon",
       "HOROVOD_PEER_TIMEOUT is \"soon\", not a duration; write a number of seconds, or 30s, "
       "500ms, 2m"},
      {"HOROVOD_CACHE_CAPACITY", "1K", "HOROVOD_CACHE_CAPACITY is \"1K\", not a number"},
      {"HOROVOD_SLOTS", "1", "HOROVOD_SLOTS is \"1\", less than 2, the least"},
      {"HOROVOD_SLOTS", "17", "HOROVOD_SLOTS is \"17\", more than 16, the most"},
      {"HOROVOD_MPI", "eagr",
       "HOROVOD_MPI is \"eagr\", not one of auto, eager, off; did you mean eager?"},
      {"HOROVOD_MPI", "banana", "HOROVOD_MPI is \"banana\", not one of auto, eager, off"},
      {"HOROVOD_LOG_HIDE_TIME", "perhaps",
       "HOROVOD_LOG_HIDE_TIME is \"perhaps\", not a yes or no; write on or off"},
      {"HOROVOD_INTERFACES", "eth0,ib0",
       "HOROVOD_INTERFACES is \"eth0,ib0\", not a list; separate names with colons, as in "
       "eth0:ib0"},
      {"HOROVOD_TIMELINE", "/tmp/a,b",
       "HOROVOD_TIMELINE is \"/tmp/a,b\", with a comma or a line break, which no value can have"},
      {"HOROVOD_INTERFACES", "eth0:",
       "HOROVOD_INTERFACES is \"eth0:\", not a list; separate names with colons, as in eth0:ib0"},
  };
  for (const auto& c : cases) {
    INFO(c.variable << "=" << c.value);
    const auto settings = from({{c.variable, c.value}});
    REQUIRE_FALSE(settings.ok());
    CHECK(settings.status().code() == hvd::Code::kInvalid);
    CHECK(settings.status().text() == c.text);
  }
}

TEST_CASE("a bad value from an option names the key and leaves the setting alone", "[base]") {
  Settings settings;
  REQUIRE(settings.set(Setting::kSlots, "8", Origin::kSite).ok());
  const auto status = settings.set(Setting::kSlots, "many", Origin::kOption);
  CHECK(status.text() == "slots is \"many\", not a number");
  CHECK(settings.number(Setting::kSlots) == 8);
  CHECK(settings.origin(Setting::kSlots) == Origin::kSite);
}

TEST_CASE("what is exported to a task is read back as the same value", "[base]") {
  Settings settings;
  const std::map<std::string, std::string> given = {
      {"fusion-threshold", "64M"},
      {"cycle-time", "100us"},
      {"start-timeout", "1.5m"},
      {"peer-timeout", "1500ms"},
      {"interfaces", "ib0"},
      {"mpi", "eager"},
      {"log-hide-time", "yes"},
      {"slots", "16"},
      {"timeline", "/tmp/My trace:%j.%r.json"},
  };
  std::map<std::string, std::string> exported;
  for (const auto& [key, value] : given) {
    const Setting setting = *hvd::setting_by_key(key);
    REQUIRE(settings.set(setting, value, Origin::kOption).ok());
    exported[hvd::setting_row(setting).variable] = settings.exported(setting);
  }
  CHECK(exported["HOROVOD_FUSION_THRESHOLD"] == "67108864");
  CHECK(exported["HOROVOD_CYCLE_TIME"] == "0.1");
  CHECK(exported["HOROVOD_START_TIMEOUT"] == "90");
  CHECK(exported["HOROVOD_PEER_TIMEOUT"] == "1.5");
  CHECK(exported["HOROVOD_LOG_HIDE_TIME"] == "1");
  const auto again = from(exported);
  REQUIRE(again.ok());
  for (const SettingRow& row : hvd::setting_rows()) {
    INFO(row.key);
    CHECK(again->shown(row.setting) == settings.shown(row.setting));
  }
  CHECK(settings.shown(Setting::kFusionThreshold) == "64M");
  CHECK(settings.shown(Setting::kStartTimeout) == "90s");
  CHECK(settings.shown(Setting::kLogHideTime) == "on");
}

TEST_CASE("only variables that nobody knows are worth a warning", "[base]") {
  const char* environment[] = {
      "PATH=/bin",
      "HOROVOD_FUSION_THRESHOLD=1",
      "HOROVOD_RANK=0",
      "HOROVOD_HOSTNAME=node0",
      "HOROVOD_INTERNAL_ANYTHING=1",
      "HOROVOD_GLOO_TIMEOUT_SECONDS=30",
      "HOROVOD_AUTOTUNE=1",
      "HOROVOD_WITHOUT_MXNET=1",
      "HOROVOD_CONTROLLER=gloo",
      "HOROVOD_FUSION_TRESHOLD=64M",
      "HOROVOD_BANANA=yellow",
      nullptr,
  };
  const auto remarks = hvd::check_variables(environment);
  CHECK(remarks.unknown ==
        std::vector<std::string>{
            "HOROVOD_FUSION_TRESHOLD is not a variable of horovod and has no effect; did you mean "
            "HOROVOD_FUSION_THRESHOLD?",
            "HOROVOD_BANANA is not a variable of horovod and has no effect"});
  CHECK(remarks.no_effect ==
        std::vector<std::string>{"HOROVOD_GLOO_TIMEOUT_SECONDS has no effect in this release",
                                 "HOROVOD_AUTOTUNE has no effect in this release",
                                 "HOROVOD_WITHOUT_MXNET has no effect in this release",
                                 "HOROVOD_CONTROLLER has no effect in this release"});
  CHECK(hvd::check_variables(nullptr).unknown.empty());
}
