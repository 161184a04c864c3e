// SPDX-License-Identifier: Apache-2.0
//
// What a program that was started in this place, with this environment, would find out in hvd_init
// before it joins its job: its place, its settings, what is wrong with them. Pure.
#pragma once

#include <string>

#include "libhvd/base/json.h"
#include "libhvd/base/settings.h"

namespace hvd::info {

struct Surroundings {
  // Among processes that were started together, and of which one shall speak.
  int task = 0;
  std::string nccl_lib;  // the setting
  Json facts;            // "layout", "settings", "remarks", "errors"
};

// `host` is the system's name for this machine, `environment` what `get` reads.
Surroundings look_around(const Getenv& get, const char* const* environment,
                         const std::string& host);

}  // namespace hvd::info
