// SPDX-License-Identifier: Apache-2.0
//
// Which file a rank writes its timeline to: the setting `timeline`, and the argument of
// hvd_start_timeline. Pure.
#pragma once

#include <string>
#include <string_view>

#include "libhvd/base/status.h"

namespace hvd {

struct TimelineNames {
  int rank = 0;
  std::string job;   // "1234"
  std::string step;  // "0"
  std::string host;
};

// %r is the rank, %j the job, %s the step, %h the host, %% a percent sign. A slash in what they
// stand for becomes an underscore. Another letter behind a % is an error that says which there are.
Expected<std::string> expand_timeline_path(std::string_view pattern, const TimelineNames& names);

// The file that this rank writes; empty if it writes none. As in Horovod rank 0 writes; with %r in
// the pattern every rank does. "" and "DYNAMIC" (hvd_start_timeline will say) are no file.
Expected<std::string> timeline_path_of_rank(std::string_view pattern, const TimelineNames& names);

}  // namespace hvd
