// SPDX-License-Identifier: Apache-2.0
//
// The launcher as libhvd sees it: PMIx where the process was started by one, else a job of one
// rank. The only door of this room; runtime.cc alone comes through it.
#pragma once

#include <memory>
#include <string>

#include "libhvd/base/bootstrap.h"
#include "libhvd/base/settings.h"
#include "libhvd/base/status.h"

namespace hvd {

// Connects this process to its launcher; `get` reads its environment. job() is "solo" for a job of
// one rank without a launcher.
//
// Once per process: what is learnt is kept, and a second client of the same rank hangs. Sets
// environment variables (see pmix_client.cc): call it before other threads read them, or hold what
// guards them.
Expected<std::unique_ptr<Bootstrap>> make_bootstrap(const Getenv& get);

// As the PMIx library that is loaded says it; empty in a build without PMIx.
std::string pmix_library_version();

}  // namespace hvd
