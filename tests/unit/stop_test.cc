// SPDX-License-Identifier: Apache-2.0
//
// When a rank has a reason to stop: the end of the job's time, signals, and what squeue says.
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "libhvd/stop/signals.h"
#include "libhvd/stop/squeue.h"
#include "libhvd/stop/stop_watch.h"
#include "tests/unit/catch.h"
#include "tests/unit/folder.h"
#include "tests/unit/processes.h"

using hvd::Code;
using hvd::Deadline;
using hvd::Expected;
using hvd::StopWatch;
using hvd_test::Process;
using Time = std::optional<int64_t>;

namespace {

// A job whose time, signals and Slurm are the test's.
struct Job {
  int64_t now = 1000;
  int signal = 0;
  int asked = 0;
  Expected<Time> answer = hvd::error(Code::kSystem, "squeue is not there");

  StopWatch::Parts parts(int64_t margin, Time end) {
    StopWatch::Parts parts;
    parts.margin = margin;
    parts.end = end;
    parts.now = [this] { return now; };
    parts.signal = [this] { return signal; };
    parts.ask = [this] {
      ++asked;
      return answer;
    };
    return parts;
  }
};

// A program that stands for squeue.
std::string script(const hvd::test::Folder& folder, const std::string& body) {
  std::string path = folder.file("squeue");
  FILE* file = fopen(path.c_str(), "we");
  fprintf(file, "#!/bin/sh\n%s\n", body.c_str());
  fclose(file);
  chmod(path.c_str(), 0755);
  return path;
}

// Catch has handlers of its own, which report.
bool watch_from_default() {
  signal(SIGUSR1, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  return hvd::watch_stop_signals().ok();
}

volatile sig_atomic_t own_handler_ran = 0;
void own_handler(int) { own_handler_ran = own_handler_ran + 1; }
void own_handler_with_info(int, siginfo_t* info, void*) {
  own_handler_ran = info->si_pid == getpid() ? 10 : 20;
}

}  // namespace

TEST_CASE("a rank has a reason to stop from the margin before the end on", "[stop]") {
  const struct {
    int64_t margin;
    Time end;
    int64_t now;
    bool stops;
  } cases[] = {
      {60, 2000, 1939, false}, {60, 2000, 1940, true},   {60, 2000, 2500, true},
      {0, 2000, 2500, false},  {60, Time(), 999, false}, {3600, 2000, 0, true},
  };
  for (const auto& c : cases) {
    Job job;
    job.now = c.now;
    StopWatch watch(job.parts(c.margin, c.end));
    INFO(c.margin << " s before " << c.end.value_or(0) << ", at " << c.now);
    CHECK(watch.has_reason() == c.stops);
    CHECK(watch.has_reason() == c.stops);
  }
}

TEST_CASE("Slurm is asked once for an end that is not known, and once when it seems near",
          "[stop]") {
  Job job;
  job.answer = Time(2000);
  StopWatch watch(job.parts(60, Time()));
  for (job.now = 1000; job.now < 1940; ++job.now) {
    if (watch.has_reason()) FAIL("at " << job.now);
  }
  CHECK(job.asked == 1);
  CHECK(watch.has_reason());
  CHECK(watch.has_reason());
  CHECK(job.asked == 2);
}

TEST_CASE("a time limit that has been raised moves the end, and one that was lifted removes it",
          "[stop]") {
  Job job;
  job.now = 1950;
  job.answer = Time(5000);
  StopWatch watch(job.parts(60, 2000));
  CHECK_FALSE(watch.has_reason());
  job.now = 4930;
  CHECK_FALSE(watch.has_reason());
  CHECK(job.asked == 1);
  job.now = 4940;
  job.answer = Time();
  CHECK_FALSE(watch.has_reason());
  job.now = 9000;
  CHECK_FALSE(watch.has_reason());
  CHECK(job.asked == 2);
}

TEST_CASE("where Slurm cannot be asked what is known counts, and nothing known is no end",
          "[stop]") {
  Job job;
  job.now = 1950;
  StopWatch knows(job.parts(60, 2000));
  CHECK(knows.has_reason());
  Job other;
  StopWatch never(other.parts(60, Time()));
  for (int i = 0; i < 5; ++i) CHECK_FALSE(never.has_reason());
  CHECK(other.asked == 1);
}

TEST_CASE("a signal is a reason for ever, whatever the time", "[stop]") {
  Job job;
  StopWatch watch(job.parts(0, Time()));
  CHECK_FALSE(watch.has_reason());
  job.signal = SIGTERM;
  CHECK(watch.has_reason());
  job.signal = 0;
  CHECK(watch.has_reason());
  CHECK(job.asked == 0);
}

TEST_CASE("the end is the earliest number that Slurm says", "[stop]") {
  const std::map<std::string, Time> cases = {
      {"1796068950\n", 1796068950},
      {"1796068950", 1796068950},
      {"20\n10\n30\n", 10},
      {"NONE\n", Time()},
      {"N/A\n17\n", 17},
      {"", Time()},
      {"0\n", Time()},
      {"2026-11-30T20:02:30", Time()},
  };
  for (const auto& [text, end] : cases) {
    INFO(text);
    CHECK(hvd::end_time_of(text) == end);
  }
}

TEST_CASE("a member of an array is asked for as such", "[stop]") {
  const auto job = [](const std::map<std::string, const char*>& environment) {
    return hvd::slurm_job_of([&](const char* name) {
      const auto found = environment.find(name);
      return found == environment.end() ? nullptr : found->second;
    });
  };
  CHECK(job({}) == "");
  CHECK(job({{"SLURM_JOB_ID", "12"}}) == "12");
  CHECK(job({{"SLURM_JOB_ID", "12; rm"}}) == "");
  CHECK(job({{"SLURM_JOB_ID", "14"}, {"SLURM_ARRAY_JOB_ID", "12"}, {"SLURM_ARRAY_TASK_ID", "3"}}) ==
        "12_3");
}

TEST_CASE("squeue is asked for the job in seconds since 1970, without the user's options to it",
          "[stop]") {
  const hvd::test::Folder folder;
  const std::string squeue = script(folder, "echo \"$@ $SLURM_TIME_FORMAT${SQUEUE_STATES-}\" >" +
                                                folder.file("asked") + "; echo 17");
  setenv("SQUEUE_STATES", "PENDING", 1);
  setenv("SLURM_TIME_FORMAT", "relative", 1);
  const Expected<Time> end = hvd::ask_squeue(squeue, "12_3", Deadline::after_ms(20000));
  unsetenv("SQUEUE_STATES");
  unsetenv("SLURM_TIME_FORMAT");
  REQUIRE(end.ok());
  CHECK(*end == Time(17));
  char text[200] = "";
  FILE* file = fopen(folder.file("asked").c_str(), "re");
  REQUIRE(file != nullptr);
  CHECK(fgets(text, sizeof text, file) != nullptr);
  fclose(file);
  CHECK(std::string(text) == "--noheader --jobs=12_3 --format=%e %s\n");
}

TEST_CASE("a squeue that is not there, says nothing or hangs is an error", "[stop]") {
  const hvd::test::Folder folder;
  const auto text = [](const std::string& program, int64_t ms) {
    const Expected<Time> end = hvd::ask_squeue(program, "12", Deadline::after_ms(ms));
    return end.ok() ? "none" : end.status().text();
  };
  const std::string nowhere = folder.file("nowhere");
  CHECK(text(nowhere, 20000) == "running \"" + nowhere + "\": No such file or directory");
  const std::string squeue = script(folder, "exit 1");
  CHECK(text(squeue, 20000) == "\"" + squeue + "\" says nothing");
  script(folder, "exec sleep 100");
  CHECK(text(squeue, 200) == "\"" + squeue + "\": no answer in time");
}

TEST_CASE("a squeue that lives on after its answer, or never ends it, is not waited for",
          "[stop]") {
  const hvd::test::Folder folder;
  const std::string squeue = script(folder, "echo 17; exec sleep 100 >&-");
  const Deadline deadline = Deadline::after_ms(20000);
  const Expected<Time> end = hvd::ask_squeue(squeue, "12", deadline);
  REQUIRE(end.ok());
  CHECK(*end == Time(17));
  script(folder, "exec yes 17");
  CHECK(hvd::ask_squeue(squeue, "12", deadline).status().text() ==
        "\"" + squeue + "\": its answer has no end");
  CHECK_FALSE(deadline.passed());
}

// In processes of their own, as signals are a process's.
TEST_CASE("signals are noticed and do not end the process, and the program's handler runs too",
          "[stop]") {
  Process plain([] {
    if (!watch_from_default() || hvd::stop_signal() != 0) return 1;
    raise(SIGUSR1);
    if (hvd::stop_signal() != SIGUSR1) return 2;
    raise(SIGTERM);
    return hvd::stop_signal() == SIGTERM ? 0 : 3;
  });
  CHECK(plain.wait() == 0);
  Process handled([] {
    signal(SIGUSR1, own_handler);
    struct sigaction with_info = {};
    with_info.sa_sigaction = own_handler_with_info;
    with_info.sa_flags = SA_SIGINFO;
    sigaction(SIGTERM, &with_info, nullptr);
    if (!hvd::watch_stop_signals().ok() || !hvd::watch_stop_signals().ok()) return 1;
    raise(SIGUSR1);
    if (own_handler_ran != 1 || hvd::stop_signal() != SIGUSR1) return 2;
    raise(SIGTERM);
    return own_handler_ran == 10 && hvd::stop_signal() == SIGTERM ? 0 : 3;
  });
  CHECK(handled.wait() == 0);
}

TEST_CASE("a forked child ends by SIGTERM as it would, and survives SIGUSR1", "[stop]") {
  Process parent([] {
    if (!watch_from_default()) return 1;
    Process child([] {
      raise(SIGUSR1);
      raise(SIGTERM);
      return 0;
    });
    return child.wait() == -SIGTERM && hvd::stop_signal() == 0 ? 0 : 2;
  });
  CHECK(parent.wait() == 0);
}
