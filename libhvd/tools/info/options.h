// SPDX-License-Identifier: Apache-2.0
//
// hvd-info's command line. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libhvd/base/status.h"

namespace hvd::info {

struct Options {
  enum class Action { kShow, kHelp, kVersion };

  Action action = Action::kShow;
  bool json = false;
  bool all_ranks = false;
  std::optional<int> pid;  // of the rank that is asked; none: this process
};

// [arguments]: without the program's name. An error is a sentence with the way out.
Expected<Options> parse_options(const std::vector<std::string_view>& arguments);

std::string usage();

}  // namespace hvd::info
