// SPDX-License-Identifier: Apache-2.0
//
// Where a timeline goes.
#include <cstring>
#include <string>

#include "libhvd/trace/timeline_path.h"
#include "tests/unit/catch.h"

TEST_CASE("file names have the rank, job, step and host", "[trace]") {
  const hvd::TimelineNames names = {3, "77", "1", "node1"};
  const struct {
    const char* pattern;
    std::string path;
    std::string of_rank_3;
  } cases[] = {
      {"/tmp/t.json", "/tmp/t.json", ""},
      {"t.%r.json", "t.3.json", "t.3.json"},
      {"/x/%j.%s/%h-%r", "/x/77.1/node1-3", "/x/77.1/node1-3"},
      {"%h.json", "node1.json", ""},
      {"100%%.%r", "100%.3", "100%.3"},
      {"100%%r", "100%r", ""},
      {"", "", ""},
      {"DYNAMIC", "DYNAMIC", ""},
  };
  for (const auto& c : cases) {
    INFO(c.pattern);
    const hvd::Expected<std::string> path = hvd::expand_timeline_path(c.pattern, names);
    REQUIRE(path.ok());
    CHECK(*path == c.path);
    CHECK(*hvd::timeline_path_of_rank(c.pattern, names) == c.of_rank_3);
  }
  CHECK(*hvd::timeline_path_of_rank("t.json", {0, "77", "1", "node1"}) == "t.json");
  CHECK(*hvd::timeline_path_of_rank("DYNAMIC", {0, "77", "1", "node1"}) == "");
  CHECK(*hvd::expand_timeline_path("%j", {0, "prterun/x@1", "", ""}) == "prterun_x@1");
}

TEST_CASE("an unknown letter in a file name is an error that says which there are", "[trace]") {
  for (const char* pattern : {"t.%x.json", "t.%", "%R"}) {
    const std::string letter =
        std::string(pattern) == "t.%" ? "%" : std::string("%") + strchr(pattern, '%')[1];
    const std::string text = std::string("the timeline's file name is \"") + pattern + "\", and " +
                             letter +
                             " stands for nothing; there are %r (rank), %j (job), %s (step), %h "
                             "(host) and %%";
    CHECK(hvd::expand_timeline_path(pattern, {}).status().text() == text);
    CHECK(hvd::timeline_path_of_rank(pattern, {}).status().text() == text);
  }
}
