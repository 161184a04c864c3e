// SPDX-License-Identifier: Apache-2.0
//
// hvd-info's parts: the command line, what it reads in /proc, what it finds around it, what it
// prints.
#include <sys/stat.h>

#include <climits>
#include <cstdlib>

#include "libhvd/base/handoff.h"
#include "libhvd/tools/info/gpu.h"
#include "libhvd/tools/info/options.h"
#include "libhvd/tools/info/procfs.h"
#include "libhvd/tools/info/python.h"
#include "libhvd/tools/info/surroundings.h"
#include "libhvd/tools/info/text.h"
#include "tests/unit/catch.h"
#include "tests/unit/folder.h"

namespace hvd::info {
namespace {

TEST_CASE("hvd-info: a wrong argument is a sentence with the way out") {
  const struct {
    std::vector<std::string_view> arguments;
    const char* text;
  } cases[] = {
      {{"--jsno"}, "unknown argument \"--jsno\"; did you mean \"--json\"?"},
      {{"4711"}, "unknown argument \"4711\"; \"hvd-info --help\" lists all"},
      {{"--pid"}, "--pid lacks its value; write it as in --pid 4711"},
      {{"--pid", "x"}, "--pid is \"x\", not the number of a process; write it as in --pid 4711"},
      {{"--pid=0"}, "--pid is \"0\", not the number of a process; write it as in --pid 4711"},
      {{"--pid", "99999999999"},
       "--pid is \"99999999999\", not the number of a process; write it as in --pid 4711"},
      {{"--pid", "1", "--all-ranks"}, "--pid asks one rank; leave out --all-ranks"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.text);
    const auto options = parse_options(c.arguments);
    REQUIRE_FALSE(options.ok());
    CHECK(options.status().text() == c.text);
  }
  const auto options = parse_options({"--json", "--pid=12"});
  REQUIRE(options.ok());
  CHECK(options->json);
  CHECK(options->pid == 12);
}

TEST_CASE("hvd-info: where import horovod comes from") {
  const struct {
    const char* interpreter;
    const char* package;
    const char* text;
  } cases[] = {
      {"", "", "  python3           not found\n"},
      {"/usr/bin/python3", "",
       "  python3           /usr/bin/python3\n"
       "  import horovod    not found; this release's is in /p/lib/horovod/python\n"},
      {"/usr/bin/python3", "/p/lib/horovod/python/horovod/__init__.py",
       "  python3           /usr/bin/python3\n"
       "  import horovod    /p/lib/horovod/python\n"},
      {"/opt/bin/python3", "/opt/site-packages/horovod/__init__.py",
       "  python3           /opt/bin/python3\n"
       "  import horovod    /opt/site-packages, which is another than this release's in "
       "/p/lib/horovod/python\n"},
  };
  for (const auto& c : cases) {
    const Json python = Json::object()
                            .set("interpreter", c.interpreter)
                            .set("package", c.package)
                            .set("installed", "/p/lib/horovod/python");
    const std::string text = text_of_place(Json::object().set("python", python));
    CAPTURE(text);
    CHECK(text.find(std::string("\npython\n") + c.text + "\nbuilt with\n") != std::string::npos);
  }
}

TEST_CASE("hvd-info: python3 is asked, and one that does not answer is not waited for") {
  const Json libraries =
      Json::array().add(Json::object().set("name", "libhvd").set("path", "/p/lib/libhvd.so.0.0.0"));
  const Json here = python_here(libraries, Deadline::after_ms(60000));
  CHECK(here["installed"].text() == "/p/lib/horovod/python");
  CHECK(here["interpreter"].text().find("python3") != std::string::npos);

  test::Folder bin;
  const std::string fake = bin.path() + "/python3";
  FILE* script = fopen(fake.c_str(), "w");
  REQUIRE(script != nullptr);
  fputs("#!/bin/sh\necho /usr/bin/python3\nexec sleep 60\n", script);
  REQUIRE(fclose(script) == 0);
  REQUIRE(chmod(fake.c_str(), 0755) == 0);
  const std::string path = getenv("PATH");
  setenv("PATH", (bin.path() + ":" + path).c_str(), 1);
  const Json silent = python_here(libraries, Deadline::after_ms(300));
  setenv("PATH", "/nowhere", 1);
  const Json absent = python_here(libraries, Deadline::after_ms(60000));
  setenv("PATH", path.c_str(), 1);
  CHECK(silent["interpreter"].is_null());
  CHECK(absent["interpreter"].is_null());
}

TEST_CASE("hvd-info: lines of /proc/net/unix, of sockets with and without a name") {
  const struct {
    const char* line;
    bool is_socket;
    UnixSocket socket;
  } cases[] = {
      {"Num       RefCount Protocol Flags    Type St Inode Path", false, {}},
      {"", false, {}},
      {"0000000000000000: 00000002 00000000 00010000 0001 01 21343 @horovod-info-1f",
       true,
       {21343, true, "horovod-info-1f"}},
      {"0000000000000000: 00000003 00000000 00000000 0001 03 21350 @horovod-info-1f",
       true,
       {21350, false, "horovod-info-1f"}},
      {"ffff8881000: 00000003 00000000 00000000 0002 01 4294967297", true, {4294967297, false, ""}},
      {"ffff8881000: 00000002 00000000 00010000 0001 01  9001 /run/some file",
       true,
       {9001, true, ""}},
      {"ffff8881000: 00000002 00000000 00010000 0001 01 7 @with blanks ",
       true,
       {7, true, "with blanks "}},
      {"ffff8881000: 00000002 00000000 xx 0001 01 7 @a", false, {}},
  };
  for (const auto& c : cases) {
    CAPTURE(c.line);
    const auto found = parse_unix_socket(c.line);
    REQUIRE(found.has_value() == c.is_socket);
    if (!found) continue;
    CHECK(found->inode == c.socket.inode);
    CHECK(found->listens == c.socket.listens);
    CHECK(found->name == c.socket.name);
  }
}

TEST_CASE("hvd-info: what else it reads in /proc") {
  CHECK(socket_inode("socket:[4026]") == 4026u);
  CHECK_FALSE(socket_inode("pipe:[4026]"));
  CHECK_FALSE(socket_inode("socket:[x]"));
  CHECK_FALSE(socket_inode("socket:["));
  CHECK_FALSE(socket_inode(""));

  const char* maps =
      "00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/python3.11\n"
      "7f00-7f01 r-xp 00000000 08:02 1 /opt/libmpi_usempif08.so.40\n"
      "7f00-7f01 r-xp 00000000 08:02 1 /usr/lib/libmpi.so.40.30.4\n"
      "7f02-7f03 r-xp 00000000 00:00 0\n"
      "7f02-7f03 r-xp 00000000 08:02 1 /opt/my lib/libhvd.so.0.0.0\n"
      "7ffd-7ffe rw-p 00000000 00:00 0 [stack]\n";
  CHECK(mapped_file(maps, "libmpi.so libmpich.so") == "/usr/lib/libmpi.so.40.30.4");
  CHECK(mapped_file(maps, "libhvd.so") == "/opt/my lib/libhvd.so.0.0.0");
  CHECK(mapped_file(maps, "libnccl.so") == "");

  CHECK(parse_stat("12 (a (b) T 9) S 34 12 0").state == 'S');
  CHECK(parse_stat("12 (a (b) T 9) S 34 12 0").parent == 34);
  CHECK(parse_stat("").state == '?');

  const std::string_view environment("A=1\0SLURM_JOB_ID=12\0B=\0", 24);
  CHECK(variable_in(environment, "SLURM_JOB_ID") == "12");
  CHECK(variable_in(environment, "SLURM_JOB") == "");
  CHECK(variable_in(environment, "B") == "");
}

TEST_CASE("hvd-info: the libraries of GPUs, and one line where there is no CUDA") {
  const std::string title = "\ngpu (this release reduces tensors on the CPU and uses none of it)\n";
  const auto text = [](const CudaLibrary& cuda, const NcclLibrary& nccl) {
    return text_of_place(Json::object().set("gpu", gpu_json(cuda, nccl)));
  };
  CudaLibrary cuda;
  NcclLibrary nccl;
  cuda.status = Status(Code::kSystem, "libcuda.so.1: cannot open shared object file");
  nccl.path = "/l/libnccl.so.2";
  CHECK(text(cuda, nccl)
            .find(title +
                  "  CUDA              libcuda.so.1: cannot open shared object file\n\npython\n") !=
        std::string::npos);
  cuda.status = ok_status();
  cuda.path = "/l/libcuda.so.1";
  cuda.version = 12040;
  nccl.version = 22602;
  nccl.policy = nccl_policy(nccl.version);
  CHECK(
      text(cuda, nccl)
          .find(title +
                "  CUDA              could be used\n"
                "  NCCL              could be used\n"
                "                    NCCL 2.26.2 may hang at random with communicators that do not "
                "block, so they block\n"
                "                    NCCL 2.26.2 works; 2.28.9 or a later one is recommended\n"
                "\npython\n") != std::string::npos);
  nccl.policy = nccl_policy(22809);
  nccl.version = 22809;
  CHECK(text(cuda, nccl).find("\n  NCCL              could be used: non-blocking\n\npython\n") !=
        std::string::npos);
  const Json json = gpu_json(cuda, nccl);
  CHECK(
      json["cuda"].dump() ==
      "{\"version\": \"12.4\", \"path\": \"/l/libcuda.so.1\", \"usable\": true, \"reason\": null}");
  CHECK(json["nccl"].dump() ==
        "{\"version\": \"2.28.9\", \"path\": \"/l/libnccl.so.2\", \"usable\": true, \"reason\": "
        "null, "
        "\"enabled\": [\"non-blocking\"], \"remarks\": []}");
  nccl.status = Status(Code::kSystem, "\"/l/libnccl.so.2\" is no NCCL");
  CHECK(text(cuda, nccl).find("\n  NCCL              \"/l/libnccl.so.2\" is no NCCL\n\npython\n") !=
        std::string::npos);
}

// An environment as getenv and environ give it.
class Environment {
 public:
  explicit Environment(std::vector<std::string> entries) : entries_(std::move(entries)) {
    for (const std::string& entry : entries_) pointers_.push_back(entry.c_str());
    pointers_.push_back(nullptr);
  }
  Surroundings look() const {
    return look_around(
        [this](const char* name) -> const char* {
          for (const std::string& entry : entries_) {
            const std::string start = std::string(name) + "=";
            if (entry.rfind(start, 0) == 0) return entry.c_str() + start.size();
          }
          return nullptr;
        },
        pointers_.data(), "here");
  }

