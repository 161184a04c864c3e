// SPDX-License-Identifier: Apache-2.0
//
// The timeline says what it was told, however its writer ends.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "libhvd/base/clock.h"
#include "libhvd/base/fd.h"
#include "libhvd/base/json.h"
#include "libhvd/trace/timeline.h"
#include "tests/unit/catch.h"
#include "tests/unit/processes.h"
#include "tests/unit/trace_words.h"

using hvd::Json;
using hvd::now_ns;
using hvd::Timeline;
using hvd_test::eventually;
using hvd_test::Process;
using namespace hvd::test;

namespace {

int threads_of_process() {
  const std::string status = copied("/proc/self/status");
  const size_t at = status.find("Threads:");
  return at == std::string::npos ? -1 : atoi(status.c_str() + at + 8);
}

}  // namespace

TEST_CASE("a timeline has Horovod's phases per tensor, in the order of first use", "[trace]") {
  Folder folder;
  Warnings warnings;
  Timeline timeline({3, 4, "node1", "77"}, warnings.taker());
  CHECK_FALSE(timeline.on());
  REQUIRE(timeline.start(folder.file(), true).text() == "");
  CHECK(timeline.on());
  timeline.mark_cycle(now_ns());
  tell_operation(&timeline, "grad/b");
  timeline.begin("grad/a", "NEGOTIATE_BROADCAST", now_ns());
  timeline.stop();
  CHECK_FALSE(timeline.on());

  const std::optional<Json> json = parsed(copied(folder.file()));
  REQUIRE(json);
  const Json& head = json->items()[0]["args"];
  CHECK(head["name"].text() == "rank 3");
  CHECK(head["rank"].number() == 3);
  CHECK(head["size"].number() == 4);
  CHECK(head["host"].text() == "node1");
  CHECK(head["job"].text() == "77");
  CHECK(std::abs(head["start_time_since_epoch_in_micros"].number() - time(nullptr) * 1000000) <
        60 * 1000000);
  CHECK(names_in(folder.file()) == std::vector<std::string>{"grad/b", "grad/a"});
  CHECK(events_of(folder.file()) == std::vector<std::string>{
                                        "i CYCLE_START 0/0",
                                        "B NEGOTIATE_ALLREDUCE 1/0",
                                        "X 1 1/0",
                                        "E NEGOTIATE_ALLREDUCE 1/0 {\"last_rank\": 1}",
                                        "B QUEUE 1/0",
                                        "E QUEUE 1/0",
                                        "B ALLREDUCE 1/0 {\"bytes\": 64, \"batch\": 7}",
                                        "X pack 1/1",
                                        "X unpack 1/4",
                                        "E ALLREDUCE 1/0",
                                        "B NEGOTIATE_BROADCAST 2/0",
                                    });
  CHECK(warnings.texts().empty());
}

TEST_CASE("times are microseconds since the start, with nanoseconds behind the point", "[trace]") {
  Folder folder;
  Timeline timeline({}, nullptr);
  REQUIRE(timeline.start(folder.file(), false).ok());
  const int64_t before = now_ns();
  timeline.begin("a", "QUEUE", before);
  timeline.begin("b", "QUEUE", before + 1234567);
  timeline.stage("b", Timeline::Stage::kCross, before, before + 2005);
  // Begun before the timeline.
  timeline.stage("a", Timeline::Stage::kPack, 0, before + 1000000000);
  timeline.stop();
  const std::string text = copied(folder.file());
  CHECK(text.find(",\"dur\":2.005}") != std::string::npos);
  const std::optional<Json> json = parsed(text);
  REQUIRE(json);
  std::vector<int64_t> times;
  for (const Json& event : json->items()) {
    if (event["ph"].text() != "M") times.push_back(event["ts"].number());  // in ns
  }
  REQUIRE(times.size() == 4);
  CHECK(times[1] - times[0] == 1234567);
  CHECK(times[0] >= 0);
  CHECK(times[0] < 10000000000);
  CHECK(times[3] == 0);
}

