// SPDX-License-Identifier: Apache-2.0
//
// The words after --horovod= and on the plugstack.conf line: what they mean, and the sentences
// about what they cannot mean.
#include "libhvd/base/parse.h"
#include "spank/options.h"
#include "tests/unit/catch.h"

using hvd::Origin;
using hvd::Setting;

TEST_CASE("nothing, however Slurm spells it, is a request without settings", "[spank]") {
  for (const char* nothing : {static_cast<const char*>(nullptr), "", "(null)", ",", " "}) {
    const auto request = hvd::parse_request(nothing);
    REQUIRE(request.ok());
    CHECK_FALSE(request->help);
    CHECK_FALSE(request->off);
    CHECK_FALSE(request->inherited);
    for (const auto& row : hvd::setting_rows()) {
      CHECK(request->settings.origin(row.setting) == Origin::kDefault);
    }
  }
}

TEST_CASE("keys set settings, the last one wins, a flag needs no value", "[spank]") {
  const auto request =
      hvd::parse_request("fusion-threshold=1M,cycle-time=2ms,,log-hide-time,fusion-threshold=64M,");
  REQUIRE(request.ok());
  CHECK(request->settings.number(Setting::kFusionThreshold) == 64 << 20);
  CHECK(request->settings.ns(Setting::kCycleTime) == 2 * hvd::kNsPerMs);
  CHECK(request->settings.flag(Setting::kLogHideTime));
  CHECK(request->settings.origin(Setting::kCycleTime) == Origin::kOption);
  CHECK(request->settings.origin(Setting::kSlots) == Origin::kDefault);
}

TEST_CASE("help, off and the mark of an inherited option", "[spank]") {
  CHECK(hvd::parse_request("help")->help);
  CHECK(hvd::parse_request("slots=8,help")->help);
  CHECK(hvd::parse_request("off")->off);
  CHECK(hvd::parse_request("slots=8,off")->off);

  for (const char* value : {static_cast<const char*>(nullptr), "", "(null)"}) {
    CHECK(hvd::mark_inherited(value) == "inherited");
  }
  const std::string marked = hvd::mark_inherited("slots=8");
  CHECK(marked == "inherited,slots=8");
  CHECK(hvd::mark_inherited(marked.c_str()) == marked);
  const auto request = hvd::parse_request(marked.c_str());
  CHECK(request->inherited);
  CHECK(request->settings.number(Setting::kSlots) == 8);
}

TEST_CASE("what is wrong is said with the nearest key", "[spank]") {
  const struct {
    const char* value;
    const char* text;
  } cases[] = {
      {"fusion-treshold=1M", "unknown key \"fusion-treshold\"; did you mean \"fusion-threshold\"?"},
      {"slots=8,cylce-time=1", "unknown key \"cylce-time\"; did you mean \"cycle-time\"?"},
      {"hepl", "unknown key \"hepl\"; did you mean \"help\"?"},
      {"banana=yellow", "unknown key \"banana\"; --horovod=help lists the keys"},
      {"=1", "unknown key \"\"; --horovod=help lists the keys"},
      {"cli-filter", "unknown key \"cli-filter\"; --horovod=help lists the keys"},
      {"python-dir=/opt", "unknown key \"python-dir\"; --horovod=help lists the keys"},
      {"fusion-threshold", "key \"fusion-threshold\" needs a value, as in fusion-threshold=128M"},
      {"interfaces", "key \"interfaces\" needs a value, as in interfaces=VALUE"},
      {"off=1", "key \"off\" takes no value"},
      {"help=", "key \"help\" takes no value"},
      {"slots=many", "slots is \"many\", not a number"},
      {"fusion-threshold=",
       "fusion-threshold is \"\", not a size; write a number of bytes, or 64M"},
  };
  for (const auto& c : cases) {
    INFO(c.value);
    const auto request = hvd::parse_request(c.value);
    REQUIRE_FALSE(request.ok());
    CHECK(request.status().text() == c.text);
  }
}

constexpr const char* kPythonDirText =
    "plugstack.conf: key \"python-dir\" needs an absolute path without colons, as in "
    "python-dir=/opt/horovod/lib/horovod/python";

