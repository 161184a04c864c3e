// SPDX-License-Identifier: Apache-2.0
//
// The table of settings.def as data, and the sentences about values that it does not allow.
#include "libhvd/base/settings.h"

#include <cstring>

#include "libhvd/base/nearest.h"
#include "libhvd/base/parse.h"

namespace hvd {
namespace {

constexpr std::array<SettingRow, kSettingCount> kRows = {{
#define HVD_SETTING(name, key, variable, kind, bare_unit, fallback, least, most, choices, meaning) \
  {Setting::k##name, key, variable, Kind::kind, bare_unit, fallback, least, most, choices, meaning},
#define HVD_PLACEMENT(variable)
#define HVD_NO_EFFECT(variable)
#include "libhvd/base/settings.def"
#undef HVD_SETTING
#undef HVD_PLACEMENT
#undef HVD_NO_EFFECT
}};

constexpr std::string_view kPlacement[] = {
#define HVD_SETTING(name, ...)
#define HVD_PLACEMENT(variable) variable,
#define HVD_NO_EFFECT(variable)
#include "libhvd/base/settings.def"
#undef HVD_SETTING
#undef HVD_PLACEMENT
#undef HVD_NO_EFFECT
};

constexpr std::string_view kNoEffect[] = {
#define HVD_SETTING(name, ...)
#define HVD_PLACEMENT(variable)
#define HVD_NO_EFFECT(variable) variable,
#include "libhvd/base/settings.def"
#undef HVD_SETTING
#undef HVD_PLACEMENT
#undef HVD_NO_EFFECT
};

constexpr std::string_view kPrefix = "HOROVOD_";
constexpr std::string_view kInternalPrefix = "HOROVOD_INTERNAL_";

std::optional<int64_t> parse_number(const SettingRow& row, std::string_view text) {
  switch (row.kind) {
    case Kind::kSize:
      return parse_size(text);
    case Kind::kCount:
      return parse_count(text);
    case Kind::kDuration:
      return parse_duration(text, row.bare_unit_ns);
    case Kind::kFlag:
      return parse_flag(text);
    case Kind::kChoice:
    case Kind::kList:
    case Kind::kText:
      break;
  }
  return std::nullopt;
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

// "auto, eager, off"
std::string joined(const std::vector<std::string_view>& words) {
  std::string text;
  for (std::string_view word : words) {
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

// The end of the sentence `NAME is "VALUE", ...` for a value that does not parse.
std::string what_it_should_be(const SettingRow& row) {
  switch (row.kind) {
    case Kind::kSize:
      return "not a size; write a number of bytes, or 64M";
    case Kind::kCount:
      return "not a number";
    case Kind::kDuration:
      return row.bare_unit_ns == kNsPerMs
                 ? "not a duration; write a number of milliseconds, or 2ms"
                 : "not a duration; write a number of seconds, or 30s, 500ms, 2m";
    case Kind::kFlag:
      return "not a yes or no; write on or off";
    case Kind::kChoice:
      return "not one of " + joined(split(row.choices, ' '));
    case Kind::kList:
      return "not a list; separate names with colons, as in eth0:ib0";
    case Kind::kText:
      return "with a comma or a line break, which no value can have";
  }
  return "not a value";
}

// "map:0:1" is an instance of "map:A:B:...".
bool is_numbered(std::string_view text, std::string_view choice) {
  const size_t colon = choice.find(':');
  if (colon == std::string_view::npos || text.substr(0, colon + 1) != choice.substr(0, colon + 1)) {
    return false;
  }
  for (std::string_view number : split(text.substr(colon + 1), ':')) {
    if (!parse_count(number)) return false;
  }
  return true;
}

bool is_list(std::string_view text) {
  if (text.empty()) return true;
  for (std::string_view element : split(text, ':')) {
    if (element.empty() || element.find_first_of(" \t\r\n,;") != std::string_view::npos)
      return false;
  }
  return true;
}

bool matches(std::string_view name, std::string_view pattern) {
  if (pattern.back() != '*') return name == pattern;
  pattern.remove_suffix(1);
  return name.substr(0, pattern.size()) == pattern;
}

bool is_known(std::string_view name) {
  for (const SettingRow& row : kRows) {
    if (name == row.variable) return true;
  }
  for (std::string_view placement : kPlacement) {
    if (name == placement) return true;
  }
  return name.substr(0, kInternalPrefix.size()) == kInternalPrefix;
}

bool is_without_effect(std::string_view name) {
  for (std::string_view pattern : kNoEffect) {
    if (matches(name, pattern)) return true;
  }
  return false;
}

// All names start alike, so that only the rest is compared; else any two would be near.
std::string_view nearest_variable(std::string_view name) {
  std::vector<std::string_view> endings;
  for (const SettingRow& row : kRows) {
    endings.push_back(std::string_view(row.variable).substr(kPrefix.size()));
  }
  for (std::string_view pattern : kNoEffect) {
    if (pattern.back() != '*') endings.push_back(pattern.substr(kPrefix.size()));
  }
  return nearest(name.substr(kPrefix.size()), endings);
}

}  // namespace

const char* origin_text(Origin origin) {
  switch (origin) {
    case Origin::kDefault:
      return "built-in";
    case Origin::kSite:
      return "site";
    case Origin::kEnvironment:
      return "environment";
    case Origin::kOption:
      return "--horovod";
  }
  return "?";
}

bool SettingRow::may_stand_alone() const {
  if (kind == Kind::kFlag) return true;
  for (std::string_view choice : split(choices, ' ')) {
    if (choice == "on") return true;
  }
  return false;
}

const std::array<SettingRow, kSettingCount>& setting_rows() { return kRows; }

const SettingRow& setting_row(Setting setting) { return kRows[static_cast<size_t>(setting)]; }

std::optional<Setting> setting_by_key(std::string_view key) {
  for (const SettingRow& row : kRows) {
    if (key == row.key) return row.setting;
  }
  return std::nullopt;
}

Settings::Settings() {
  for (const SettingRow& row : kRows) {
    // A default that the row does not allow cannot leave the building: a test sets every one.
    (void)set(row.setting, row.default_text, Origin::kDefault).ok();
  }
}

Status Settings::set(Setting setting, std::string_view given, Origin origin) {
  const SettingRow& row = setting_row(setting);
  const std::string_view text = trim(given);
  const auto refuse = [&](const std::string& why) {
    return error(Code::kInvalid, "%s is \"%.*s\", %s",
                 origin == Origin::kEnvironment ? row.variable : row.key,
                 static_cast<int>(given.size()), given.data(), why.c_str());
  };
  Value value;
  value.origin = origin;
  if (row.kind == Kind::kText) {
    if (text.find_first_of(",\r\n") != std::string_view::npos)
      return refuse(what_it_should_be(row));
    value.text = text;
  } else if (row.kind == Kind::kList) {
    if (!is_list(text)) return refuse(what_it_should_be(row));
    value.text = text;
  } else if (row.kind == Kind::kChoice) {
    value.text = lower_case(text);
    const auto choices = split(row.choices, ' ');
    bool found = false;
    for (std::string_view choice : choices) {
      found = found || (choice == value.text && choice.find(':') == std::string_view::npos) ||
              is_numbered(value.text, choice);
    }
    if (!found) {
      const std::string_view near = nearest(value.text, choices);
      return refuse(what_it_should_be(row) +
                    (near.empty() ? "" : "; did you mean " + std::string(near) + "?"));
    }
  } else {
    const auto number = parse_number(row, text);
    if (!number) return refuse(what_it_should_be(row));
    if (row.least[0] != '\0' && *number < parse_number(row, row.least)) {
      return refuse(format("less than %s, the least", row.least));
    }
    if (row.most[0] != '\0' && *number > parse_number(row, row.most)) {
      return refuse(format("more than %s, the most", row.most));
    }
    value.number = *number;
  }
  at(setting) = std::move(value);
  return ok_status();
}

std::string Settings::shown(Setting setting) const {
  switch (setting_row(setting).kind) {
    case Kind::kSize:
      return size_text(number(setting));
    case Kind::kCount:
      return std::to_string(number(setting));
    case Kind::kDuration:
      return duration_text(ns(setting));
    case Kind::kFlag:
      return flag(setting) ? "on" : "off";
    case Kind::kChoice:
    case Kind::kList:
    case Kind::kText:
      break;
  }
  return text(setting);
}

std::string Settings::exported(Setting setting) const {
  const SettingRow& row = setting_row(setting);
  switch (row.kind) {
    case Kind::kSize:
    case Kind::kCount:
    case Kind::kFlag:
      return std::to_string(number(setting));
    case Kind::kDuration:
      return in_unit(ns(setting), row.bare_unit_ns);
    case Kind::kChoice:
    case Kind::kList:
    case Kind::kText:
      break;
  }
  return text(setting);
}

Expected<Settings> Settings::from_environment(const Getenv& get) {
  std::vector<Status> bad;
  Settings settings = from_environment(get, &bad);
  if (!bad.empty()) return bad[0];
  return settings;
}

Settings Settings::from_environment(const Getenv& get, std::vector<Status>* bad) {
  Settings settings;
  for (const SettingRow& row : kRows) {
    const char* value = get(row.variable);
    if (value == nullptr || value[0] == '\0') continue;
    Status status = settings.set(row.setting, value, Origin::kEnvironment);
    if (!status.ok()) bad->push_back(std::move(status));
  }
  return settings;
}

Json settings_json(const Settings& settings) {
  Json all = Json::array();
  for (const SettingRow& row : kRows) {
    all.add(Json::object()
                .set("key", row.key)
                .set("variable", row.variable)
                .set("value", settings.shown(row.setting))
                .set("origin", origin_text(settings.origin(row.setting))));
  }
  return all;
}

std::vector<std::string> list_elements(const std::string& list) {
  std::vector<std::string> elements;
  if (list.empty()) return elements;
  for (std::string_view element : split(list, ':')) elements.emplace_back(element);
  return elements;
}

VariableRemarks check_variables(const char* const* environment) {
  VariableRemarks remarks;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const char* equals = strchr(*environment, '=');
    if (equals == nullptr) continue;
    const std::string_view name(*environment, static_cast<size_t>(equals - *environment));
    if (name.substr(0, kPrefix.size()) != kPrefix || is_known(name)) continue;
    if (is_without_effect(name)) {
      remarks.no_effect.push_back(std::string(name) + " has no effect in this release");
      continue;
    }
    std::string remark = std::string(name) + " is not a variable of horovod and has no effect";
    const std::string_view near = nearest_variable(name);
    if (!near.empty()) {
      remark += "; did you mean " + std::string(kPrefix) + std::string(near) + "?";
    }
    remarks.unknown.push_back(std::move(remark));
  }
  return remarks;
}

}  // namespace hvd
