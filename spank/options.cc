// SPDX-License-Identifier: Apache-2.0
//
// Made from the table of settings: no key is named here but those that are not settings.
#include "spank/options.h"

#include <cstring>
#include <string_view>
#include <vector>

#include "libhvd/base/nearest.h"
#include "libhvd/base/parse.h"

namespace hvd {
namespace {

constexpr std::string_view kHelp = "help";
constexpr std::string_view kOff = "off";
constexpr std::string_view kInherited = "inherited";
constexpr std::string_view kCliFilter = "cli-filter";
constexpr std::string_view kPythonDir = "python-dir";
constexpr std::string_view kEnabled = "enabled";
constexpr std::string_view kLock = "lock";
constexpr std::string_view kTopology = "topology";

constexpr size_t kLineWidth = 80;
constexpr size_t kKeyWidth = 22;
constexpr size_t kDefaultWidth = 10;

struct Item {
  std::string_view key;
  std::string_view value;
  bool has_value;
};

Item split_item(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return {trim(text), {}, false};
  return {trim(text.substr(0, equals)), text.substr(equals + 1), true};
}

Status unknown_key(std::string_view key, Origin origin) {
  std::vector<std::string_view> keys;
  for (const SettingRow& row : setting_rows()) keys.emplace_back(row.key);
  if (origin == Origin::kOption) keys.insert(keys.end(), {kHelp, kOff});
  if (origin == Origin::kSite)
    keys.insert(keys.end(), {kCliFilter, kPythonDir, kEnabled, kLock, kTopology});
  std::string text = "unknown key \"" + std::string(key) + "\"";
  const std::string_view near = nearest(key, keys);
  text += near.empty() ? "; --horovod=help lists the keys"
                       : "; did you mean \"" + std::string(near) + "\"?";
  return Status(Code::kInvalid, std::move(text));
}

Status no_value(std::string_view key) {
  return error(Code::kInvalid, "key \"%.*s\" takes no value", static_cast<int>(key.size()),
               key.data());
}

Status set_item(const Item& item, Origin origin, Settings* settings) {
  const auto setting = setting_by_key(item.key);
  if (!setting) return unknown_key(item.key, origin);
  const SettingRow& row = setting_row(*setting);
  if (!item.has_value && !row.may_stand_alone()) {
    return error(Code::kInvalid, "key \"%s\" needs a value, as in %s=%s", row.key, row.key,
                 row.default_text[0] != '\0' ? row.default_text : "VALUE");
  }
  return settings->set(*setting, item.has_value ? item.value : "on", origin);
}

// A path on the nodes; the plugstack.conf line is read by whoever starts a job, too.
Status set_path(const Item& item, const char* example, std::string* path) {
  if (item.value.empty() || item.value[0] != '/' ||
      item.value.find(':') != std::string_view::npos) {
    return error(Code::kInvalid, "key \"%s\" needs an absolute path without colons, as in %s=%s",
                 std::string(item.key).c_str(), std::string(item.key).c_str(), example);
  }
  *path = item.value;
  return ok_status();
}

Status set_enabled(const Item& item, Site* site) {
  if (item.value != "auto" && item.value != "off") {
    return error(Code::kInvalid, "enabled is \"%s\", not one of auto, off",
                 std::string(item.value).c_str());
  }
  site->enabled = item.value == "auto";
  return ok_status();
}

Status set_lock(const Item& item, Site* site) {
  if (item.value.empty()) {
    return error(Code::kInvalid, "key \"lock\" needs keys, as in lock=gpu-bind:cpu-bind");
  }
  for (std::string_view key : split(item.value, ':')) {
    const auto setting = setting_by_key(key);
    if (!setting) return unknown_key(key, Origin::kDefault).annotate("lock");
    site->locked.push_back(*setting);
  }
  return ok_status();
}

Status set_site_item(const Item& item, Site* site) {
  if (item.key == kPythonDir) {
    return set_path(item, "/opt/horovod/lib/horovod/python", &site->python_dir);
  }
  if (item.key == kTopology) return set_path(item, "/etc/slurm/node.xml", &site->topology);
  if (item.key == kEnabled) return set_enabled(item, site);
  if (item.key == kLock) return set_lock(item, site);
  if (item.key != kCliFilter) return set_item(item, Origin::kSite, &site->settings);
  if (item.has_value) return no_value(item.key);
  site->cli_filter = true;
  return ok_status();
}

bool is_nothing(const char* value) {
  return value == nullptr || value[0] == '\0' || strcmp(value, "(null)") == 0;
}

std::string padded(std::string_view text, size_t width) {
  std::string result(text);
  // Two blanks at least, also behind a text that is too wide for its column.
  result.resize(std::max(width, text.size() + 2), ' ');
  return result;
}

// Appends `text` to a line that is at `column`, going on in lines that start there too.
void append_wrapped(std::string_view text, size_t column, std::string* out) {
  size_t at = column;
  for (std::string_view word : split(text, ' ')) {
    if (at != column && at + 1 + word.size() > kLineWidth) {
      *out += '\n' + std::string(column, ' ');
      at = column;
    } else if (at != column) {
      *out += ' ';
      ++at;
    }
    *out += word;
    at += word.size();
  }
  *out += '\n';
}

std::string meaning_of(const SettingRow& row) {
  std::string text = row.meaning;
  if (row.kind == Kind::kChoice) {
    text += ": ";
    for (const char* c = row.choices; *c != '\0'; ++c) text += *c == ' ' ? '|' : *c;
  }
  return text;
}

void append_row(std::string_view key, std::string_view value, std::string_view meaning,
                std::string* out) {
  const std::string start = "  " + padded(key, kKeyWidth) + padded(value, kDefaultWidth);
  *out += start;
  append_wrapped(meaning, start.size(), out);
}

}  // namespace

Expected<Request> parse_request(const char* value) {
  Request request;
  if (is_nothing(value)) return request;
  for (std::string_view text : split(value, ',')) {
    const Item item = split_item(text);
    if (item.key.empty() && !item.has_value) continue;
    const bool is_word = item.key == kHelp || item.key == kOff || item.key == kInherited;
    if (is_word && item.has_value) return no_value(item.key);
    if (item.key == kHelp) {
      request.help = true;
    } else if (item.key == kOff) {
      request.off = true;
    } else if (item.key == kInherited) {
      request.inherited = true;
    } else {
      const Status status = set_item(item, Origin::kOption, &request.settings);
      if (!status.ok()) return status;
    }
  }
  return request;
}

Expected<Site> parse_site(int argc, const char* const* arguments) {
  Site site;
  for (int i = 0; i < argc; ++i) {
    const Item item = split_item(arguments[i]);
    const Status status = set_site_item(item, &site);
    if (!status.ok()) return status.annotate("plugstack.conf");
  }
  return site;
}

Status allowed_by_site(const Request& request, const Site& site) {
  if (request.off) return ok_status();
  if (!site.enabled) {
    return error(Code::kInvalid,
                 "this site has switched --horovod off (enabled=off in plugstack.conf)");
  }
  for (Setting setting : site.locked) {
    if (request.settings.origin(setting) != Origin::kOption) continue;
    const char* key = setting_row(setting).key;
    return error(Code::kInvalid, "this site does not let users set \"%s\"; it is %s here", key,
                 site.settings.shown(setting).c_str());
  }
  return ok_status();
}

std::string mark_inherited(const char* value) {
  std::string marked(kInherited);
  if (is_nothing(value)) return marked;
  const std::string_view given = value;
  if (given.substr(0, kInherited.size()) == kInherited) return std::string(given);
  return marked + "," + std::string(given);
}

std::string help_text(const Settings& site) {
  std::string text =
      "Usage: srun|sbatch|salloc --horovod[=KEY[=VALUE][,KEY[=VALUE]]...] ...\n"
      "Runs the tasks of every step as the ranks of one Horovod job.\n\n";
  append_row("KEY", "DEFAULT", "MEANING", &text);
  bool any_from_site = false;
  for (const SettingRow& row : setting_rows()) {
    std::string value = site.shown(row.setting);
    if (site.origin(row.setting) == Origin::kSite) {
      value += '*';
      any_from_site = true;
    }
    append_row(row.key, value.empty() ? "-" : value, meaning_of(row), &text);
  }
  append_row(kHelp, "", "print this and do nothing else", &text);
  append_row(kOff, "", "be inactive, also if #SBATCH or the environment has --horovod", &text);
  if (any_from_site) text += "\n* set by this site (plugstack.conf)\n";
  text += '\n';
  append_wrapped(
      "A setting can also be given as an environment variable of the job: fusion-threshold is "
      "HOROVOD_FUSION_THRESHOLD, log is HOROVOD_LOG_LEVEL. --horovod wins over the environment, "
      "the environment over the site. Lists use colons: interfaces=eth0:ib0.",
      0, &text);
  return text;
}

}  // namespace hvd
