// SPDX-License-Identifier: Apache-2.0
//
// Which package `import horovod` is, for a program that is started here: PATH's python3 is asked.
#pragma once

#include "libhvd/base/clock.h"
#include "libhvd/base/json.h"

namespace hvd::info {

// {"interpreter", "package", "installed"}: the files, null if there is none, and the folder for the
// package of this release, beside the libhvd of `libraries` (libraries_here()). The interpreter has
// until the deadline to answer.
Json python_here(const Json& libraries, Deadline deadline);

}  // namespace hvd::info
