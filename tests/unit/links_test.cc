// SPDX-License-Identifier: Apache-2.0
//
// Groups of GPUs that are linked to each other, and the line of a drawing that has them.
#include "libhvd/topo/links.h"

#include "libhvd/base/parse.h"
#include "libhvd/base/status.h"
#include "libhvd/topo/places.h"
#include "tests/random.h"
#include "tests/unit/catch.h"

namespace hvd {
namespace {

using Matrix = std::vector<std::vector<bool>>;

std::vector<std::vector<int>> groups_of(const Matrix& linked) {
  return linked_groups(static_cast<int>(linked.size()), [&](int a, int b) {
    return linked[static_cast<size_t>(a)][static_cast<size_t>(b)];
  });
}

TEST_CASE("links: two are linked exactly if a group has both") {
  test::Random random(5);
  for (int round = 0; round < 300; ++round) {
    const size_t count = random.below(12);
    const size_t share = random.below(5);
    Matrix linked(count, std::vector<bool>(count, false));
    for (size_t a = 0; a < count; ++a) {
      for (size_t b = a + 1; b < count; ++b) linked[a][b] = random.below(4) < share;
    }
    Matrix told(count, std::vector<bool>(count, false));
    for (const auto& group : groups_of(linked)) {
      REQUIRE(group.size() > 1);
      for (size_t i = 0; i < group.size(); ++i) {
        for (size_t j = i + 1; j < group.size(); ++j) {
          REQUIRE(group[i] < group[j]);
          told[static_cast<size_t>(group[i])][static_cast<size_t>(group[j])] = true;
        }
      }
    }
    CAPTURE(round);
    REQUIRE(told == linked);
  }
}

TEST_CASE("links: islands are a group each") {
  Matrix linked(6, std::vector<bool>(6, false));
  for (const auto& [a, b] : {std::pair(0, 4), {0, 5}, {4, 5}, {1, 3}}) {
    linked[static_cast<size_t>(a)][static_cast<size_t>(b)] = true;
  }
  CHECK(groups_of(linked) == std::vector<std::vector<int>>{{0, 4, 5}, {1, 3}});
}

TEST_CASE("links: a group in few characters") {
  CHECK(group_text({}) == "");
  CHECK(group_text({7}) == "7");
  CHECK(group_text({0, 1}) == "0-1");
  CHECK(group_text({0, 1, 2, 3, 5, 8, 9}) == "0-3,5,8-9");
}

// A node of GPUs "0000:00:00.0", "0000:01:00.0" ... with these names ("": not of the job), and
// groups of such numbers.
std::string line_of(const std::string& tokens, const std::string& groups) {
  const auto address = [](std::string_view i) {
    return format("0000:%02d:00.0", static_cast<int>(parse_count(i).value_or(99)));
  };
  Json gpus = Json::array();
  size_t next = 0;
  for (const std::string_view token : split(tokens, ' ')) {
    Json gpu = Json::object().set("pci", address(std::to_string(next++))).set("model", "m");
    if (token != "-") gpu.set("token", token);
    gpus.add(std::move(gpu));
  }
  Json links = Json::array();
  if (groups == "?") {
    links = Json();
  } else if (!groups.empty()) {
    for (const std::string_view group : split(groups, ' ')) {
      Json its = Json::array();
      for (const std::string_view i : split(group, ',')) its.add(address(i));
      links.add(Json::object().set("gpus", std::move(its)));
    }
  }
  const Json node = Json::object()
                        .set("node", "n")
                        .set("elsewhere", Json::object().set("gpus", std::move(gpus)))
                        .set("links", std::move(links));
  const std::string drawing = report_drawing(node);
  const size_t at = drawing.find("linked:");
  return at == std::string::npos ? "" : drawing.substr(at);
}

TEST_CASE("links: a drawing ends with the job's GPUs that are linked") {
  const struct {
    const char* name;
    const char* tokens;
    const char* groups;
    const char* line;
  } cases[] = {
      {"unknown", "0 1", "?", ""},
      {"all", "0 1 2", "0,1,2", "linked: all\n"},
      {"none", "0 1 2", "", "linked: none\n"},
      {"islands", "0 1 2 3", "0,1 2,3", "linked: 0-1 2-3\n"},
      {"of two speeds", "0 1 2 3", "0,1 2,3 0,2 0,3 1,2 1,3", "linked: all\n"},
      {"numbers are the job's", "5 4 1 0", "0,3 1,2", "linked: 0,5 1,4\n"},
      {"only the job's", "0 - 1 2", "0,1 1,3 2,3", "linked: 1-2\n"},
      {"none of the job's", "0 - 1 -", "0,1 2,3", "linked: none\n"},
      {"one GPU", "0 -", "0,1", ""},
      {"of names the addresses", "GPU-aa GPU-bb GPU-cc", "0,2",
       "linked: 0000:00:00.0,0000:02:00.0\n"},
      {"instances of MIG have none", "MIG-a MIG-b", "0,1", ""},
      {"addresses that are not there", "0 1", "7,8", "linked: none\n"},
      {"80 columns", "GPU-a GPU-b GPU-c GPU-d GPU-e GPU-f GPU-g GPU-h", "0,1 2,3 4,5 6,7",
       "linked: 0000:00:00.0,0000:01:00.0 0000:02:00.0,0000:03:00.0\n"
       "        0000:04:00.0,0000:05:00.0 0000:06:00.0,0000:07:00.0\n"},
      {"80 columns for one group", "GPU-a GPU-b GPU-c GPU-d GPU-e GPU-f GPU-g GPU-h",
       "0,1,2,3,4,5,6",
       "linked: 0000:00:00.0,0000:01:00.0,0000:02:00.0,0000:03:00.0,0000:04:...\n"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.name);
    CHECK(line_of(c.tokens, c.groups) == c.line);
  }
}

}  // namespace
}  // namespace hvd