TEST_CASE("a name with quotes, line breaks, foreign letters or garbage is escaped, a long one cut",
          "[trace]") {
  const struct {
    std::string name;
    std::string shown;
  } cases[] = {
      {"a \"quoted\" \\ name", "a \"quoted\" \\ name"},
      {"two\nlines\tand\x01", "two\nlines\tand\x01"},
      {"gewicht/\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80",
       "gewicht/\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80"},
      {"not \xff UTF-8 \xc3", "not \xef\xbf\xbd UTF-8 \xef\xbf\xbd"},
      {std::string(2048, 'n'), std::string(2048, 'n')},
      {std::string(4000, 'n'), std::string(2993, 'n') + "..."},
      {std::string(2048, '\x01'), std::string(498, '\x01') + "..."},
  };
  Folder folder;
  Timeline timeline({0, 1, std::string(5000, '"'), std::string(5000, '\x02')}, nullptr);
  REQUIRE(timeline.start(folder.file(), false).ok());
  std::vector<std::string> shown;
  for (const auto& c : cases) {
    timeline.begin(c.name, "QUEUE", now_ns());
    shown.push_back(c.shown);
  }
  timeline.stop();
  CHECK(names_in(folder.file()) == shown);
}

TEST_CASE("begins and ends fit each other, whatever was told", "[trace]") {
  Folder folder;
  Timeline timeline({}, nullptr);
  REQUIRE(timeline.start(folder.file(), false).ok());
  timeline.end("t", "ALLREDUCE", now_ns());  // begun before the trace
  timeline.begin("t", "ALLREDUCE", now_ns());
  timeline.begin("t", "inner", now_ns());
  timeline.end("t", "other", now_ns());
  timeline.end("t", "ALLREDUCE", now_ns(), {{"code", 4}});
  timeline.begin("t", "QUEUE", now_ns());
  timeline.begin("t", "QUEUE", now_ns());  // the end was lost
  timeline.stop();
  CHECK(events_of(folder.file()) ==
        std::vector<std::string>{"B ALLREDUCE 1/0", "B inner 1/0", "E inner 1/0",
                                 "E ALLREDUCE 1/0 {\"code\": 4}", "B QUEUE 1/0", "E QUEUE 1/0",
                                 "B QUEUE 1/0"});
}

TEST_CASE("what is told appears in the file without a stop, and idle time writes nothing",
          "[trace]") {
  Folder folder;
  Timeline timeline({}, nullptr);
  REQUIRE(timeline.start(folder.file(), false).ok());
  CHECK(parsed(copied(folder.file())));
  timeline.begin("t", "QUEUE", now_ns());
  REQUIRE(eventually([&] { return events_of(folder.file()).size() == 1; }));
  struct stat before;
  REQUIRE(stat(folder.file().c_str(), &before) == 0);
  usleep(250000);
  struct stat after;
  REQUIRE(stat(folder.file().c_str(), &after) == 0);
  CHECK(before.st_mtim.tv_sec == after.st_mtim.tv_sec);
  CHECK(before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
}

TEST_CASE("a timeline that is off has no thread and no file, and takes nothing", "[trace]") {
  Folder folder;
  const int threads = threads_of_process();
  Timeline timeline({}, nullptr);
  timeline.begin("before", "QUEUE", now_ns());
  timeline.mark_cycle(now_ns());
  timeline.stop();
  CHECK(threads_of_process() == threads);
  REQUIRE(timeline.start(folder.file(), false).ok());
  CHECK(threads_of_process() == threads + 1);
  timeline.mark_cycle(now_ns());  // not asked for
  timeline.stop();
  timeline.begin("after", "QUEUE", now_ns());
  CHECK(threads_of_process() == threads);
  CHECK(events_of(folder.file()).empty());
}

TEST_CASE("start, stop and start again: each file has its own events and names", "[trace]") {
  Folder folder;
  Timeline timeline({}, nullptr);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(timeline.start(folder.file(), false).ok());
    timeline.begin("round " + std::to_string(i), "QUEUE", now_ns());
    timeline.stop();
    CHECK(names_in(folder.file()) == std::vector<std::string>{"round " + std::to_string(i)});
  }
  // Another path ends the first trace; the same one goes on.
  REQUIRE(timeline.start(folder.file(), false).ok());
  timeline.begin("first", "QUEUE", now_ns());
  REQUIRE(timeline.start(folder.file("other.json"), false).ok());
  timeline.begin("second", "QUEUE", now_ns());
  REQUIRE(timeline.start(folder.file("other.json"), true).ok());
  timeline.mark_cycle(now_ns());
  timeline.stop();
  CHECK(names_in(folder.file()) == std::vector<std::string>{"first"});
  CHECK(events_of(folder.file("other.json")) ==
        std::vector<std::string>{"B QUEUE 1/0", "i CYCLE_START 0/0"});
  CHECK(access(folder.file("t.json.tmp").c_str(), F_OK) != 0);
}

