// SPDX-License-Identifier: Apache-2.0
//
// The timeline: its file parses whenever it is copied and however its writer ends, and says what it
// was told.
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "libhvd/base/clock.h"
#include "libhvd/base/fd.h"
#include "libhvd/base/json.h"
#include "libhvd/trace/array_file.h"
#include "libhvd/trace/timeline.h"
#include "libhvd/trace/timeline_path.h"
#include "tests/unit/catch.h"
#include "tests/unit/processes.h"

using hvd::ArrayFile;
using hvd::Json;
using hvd::now_ns;
using hvd::Timeline;
using hvd_test::eventually;
using hvd_test::in_threads;
using hvd_test::Process;

namespace {

// A directory that goes with its files.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/hvd-trace-XXXXXX";
    path_ = mkdtemp(name) != nullptr ? name : "/nowhere";
  }
  ~Folder() {
    for (const char* file : {"/t.json", "/t.json.tmp", "/other.json", "/link.json"}) {
      unlink((path_ + file).c_str());
    }
    rmdir(path_.c_str());
  }
  std::string file(const char* name = "t.json") const { return path_ + "/" + name; }

 private:
  std::string path_;
};

bool has_leases(const Folder& folder) {
  hvd::Fd fd(open(folder.file("other.json").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  return fcntl(fd.get(), F_SETLEASE, F_WRLCK) == 0;
}

// As a copying program reads, `piece` bytes at a time.
std::string copied(const std::string& path, size_t piece = 128 << 10) {
  hvd::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::string buffer(piece, '\0');
  for (;;) {
    const ssize_t n = read(fd.get(), &buffer[0], buffer.size());
    if (n <= 0) return text;
    text.append(buffer, 0, static_cast<size_t>(n));
  }
}

// What Json::parse takes has no fractions; those of "ts" and "dur" are three digits.
std::string without_fractions(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool fraction = text[i] == '.' && i > 0 && isdigit(text[i - 1]) && i + 3 < text.size() &&
                          isdigit(text[i + 1]) && isdigit(text[i + 2]) && isdigit(text[i + 3]);
    if (!fraction) result.push_back(text[i]);
  }
  return result;
}

std::optional<Json> parsed(const std::string& text) {
  std::optional<Json> json = Json::parse(without_fractions(text));
  return json && !json->items().empty() ? json : std::nullopt;
}

// The events of a file, as "ph name pid/tid" and their arguments; not those about names.
std::vector<std::string> events_of(const std::string& path) {
  const std::optional<Json> json = parsed(copied(path));
  std::vector<std::string> events;
  if (!json) return {"does not parse"};
  for (const Json& event : json->items()) {
    if (event["ph"].text() == "M") continue;
    std::string text = event["ph"].text() + " " + event["name"].text() + " " +
                       std::to_string(event["pid"].number()) + "/" +
                       std::to_string(event["tid"].number());
    if (!event["args"].is_null()) text += " " + event["args"].dump();
    events.push_back(text);
  }
  return events;
}

// Of process 1, 2, ...
std::vector<std::string> names_in(const std::string& path) {
  const std::optional<Json> json = parsed(copied(path));
  std::vector<std::string> names;
  if (!json) return {"does not parse"};
  for (const Json& event : json->items()) {
    if (event["name"].text() == "process_name" && event["pid"].number() > 0) {
      names.push_back(event["args"]["name"].text());
    }
  }
  return names;
}

class Warnings {
 public:
  Timeline::Warn taker() {
    return [this](const std::string& text) {
      std::lock_guard<std::mutex> lock(mutex_);
      texts_.push_back(text);
    };
  }
  std::vector<std::string> texts() {
    std::lock_guard<std::mutex> lock(mutex_);
    return texts_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> texts_;
};

void tell_operation(Timeline* timeline, const std::string& tensor) {
  const int64_t now = now_ns();
  timeline->begin(tensor, "NEGOTIATE_ALLREDUCE", now);
  timeline->rank_ready(tensor, 1, now + 100);
  timeline->end(tensor, "NEGOTIATE_ALLREDUCE", now + 1000, {{"last_rank", 1}});
  timeline->begin(tensor, "QUEUE", now + 1000);
  timeline->end(tensor, "QUEUE", now + 2000);
  timeline->begin(tensor, "ALLREDUCE", now + 2000, {{"bytes", 64}, {"batch", 7}});
  timeline->stage(tensor, Timeline::Stage::kPack, now + 2000, now + 4000);
  timeline->stage(tensor, Timeline::Stage::kUnpack, now + 3000, now + 5000);
  timeline->end(tensor, "ALLREDUCE", now + 5000);
}

int threads_of_process() {
  const std::string status = copied("/proc/self/status");
  const size_t at = status.find("Threads:");
  return at == std::string::npos ? -1 : atoi(status.c_str() + at + 8);
}

std::string element(int number, size_t bytes) {
  return "{\"n\": " + std::to_string(number) + ", \"x\": \"" + std::string(bytes, 'x') + "\"}";
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

TEST_CASE("every copy parses while threads tell events and the file grows", "[trace]") {
  Folder folder;
  Timeline timeline({}, nullptr);
  REQUIRE(timeline.start(folder.file(), true).ok());
  const size_t small = has_leases(folder) ? 1000 : 128 << 10;
  std::atomic<bool> stop{false};
  std::atomic<size_t> versions{0};
  std::vector<std::string> copies;
  std::thread copier([&] {
    for (int i = 0; !stop.load(); ++i) {
      // In small pieces, too, that begin nowhere in particular.
      std::string text = copied(folder.file(), i % 2 == 0 ? 128 << 10 : small);
      if (copies.empty() || copies.back() != text) copies.push_back(std::move(text));
      versions.store(copies.size());
      usleep(3000);
    }
  });
  const hvd::Deadline deadline = hvd::Deadline::after_ms(20000);
  in_threads(3, [&](int i) {
    for (int n = 0; (n < 130 || versions.load() < 12) && !deadline.passed(); ++n) {
      tell_operation(&timeline, "t" + std::to_string(i) + "." + std::to_string(n % 50));
      timeline.mark_cycle(now_ns());
      // First more than the file has room for.
      if (n > 120) usleep(10000);
    }
  });
  timeline.stop();
  stop.store(true);
  copier.join();
  CHECK(copies.size() >= 12);
  size_t good = 0;
  for (const std::string& text : copies) good += parsed(text).has_value();
  CHECK(good == copies.size());
  CHECK(events_of(folder.file()).size() >= 3 * 130 * 10);
  CHECK(names_in(folder.file()).size() == 150);
}

TEST_CASE("whoever has the file open sees one version of it, and delays nobody for long",
          "[trace]") {
  Folder folder;
  ArrayFile file(64 << 10);
  REQUIRE(file.create(folder.file(), element(0, 10)).text() == "");
  hvd::Fd reader(open(folder.file().c_str(), O_RDONLY | O_CLOEXEC));
  const bool leases = has_leases(folder);
  const std::string before = copied(folder.file());
  file.add(element(1, 10));
  hvd::Expected<bool> flushed = file.flush();
  REQUIRE(flushed.ok());
  if (leases) {
    CHECK_FALSE(*flushed);
    CHECK(copied(folder.file()) == before);
    REQUIRE(eventually([&] {
      flushed = file.flush();
      return !flushed.ok() || *flushed;
    }));
  }
  CHECK(flushed.status().text() == "");
  CHECK(parsed(copied(folder.file()))->items().size() == 2);
  if (leases) {
    std::string old(before.size() + 1, '\0');
    CHECK(pread(reader.get(), &old[0], old.size(), 0) == static_cast<ssize_t>(before.size()));
    CHECK(old.substr(0, before.size()) == before);
  }
  reader.reset();
  file.add(element(2, 10));
  flushed = file.flush();
  REQUIRE(flushed.ok());
  CHECK(*flushed);
}

TEST_CASE("any mix of older and newer pages of a file parses", "[trace]") {
  Folder folder;
  ArrayFile file(96 << 10);
  REQUIRE(file.create(folder.file(), element(0, 100)).ok());
  std::vector<std::string> versions = {copied(folder.file())};
  for (int n = 1; n < 120;) {
    for (int i = 0; i < 15; ++i, ++n) file.add(element(n, static_cast<size_t>(n * 37 % 900)));
    const hvd::Expected<bool> flushed = file.flush();
    REQUIRE(flushed.ok());
    versions.push_back(copied(folder.file()));
    REQUIRE(versions.back().size() == versions[0].size());
  }
  CHECK(parsed(versions.back())->items().size() == 121);
  unsigned seed = 1;
  for (int round = 0; round < 50; ++round) {
    std::string mix;
    for (size_t at = 0; at < versions[0].size(); at += ArrayFile::kPage) {
      seed = seed * 1103515245 + 12345;
      mix += versions[(seed >> 16) % versions.size()].substr(at, ArrayFile::kPage);
    }
    INFO("round " << round);
    REQUIRE(parsed(mix));
  }
}

TEST_CASE("elements of every length up to the longest are all there, and the room is used up",
          "[trace]") {
  Folder folder;
  ArrayFile file(16 << 10);
  REQUIRE(file.create(folder.file(), "0").ok());
  size_t expected = 1;
  std::string head = "\"";
  for (size_t bytes = 2; bytes <= ArrayFile::kMostBytes; bytes += 61) {
    file.add("\"" + std::string(bytes - 2, 'y') + "\"");
    ++expected;
    if (expected % 5 == 0) {
      const hvd::Expected<bool> flushed = file.flush();
      REQUIRE(flushed.ok());
      REQUIRE(parsed(copied(folder.file()))->items().size() == expected);
    }
  }
  file.add("\"" + std::string(ArrayFile::kMostBytes - 2, 'z') + "\"");
  REQUIRE(file.finish().ok());
  CHECK(parsed(copied(folder.file()))->items().size() == expected + 1);
  // Too large to be copied at the end: the room stays.
  ArrayFile large(64 << 10);
  REQUIRE(large.create(folder.file(), "0").ok());
  large.add("1");
  REQUIRE(large.finish(100).ok());
  CHECK(copied(folder.file()).size() == 64 << 10);
  CHECK(parsed(copied(folder.file()))->items().size() == 2);
}

TEST_CASE("a process that is killed while it writes leaves a file that parses", "[trace]") {
  Folder folder;
  unsigned seed = 7;
  size_t most = 0;
  for (int round = 0; round < 30; ++round) {
    Process writer([&] {
      ArrayFile file(16 << 10);
      if (!file.create(folder.file(), "0").ok()) return 1;
      for (int n = 1; n < 2000000; ++n) {
        file.add(element(n, static_cast<size_t>(n % 300)));
        // Without a reader every flush is in place or into a new file.
        if (n % 9 == 0 && !file.flush().ok()) return 2;
      }
      return 0;
    });
    REQUIRE(eventually([&] { return access(folder.file().c_str(), F_OK) == 0; }));
    seed = seed * 1103515245 + 12345;
    usleep((seed >> 16) % 20000);
    writer.kill_now();
    const std::string text = copied(folder.file());
    INFO("round " << round << ", " << text.size() << " bytes");
    const std::optional<Json> json = parsed(text);
    REQUIRE(json);
    // All up to the last one.
    size_t in_order = 1;
    for (size_t i = 1; i < json->items().size(); ++i) {
      in_order += json->items()[i]["n"].number() == static_cast<int64_t>(i);
    }
    CHECK(in_order == json->items().size());
    most = std::max(most, json->items().size());
    unlink(folder.file().c_str());
  }
  CHECK(most > 100);
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

TEST_CASE("a full disk is one warning; the file keeps what it had and parses", "[trace]") {
  Folder folder;
  // What a limit on the size of files refuses is like what a full disk refuses.
  Process writer([&] {
    Warnings warnings;
    Timeline timeline({}, warnings.taker());
    if (!timeline.start(folder.file(), false).ok()) return 1;
    const rlimit limit = {300 << 10, 300 << 10};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    const hvd::Deadline deadline = hvd::Deadline::after_ms(10000);
    while (timeline.on() && !deadline.passed()) {
      for (int i = 0; i < 50; ++i) tell_operation(&timeline, "t");
      usleep(10000);
    }
    if (timeline.on()) return 3;
    tell_operation(&timeline, "t");
    timeline.stop();
    if (warnings.texts() != std::vector<std::string>{"the timeline ends here: timeline file \"" +
                                                     folder.file() + "\": File too large"}) {
      return 4;
    }
    // Another attempt says so at once.
    return timeline.start(folder.file("none/t.json"), false).ok() ? 5 : 0;
  });
  CHECK(writer.wait() == 0);
  CHECK(events_of(folder.file()).size() > 100);
  CHECK(access(folder.file("t.json.tmp").c_str(), F_OK) != 0);
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