 private:
  std::vector<std::string> entries_;
  std::vector<const char*> pointers_;
};

std::vector<std::string> placed_task(int rank) {
  Handoff handoff;
  handoff.step = "7.0";
  handoff.hostname = "node1";
  handoff.placement = {rank, 4, rank % 2, 2, rank / 2, 2};
  handoff.site = {Setting::kSlots};
  handoff.option = {Setting::kFusionThreshold};
  Settings settings;
  REQUIRE(settings.set(Setting::kSlots, "8", Origin::kSite).ok());
  REQUIRE(settings.set(Setting::kFusionThreshold, "1M", Origin::kOption).ok());
  std::vector<std::string> entries = {"PMIX_NAMESPACE=slurm.pmix.7.0",
                                      "PMIX_RANK=" + std::to_string(rank),
                                      "SLURM_JOB_ID=7",
                                      "SLURM_STEP_ID=0",
                                      "SLURM_STEP_NUM_TASKS=4",
                                      "SLURM_NTASKS=4",
                                      "HOROVOD_CYCLE_TIME=2"};
  for (const auto& [name, value] : handoff_variables(handoff, settings)) {
    entries.push_back(name + "=" + value);
  }
  return entries;
}

std::string origin_of(const Json& facts, const char* key) {
  for (const Json& setting : facts["settings"].items()) {
    if (setting["key"].text() == key) {
      return setting["value"].text() + " " + setting["origin"].text();
    }
  }
  return "";
}

TEST_CASE(
    "hvd-info: a task that the plugin placed knows its place, and where each value came from") {
  const Surroundings here = Environment(placed_task(3)).look();
  CHECK(here.task == 3);
  const Json& layout = here.facts["layout"];
  CHECK(layout.dump() ==
        "{\"source\": \"plugin\", \"rank\": 3, \"size\": 4, \"local_rank\": 1, \"local_size\": 2, "
        "\"cross_rank\": 1, \"cross_size\": 2, \"host\": \"node1\"}");
  CHECK(origin_of(here.facts, "slots") == "8 site");
  CHECK(origin_of(here.facts, "fusion-threshold") == "1M --horovod");
  CHECK(origin_of(here.facts, "cycle-time") == "2ms environment");
  CHECK(origin_of(here.facts, "peer-timeout") == "10s built-in");
  CHECK(here.facts["errors"].items().empty());
}

TEST_CASE("hvd-info: a hand-off for another step is not believed") {
  std::vector<std::string> entries = placed_task(3);
  entries[0] = "PMIX_NAMESPACE=slurm.pmix.7.1";
  entries[3] = "SLURM_STEP_ID=1";
  const Surroundings here = Environment(entries).look();
  CHECK(here.facts["layout"]["source"].text() == "launcher");
  CHECK(origin_of(here.facts, "fusion-threshold") == "1M environment");
}

TEST_CASE("hvd-info: every bad value is said, and the rest is still told") {
  const Surroundings here =
      Environment({"HOROVOD_CYCLE_TIME=x", "HOROVOD_SLOTS=99", "HOROVOD_FUSION_THRESHOLD=1M",
                   "HOROVOD_FUSION_TRESHOLD=1", "HOROVOD_GLOO_RENDEZVOUS=1"})
          .look();
  const auto& errors = here.facts["errors"].items();
  REQUIRE(errors.size() == 2);
  CHECK(errors[0].text() ==
        "HOROVOD_CYCLE_TIME is \"x\", not a duration; write a number of milliseconds, or 2ms");
  CHECK(errors[1].text() == "HOROVOD_SLOTS is \"99\", more than 16, the most");
  CHECK(origin_of(here.facts, "fusion-threshold") == "1M environment");
  CHECK(origin_of(here.facts, "cycle-time") == "0s built-in");
  const auto& remarks = here.facts["remarks"].items();
  REQUIRE(remarks.size() == 2);
  CHECK(remarks[0].text() ==
        "HOROVOD_FUSION_TRESHOLD is not a variable of horovod and has no effect; did you mean "
        "HOROVOD_FUSION_THRESHOLD?");
  CHECK(remarks[1].text() == "HOROVOD_GLOO_RENDEZVOUS has no effect in this release");
  CHECK(here.facts["layout"]["source"].text() == "none");
  CHECK(here.task == 0);
}

TEST_CASE("hvd-info: tasks that could not find each other are told so, and one of them speaks") {
  const Surroundings here =
      Environment({"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4", "SLURM_PROCID=2"})
          .look();
  CHECK(here.task == 2);
  REQUIRE(here.facts["errors"].items().size() == 1);
  CHECK(here.facts["errors"].items()[0].text().find("this Slurm step has 4 tasks but no PMIx") ==
        0);
  CHECK(here.facts["layout"].is_null());
  CHECK(text_of_place(here.facts).find("\nplace\n  none; see below\n\nerrors\n") !=
        std::string::npos);
}

TEST_CASE("hvd-info: what it prints of a rank names its operations, and counts those left out") {
  const auto facts = Json::parse(R"({
    "pid": 4711, "state": "failed", "reason": "rank 1 on node0 is gone",
    "layout": {"rank": 2, "size": 4, "local_rank": 0, "local_size": 2, "cross_rank": 1,
               "cross_size": 2, "host": "node1",
               "nodes": [{"host": "node0", "ranks": [0, 1]}, {"host": "node1", "ranks": [2]}]},
    "epoch": 1, "uptime_ms": 61005, "batches": 12, "bytes": 1572864,
    "operations": [
      {"name": "grad", "kind": "allreduce", "type": "float32", "shape": [3, 4], "age_ms": 1500,
       "state": "running"},
      {"name": "barrier.noname.0", "kind": "barrier", "type": null, "shape": null, "age_ms": 7,
       "state": "waiting"}],
    "operations_in_flight": 5,
    "libraries": [{"name": "MPI", "version": "Open MPI v4.1.4, package: X", "path": "/l/libmpi.so"},
                  {"name": "NCCL", "version": null, "path": null}],
    "settings": [{"key": "interfaces", "value": "", "origin": "site"}]})");
  REQUIRE(facts);
  CHECK(text_of_rank(*facts) ==
        "process 4711: rank 2 of 4 on node1, local rank 0 of 2, cross rank 1 of 2\n"
        "  failed: rank 1 on node0 is gone\n"
        "  epoch 1, 61.005 s since hvd_init, 12 batches, 1.5 MiB of tensors\n"
        "\n"
        "operations in flight\n"
        "  running                  1.500 s     allreduce \"grad\" float32 [3,4]\n"
        "  waiting for other ranks  0.007 s     barrier \"barrier.noname.0\"\n"
        "  and 3 younger ones\n"
        "\n"
        "nodes\n"
        "  node0             ranks 0, 1\n"
        "  node1             rank 2\n"
        "\n"
        "settings                value         from\n"
        "  interfaces            -             site\n"
        "\n"
        "libraries\n"
        "  MPI               Open MPI v4.1.4, /l/libmpi.so\n"
        "  NCCL              not loaded\n");
}

TEST_CASE("hvd-info: names from a program cannot command a terminal") {
  CHECK(printable("layer1.weight") == "layer1.weight");
  CHECK(printable("a\x1b[31mb\nc\x7f") == "a?[31mb?c?");
  CHECK(printable("\xc2\x9b"
                  "31m") == "?31m");
  CHECK(printable("\xc3\xa9\xff\xe2\x82\xac") == "\xc3\xa9?\xe2\x82\xac");
}

}  // namespace
}  // namespace hvd::info
