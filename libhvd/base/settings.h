// SPDX-License-Identifier: Apache-2.0
//
// What users and sites can choose, read from one table (settings.def). A Settings object always
// holds a valid value for every setting, and knows where each came from. It reads no file and no
// environment of its own: the runtime reads it from the process's environment at hvd_init, the
// plugin from the option and from plugstack.conf. No thread rule: it is a value.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libhvd/base/json.h"
#include "libhvd/base/status.h"

namespace hvd {

enum class Setting : int {
#define HVD_SETTING(name, ...) k##name,
#define HVD_PLACEMENT(variable)
#define HVD_NO_EFFECT(variable)
#include "libhvd/base/settings.def"
#undef HVD_SETTING
#undef HVD_PLACEMENT
#undef HVD_NO_EFFECT
  kCount
};

constexpr int kSettingCount = static_cast<int>(Setting::kCount);

// Later ones win over earlier ones where the plugin merges them.
enum class Origin { kDefault, kSite, kEnvironment, kOption };

const char* origin_text(Origin origin);  // "built-in", "site", "environment", "--horovod"

enum class Kind { kSize, kCount, kDuration, kFlag, kChoice, kList, kText };

// A row of the table. All texts are literals.
struct SettingRow {
  Setting setting;
  const char* key;       // "fusion-threshold"
  const char* variable;  // "HOROVOD_FUSION_THRESHOLD"
  Kind kind;
  int64_t bare_unit_ns;  // kDuration: what a number without a unit counts
  const char* default_text;
  const char* least;    // "" is none
  const char* most;     // "" is none
  const char* choices;  // kChoice: separated by blanks
  const char* meaning;

  // A key alone means on.
  bool may_stand_alone() const;
};

const SettingRow& setting_row(Setting setting);
const std::array<SettingRow, kSettingCount>& setting_rows();
std::optional<Setting> setting_by_key(std::string_view key);

// The environment: a variable's value or nullptr.
using Getenv = std::function<const char*(const char* variable)>;

class Settings {
 public:
  Settings();  // the built-in defaults

  // A bad value leaves the setting as it was. The text names the setting as the origin does:
  // by its variable (environment) or its key.
  Status set(Setting setting, std::string_view text, Origin origin);

  // Value and origin as `from` has them.
  void copy(Setting setting, const Settings& from) { at(setting) = from.at(setting); }

  // Where a value came from, when that is known only later (hand-off from the plugin).
  void set_origin(Setting setting, Origin origin) { at(setting).origin = origin; }

  int64_t number(Setting setting) const { return at(setting).number; }         // kSize, kCount
  int64_t ns(Setting setting) const { return at(setting).number; }             // kDuration
  bool flag(Setting setting) const { return at(setting).number != 0; }         // kFlag
  const std::string& text(Setting setting) const { return at(setting).text; }  // the others
  Origin origin(Setting setting) const { return at(setting).origin; }

  // For people: "64M", "10s", "on", "auto".
  std::string shown(Setting setting) const;
  // For the environment, as Horovod's own scripts read it: a number in Horovod's unit, 1 or 0.
  std::string exported(Setting setting) const;

  // Defaults overridden by what the environment has; an empty value counts as none. The first bad
  // value is the error.
  static Expected<Settings> from_environment(const Getenv& get);
  // The same, but goes on after a bad value (that setting keeps its default); `bad` gets the
  // errors.
  static Settings from_environment(const Getenv& get, std::vector<Status>* bad);

 private:
  struct Value {
    int64_t number = 0;
    std::string text;
    Origin origin = Origin::kDefault;
  };

  const Value& at(Setting setting) const { return values_[static_cast<size_t>(setting)]; }
  Value& at(Setting setting) { return values_[static_cast<size_t>(setting)]; }

  std::array<Value, kSettingCount> values_;
};

// For hvd-info: [{"key", "variable", "value", "origin"}], all of them, in the table's order.
Json settings_json(const Settings& settings);

// The elements of a kList: "eth0:ib0".
std::vector<std::string> list_elements(const std::string& list);

// What is to be said about HOROVOD_* variables that are not settings, one line each.
struct VariableRemarks {
  std::vector<std::string> unknown;    // at level warning, with the nearest known name
  std::vector<std::string> no_effect;  // at level info: Horovod has it, this release does not
};
VariableRemarks check_variables(const char* const* environment);

}  // namespace hvd