TEST_CASE("the site's line sets defaults and is read strictly", "[spank]") {
  const char* good[] = {"peer-timeout=30s",      "log-hide-time", "cli-filter",
                        "python-dir=/opt/hvd",   "enabled=auto",  "lock=slots:wire",
                        "topology=/etc/node.xml"};
  const auto site = hvd::parse_site(7, good);
  REQUIRE(site.ok());
  CHECK(site->cli_filter);
  CHECK(site->python_dir == "/opt/hvd");
  CHECK(site->enabled);
  CHECK(site->locked == std::vector<Setting>{Setting::kSlots, Setting::kWire});
  CHECK(site->topology == "/etc/node.xml");
  CHECK(site->settings.ns(Setting::kPeerTimeout) == 30 * hvd::kNsPerSecond);
  CHECK(site->settings.origin(Setting::kPeerTimeout) == Origin::kSite);
  CHECK(site->settings.origin(Setting::kSlots) == Origin::kDefault);
  CHECK_FALSE(hvd::parse_site(0, nullptr)->cli_filter);

  const struct {
    const char* argument;
    const char* text;
  } bad[] = {
      {"peer-timeuot=30s",
       "plugstack.conf: unknown key \"peer-timeuot\"; did you mean \"peer-timeout\"?"},
      {"slots=99", "plugstack.conf: slots is \"99\", more than 16, the most"},
      {"off", "plugstack.conf: unknown key \"off\"; --horovod=help lists the keys"},
      {"cli-filter=1", "plugstack.conf: key \"cli-filter\" takes no value"},
      {"python-dir", kPythonDirText},
      {"python-dir=lib/python", kPythonDirText},
      {"python-dir=/opt/a:/opt/b", kPythonDirText},
      {"topology=node.xml",
       "plugstack.conf: key \"topology\" needs an absolute path without colons, as in "
       "topology=/etc/slurm/node.xml"},
      {"enabled=on", "plugstack.conf: enabled is \"on\", not one of auto, off"},
      {"lock", "plugstack.conf: key \"lock\" needs keys, as in lock=gpu-bind:cpu-bind"},
      {"lock=gpu-bnid",
       "plugstack.conf: lock: unknown key \"gpu-bnid\"; did you mean \"gpu-bind\"?"},
  };
  for (const auto& c : bad) {
    INFO(c.argument);
    CHECK(hvd::parse_site(1, &c.argument).status().text() == c.text);
  }
}

TEST_CASE("users cannot set what the site has locked, nor anything where it has switched it off",
          "[spank]") {
  const char* line[] = {"lock=slots", "slots=8"};
  const auto locked = hvd::parse_site(2, line);
  REQUIRE(locked.ok());
  const char* off_line = "enabled=off";
  const auto off = hvd::parse_site(1, &off_line);
  REQUIRE(off.ok());
  const struct {
    const char* option;
    const hvd::Site& site;
    const char* text;
  } cases[] = {
      {"", *locked, ""},
      {"wire=bf16", *locked, ""},
      {"slots=8", *locked, "this site does not let users set \"slots\"; it is 8 here"},
      {"", *off, "this site has switched --horovod off (enabled=off in plugstack.conf)"},
      {"off", *off, ""},
  };
  for (const auto& c : cases) {
    CAPTURE(c.option);
    const auto request = hvd::parse_request(c.option);
    REQUIRE(request.ok());
    CHECK(hvd::allowed_by_site(*request, c.site).text() == c.text);
  }
}

TEST_CASE("a key whose value may be on stands alone, and GPUs are mapped by numbers", "[spank]") {
  const struct {
    const char* option;
    const char* text;  // of the error
  } cases[] = {
      {"report", ""},
      {"report=json,gpu-bind=map:3:2:1:0", ""},
      {"gpu-bind=map:0", ""},
      {"gpu-bind", "key \"gpu-bind\" needs a value, as in gpu-bind=auto"},
      {"gpu-bind=map:",
       "gpu-bind is \"map:\", not one of auto, closest, rank, all, none, map:A:B:..."},
      {"gpu-bind=closet",
       "gpu-bind is \"closet\", not one of auto, closest, rank, all, none, map:A:B:...; did you "
       "mean "
       "closest?"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.option);
    CHECK(hvd::parse_request(c.option).status().text() == c.text);
  }
}

TEST_CASE("help names every key with its default, within 80 columns", "[spank]") {
  hvd::Settings site;
  const std::string plain = hvd::help_text(site);
  CHECK(plain.find("set by this site") == std::string::npos);
  REQUIRE(site.set(Setting::kSlots, "8", Origin::kSite).ok());
  const std::string text = hvd::help_text(site);
  CHECK(text.find("  slots                 8*        ") != std::string::npos);
  CHECK(text.find("* set by this site (plugstack.conf)") != std::string::npos);
  CHECK(text.find("auto|eager|off") != std::string::npos);
  for (const auto& row : hvd::setting_rows()) {
    INFO(row.key);
    const size_t at = text.find("\n  " + std::string(row.key) + " ");
    REQUIRE(at != std::string::npos);
    CHECK(text.compare(at + 25, site.shown(row.setting).size(), site.shown(row.setting)) == 0);
  }
  for (std::string_view line : hvd::split(text, '\n')) {
    INFO(line);
    CHECK(line.size() <= 80);
    CHECK((line.empty() || line.back() != ' '));
  }
}
