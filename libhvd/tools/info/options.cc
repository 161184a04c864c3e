// SPDX-License-Identifier: Apache-2.0
#include "libhvd/tools/info/options.h"

#include <climits>

#include "libhvd/base/nearest.h"
#include "libhvd/base/parse.h"

namespace hvd::info {
namespace {

const std::vector<std::string_view>& known_options() {
  static const std::vector<std::string_view> all = {"--pid", "--json", "--all-ranks", "--version",
                                                    "--help"};
  return all;
}

Status unknown(std::string_view argument) {
  const std::string_view near = nearest(argument, known_options());
  return error(Code::kInvalid, "unknown argument \"%.*s\"; %s", static_cast<int>(argument.size()),
               argument.data(),
               near.empty() ? "\"hvd-info --help\" lists all"
                            : ("did you mean \"" + std::string(near) + "\"?").c_str());
}

Status take_pid(std::string_view value, Options* options) {
  const auto number = parse_count(value);
  if (!number || *number < 1 || *number > INT_MAX) {
    return error(Code::kInvalid,
                 "--pid is \"%.*s\", not the number of a process; write it as in --pid 4711",
                 static_cast<int>(value.size()), value.data());
  }
  options->pid = static_cast<int>(*number);
  return ok_status();
}

}  // namespace

Expected<Options> parse_options(const std::vector<std::string_view>& arguments) {
  constexpr std::string_view kPidEquals = "--pid=";
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    Status status;
    if (argument == "--json") {
      options.json = true;
    } else if (argument == "--all-ranks") {
      options.all_ranks = true;
    } else if (argument == "--version") {
      options.action = Options::Action::kVersion;
    } else if (argument == "--help" || argument == "-h") {
      options.action = Options::Action::kHelp;
    } else if (argument == "--pid") {
      status = ++i < arguments.size()
                   ? take_pid(arguments[i], &options)
                   : error(Code::kInvalid, "--pid lacks its value; write it as in --pid 4711");
    } else if (argument.substr(0, kPidEquals.size()) == kPidEquals) {
      status = take_pid(argument.substr(kPidEquals.size()), &options);
    } else {
      status = unknown(argument);
    }
    if (!status.ok()) return status;
  }
  if (options.pid && options.all_ranks) {
    return error(Code::kInvalid, "--pid asks one rank; leave out --all-ranks");
  }
  return options;
}

std::string usage() {
  return "usage: hvd-info [--json] [--all-ranks]\n"
         "       hvd-info --pid N [--json]\n"
         "       hvd-info bind [--topology FILE.xml] [--tasks N] ...\n"
         "\n"
         "Without --pid: what was built, what is loaded, and every setting as a program\n"
         "started in the same place would have it, with where it came from. Joins no job.\n"
         "With --pid: what the rank that is process N of this node does.\n"
         "bind: which GPU, cores and NIC the tasks of a job would get (bind --help).\n"
         "\n"
         "  --pid N       asks a rank that is running\n"
         "  --json        one JSON object on one line\n"
         "  --all-ranks   every rank of a job prints, and not rank 0 alone\n"
         "  --version     the version of libhvd\n"
         "  --help        this\n";
}

}  // namespace hvd::info
