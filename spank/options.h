// SPDX-License-Identifier: Apache-2.0
//
// The words after --horovod= and on the plugstack.conf line. Pure: nothing here knows Slurm.
#pragma once

#include <string>
#include <vector>

#include "libhvd/base/settings.h"
#include "libhvd/base/status.h"

namespace hvd {

// Of what the plugin says in one go, in bytes: Slurm's own buffers for a line are not endless.
constexpr size_t kLongestLine = 2000;

// What a --horovod option asks for. Settings that it gave have Origin::kOption.
struct Request {
  bool help = false;
  bool off = false;
  bool inherited = false;  // not typed on this command line (mark_inherited)
  Settings settings;
};

// "KEY[=VALUE],..."; a key alone means on. nullptr, "" and "(null)" (what sbatch makes of nothing)
// are all a request without settings. kInvalid with the sentence for the user.
Expected<Request> parse_request(const char* value);

// What the plugstack.conf line says about this machine.
struct Site {
  // "cli-filter": Slurm's command-line filter selects PMIx, the plugin does not (cli_filter.lua).
  bool cli_filter = false;
  // "python-dir=DIR": where the package horovod is on the nodes; empty: where configure was told.
  std::string python_dir;
  // "enabled=off": nobody gets anything from the plugin here.
  bool enabled = true;
  // "lock=KEY:KEY": what users cannot change.
  std::vector<Setting> locked;
  // "topology=FILE": an XML file of hwloc's instead of what the node says of itself.
  std::string topology;
  Settings settings;  // defaults overridden by key=value arguments, as Origin::kSite
};

// kInvalid with the sentence for the administrator.
Expected<Site> parse_site(int argc, const char* const* arguments);

// kInvalid with the sentence for a user who sets what the site has locked, or asks for what it has
// switched off.
Status allowed_by_site(const Request& request, const Site& site);

// An inherited option's value, marked so that it can be told from a typed one. Idempotent.
std::string mark_inherited(const char* value);

// What --horovod=help prints: all keys with the values that count if nothing is said.
std::string help_text(const Settings& site);

}  // namespace hvd
