// SPDX-License-Identifier: Apache-2.0
//
// The timeline's file parses whenever it is copied and however its writer ends.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "libhvd/base/clock.h"
#include "libhvd/base/fd.h"
#include "libhvd/base/json.h"
#include "libhvd/trace/array_file.h"
#include "libhvd/trace/timeline.h"
#include "tests/unit/catch.h"
#include "tests/unit/processes.h"
#include "tests/unit/trace_words.h"

using hvd::ArrayFile;
using hvd::Json;
using hvd::now_ns;
using hvd::Timeline;
using hvd_test::eventually;
using hvd_test::in_threads;
using hvd_test::Process;
using namespace hvd::test;

namespace {

std::string element(int number, size_t bytes) {
  return "{\"n\": " + std::to_string(number) + ", \"x\": \"" + std::string(bytes, 'x') + "\"}";
}

}  // namespace

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