TEST_CASE("a finished trace has no spare room, and a symbolic link stays one", "[trace]") {
  Folder folder;
  REQUIRE(symlink(folder.file().c_str(), folder.file("link.json").c_str()) == 0);
  hvd::Fd(open(folder.file().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  Timeline timeline({}, nullptr);
  REQUIRE(timeline.start(folder.file("link.json"), false).ok());
  tell_operation(&timeline, "t");
  timeline.stop();
  struct stat status;
  REQUIRE(lstat(folder.file("link.json").c_str(), &status) == 0);
  CHECK(S_ISLNK(status.st_mode));
  CHECK(events_of(folder.file()).size() == 9);
  CHECK(copied(folder.file()).size() < 4096);
}

TEST_CASE("a timeline that cannot be opened is an error that names the file and why", "[trace]") {
  Folder folder;
  const struct {
    std::string path;
    std::string text;
  } cases[] = {
      {folder.file("none/t.json"),
       "timeline file \"" + folder.file("none/t.json") + "\": No such file or directory"},
      {"/dev/full", "timeline file \"/dev/full\" is there and is no regular file"},
      {"/tmp", "timeline file \"/tmp\" is there and is no regular file"},
      {"", "timeline file \"\": "},
  };
  Timeline timeline({}, nullptr);
  for (const auto& c : cases) {
    INFO(c.path);
    const hvd::Status status = timeline.start(c.path, false);
    CHECK(status.code() == hvd::Code::kSystem);
    CHECK(status.text().substr(0, c.text.size()) == c.text);
    CHECK_FALSE(timeline.on());
  }
  REQUIRE(timeline.start(folder.file(), false).ok());
}

TEST_CASE("a timeline in a process that is killed leaves what was told 100 ms before", "[trace]") {
  Folder folder;
  Process writer([&] {
    Timeline timeline({}, nullptr);
    if (!timeline.start(folder.file(), false).ok()) return 1;
    for (int n = 0; n < 100000; ++n) {
      tell_operation(&timeline, "t" + std::to_string(n % 20));
      usleep(500);
    }
    return 0;
  });
  CHECK(eventually([&] {
    return access(folder.file().c_str(), F_OK) == 0 && events_of(folder.file()).size() > 200;
  }));
  writer.kill_now();
  CHECK(parsed(copied(folder.file())));
}

TEST_CASE("events that find no room are dropped, and the trace says how many", "[trace]") {
  Folder folder;
  Timeline timeline({}, nullptr, 10);
  REQUIRE(timeline.start(folder.file(), false).ok());
  for (int i = 0; i < 25; ++i) {
    timeline.begin("t" + std::to_string(i), "QUEUE", now_ns());
  }
  timeline.stop();
  const std::vector<std::string> events = events_of(folder.file());
  size_t begins = 0;
  size_t dropped = 0;
  for (const std::string& event : events) {
    begins += event.substr(0, 8) == "B QUEUE ";
    if (event.find(" events dropped 0/0") != std::string::npos)
      dropped += static_cast<size_t>(atoi(event.c_str() + 2));
  }
  CHECK(dropped > 0);
  CHECK(begins + dropped == 25);
}

TEST_CASE("the child of a fork writes nothing", "[trace]") {
  Folder folder;
  Timeline timeline({}, nullptr);
  REQUIRE(timeline.start(folder.file(), false).ok());
  const int threads = threads_of_process();
  Process child([&] {
    hvd::close_all_fds_after_fork();
    return threads_of_process() == 1 ? 0 : 1;
  });
  CHECK(child.wait() == 0);
  CHECK(threads_of_process() == threads);
  tell_operation(&timeline, "t");
  timeline.stop();
  CHECK(events_of(folder.file()).size() == 9);
}
