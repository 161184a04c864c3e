// SPDX-License-Identifier: Apache-2.0
//
// The way from hvd-info into a rank: real sockets, real /proc, engines as threads of this process.
#include "libhvd/engine/inspector.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "libhvd/tools/info/ask.h"
#include "tests/unit/catch.h"
#include "tests/unit/processes.h"
#include "tests/unit/thread_job.h"

using namespace hvd;
using namespace hvd::test;
using hvd::info::ask_rank;

namespace {

Fd connect_to(const std::string& name) {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address;
  const socklen_t length = abstract_address(name, &address);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) fd.reset();
  return fd;
}

// What a client that takes its answer gets; empty if there is none (yet).
std::string answer_to(const Fd& client) {
  std::vector<Fd> received;
  if (!receive_fds(client.get(), 1, &received, Deadline::after_ms(0)).ok()) return "";
  char text[4096];
  const ssize_t n = pread(received[0].get(), text, sizeof text, 0);
  return n < 0 ? "" : std::string(text, static_cast<size_t>(n));
}

// Serves until it goes, as an engine does.
class Server {
 public:
  explicit Server(Inspector* inspector, std::string text) {
    thread_ = std::thread([this, inspector, text] {
      while (!stop_.load()) {
        inspector->serve(now_ns(), [&text] { return text; });
        usleep(500);
      }
    });
  }
  ~Server() {
    stop_.store(true);
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

Deadline soon() { return Deadline::after_ms(10000); }

}  // namespace

TEST_CASE("hvd-info finds the socket of a process and gets its answer, of any size") {
  auto inspector = Inspector::open();
  REQUIRE(inspector.ok());
  for (const size_t bytes : {size_t{10}, size_t{5} << 20}) {
    const Server server(inspector->get(),
                        "{\"state\": \"" + std::string(bytes, 'x') + "\", \"libraries\": []}");
    const auto answer = ask_rank(getpid(), soon());
    REQUIRE(answer.ok());
    CHECK((*answer)["state"].text().size() == bytes);
    CHECK((*answer)["pid"].number() == getpid());
    CHECK((*answer)["libraries"].items().size() == 5);
  }
}

TEST_CASE("hvd-info: what a rank hands out can be read and nothing else") {
  auto inspector = Inspector::open();
  REQUIRE(inspector.ok());
  const Fd client = connect_to((*inspector)->name());
  REQUIRE(client.valid());
  (*inspector)->serve(now_ns(), [] { return std::string("text"); });
  std::vector<Fd> received;
  REQUIRE(receive_fds(client.get(), 1, &received, soon()).ok());
  CHECK(write(received[0].get(), "evil", 4) == -1);
  CHECK(ftruncate(received[0].get(), 0) == -1);
  CHECK(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, received[0].get(), 0) ==
        MAP_FAILED);
}

TEST_CASE("hvd-info: clients that are silent, rude, gone or many do not hold a rank up") {
  auto opened = Inspector::open();
  REQUIRE(opened.ok());
  Inspector& inspector = **opened;
  int described = 0;
  const auto describe = [&described] { return "answer " + std::to_string(++described); };

  std::vector<Fd> silent;
  for (int i = 0; i < 5; ++i) silent.push_back(connect_to(inspector.name()));
  Fd rude = connect_to(inspector.name());
  const std::string noise(4096, '\xff');
  CHECK(send(rude.get(), noise.data(), noise.size(), MSG_NOSIGNAL) > 0);
  connect_to(inspector.name()).reset();  // gone before it is answered

  int64_t now = now_ns();
  inspector.serve(now, describe);
  CHECK(described == 1);  // one text for all of a turn
  for (const Fd& client : silent) CHECK(answer_to(client) == "answer 1");

  // Many: a few a turn, and a rest in between, in which there is nothing to poll.
  std::vector<Fd> many;
  for (int i = 0; i < 40; ++i) many.push_back(connect_to(inspector.name()));
  std::vector<pollfd> fds;
  CHECK(inspector.add_poll_fd(&fds, now) > now);
  CHECK(fds.empty());
  inspector.serve(now, describe);
  CHECK(described == 1);
  int turns = 0;
  for (; turns < 40 && answer_to(many.back()).empty(); ++turns) {
    now = inspector.add_poll_fd(&fds, now);
    CHECK(fds.empty());
    CHECK(inspector.add_poll_fd(&fds, now) == INT64_MAX);
    CHECK(fds.size() == 1);
    fds.clear();
    inspector.serve(now, describe);
  }
  CHECK(turns == 5);
  CHECK(described == 6);
}

TEST_CASE(
    "hvd-info: a rank without descriptors left rests instead of spinning, and answers later") {
  auto opened = Inspector::open();
  REQUIRE(opened.ok());
  Inspector& inspector = **opened;
  const Fd client = connect_to(inspector.name());
  const auto describe = [] { return std::string("here"); };

  rlimit before;
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few = {0, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  int64_t now = now_ns();
  inspector.serve(now, describe);
  std::vector<pollfd> fds;
  const int64_t later = inspector.add_poll_fd(&fds, now);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(fds.empty());
  CHECK(later > now);
  inspector.serve(later, describe);
  CHECK(answer_to(client) == "here");
}

TEST_CASE("hvd-info: a process that is no rank is told from one that does not answer") {
  hvd_test::Process sleeper([] { return pause(); });
  const std::string pid = std::to_string(sleeper.pid());
  auto answer = ask_rank(sleeper.pid(), soon());
  REQUIRE_FALSE(answer.ok());
  CHECK(answer.status().text() == "process " + pid +
                                      " (unit) has not loaded libhvd; give the process of the rank "
                                      "itself, not of its shell or launcher");
  kill(sleeper.pid(), SIGKILL);
  REQUIRE(hvd_test::eventually([&] {
    answer = ask_rank(sleeper.pid(), soon());
    return !answer.ok() && answer.status().text() ==
                               "process " + pid + " has ended, and its parent has not noticed yet";
  }));
  sleeper.wait();
  answer = ask_rank(static_cast<int>(std::stol(pid)), soon());
  REQUIRE_FALSE(answer.ok());
  CHECK(answer.status().text().find("there is no process " + pid + " on ") == 0);

  auto inspector = Inspector::open();  // and nobody serves it
  REQUIRE(inspector.ok());
  answer = ask_rank(getpid(), Deadline::after_ms(50));
  REQUIRE_FALSE(answer.ok());
  CHECK(answer.status().text() ==
        "process " + std::to_string(getpid()) +
            " does not answer; it may hang in the kernel, in MPI, or before its end");
}

TEST_CASE("hvd-info: a child that has a rank's descriptors is told from the rank") {
  auto inspector = Inspector::open();
  REQUIRE(inspector.ok());
  hvd_test::Process child([] { return pause(); });  // no libhvd here that would close them
  const auto answer = ask_rank(child.pid(), soon());
  REQUIRE_FALSE(answer.ok());
  CHECK(answer.status().text() == "process " + std::to_string(child.pid()) +
                                      " is no rank, but was started by one: \"hvd-info --pid " +
                                      std::to_string(getpid()) + "\" asks it");
}

TEST_CASE("hvd-info: what is no answer of a rank is refused, however it looks") {
  auto listener = listen_at_random_name(kInfoSocketPrefix, 4);
  REQUIRE(listener.ok());
  Fd open_memory(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(write(open_memory.get(), "{\"pid\": 1}", 10) == 10);
  Fd no_json(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(write(no_json.get(), "hello", 5) == 5);
  fcntl(no_json.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const Fd pipe_read(ends[0]);
  const Fd pipe_write(ends[1]);
  for (const int fd : {open_memory.get(), no_json.get(), pipe_read.get()}) {
    std::thread rank([&listener, fd] {
      pollfd p{listener->fd.get(), POLLIN, 0};
      ::poll(&p, 1, 10000);
      const Fd client(accept4(listener->fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      (void)send_fds(client.get(), {fd}, soon()).ok();
    });
    const auto answer = ask_rank(getpid(), soon());
    rank.join();
    REQUIRE_FALSE(answer.ok());
    CHECK(answer.status().text().find("the answer of process " + std::to_string(getpid()) +
                                      " cannot be read; has it loaded another libhvd") == 0);
  }
  std::thread rank([&listener] {
    pollfd p{listener->fd.get(), POLLIN, 0};
    ::poll(&p, 1, 10000);
    Fd(accept4(listener->fd.get(), nullptr, nullptr, SOCK_CLOEXEC)).reset();
  });
  const auto answer = ask_rank(getpid(), soon());
  rank.join();
  REQUIRE_FALSE(answer.ok());
  CHECK(answer.status().text() ==
        "process " + std::to_string(getpid()) +
            " has closed the connection without an answer; it is ending, or has no memory left");
}

TEST_CASE("hvd-info: an engine tells who it is, what waits, what it did, and how it ended") {
  ThreadJob::Options options;
  options.inspected = true;
  ThreadJob job({0, 0, 1}, options);
  // The name says which engine: all are threads of this process.
  const auto ask = [&](int rank) {
    const Fd client = connect_to(job.inspector_name(rank));
    std::vector<Fd> received;
    if (!receive_fds(client.get(), 1, &received, soon()).ok()) return Json();
    std::string text(1 << 20, '\0');
    const ssize_t n = pread(received[0].get(), text.data(), text.size(), 0);
    text.resize(n < 0 ? 0 : static_cast<size_t>(n));
    return Json::parse(text).value_or(Json());
  };

  std::vector<std::vector<float>> data(3, std::vector<float>(1000, 1.0f));
  job.run([&](int rank) {
    const auto handle =
        allreduce(job.engine(rank), "all", &data[static_cast<size_t>(rank)], ReduceOp::kSum, 3);
    if (handle.ok()) (void)job.engine(rank).wait(*handle, -1).ok();
  });
  const auto late = allreduce(job.engine(1), "late", &data[1], ReduceOp::kSum, 3);
  REQUIRE(late.ok());

  Json said;
  SECTION("while the program computes") { said = ask(1); }
  SECTION("while a thread waits in hvd_wait") {
    std::atomic<bool> over{false};
    std::thread waiter([&] {
      (void)job.engine(1).wait(*late, 20000).ok();
      over.store(true);
    });
    said = ask(1);
    CHECK_FALSE(over.load());
    job.run([&](int rank) {
      if (rank == 1) return;
      const auto handle =
          allreduce(job.engine(rank), "late", &data[static_cast<size_t>(rank)], ReduceOp::kSum, 3);
      if (handle.ok()) (void)job.engine(rank).wait(*handle, -1).ok();
    });
    waiter.join();
    CHECK(ask(1)["operations_in_flight"].number() == 0);
  }
  CHECK(said["state"].text() == "initialised");
  CHECK(said["layout"]["rank"].number() == 1);
  CHECK(said["layout"]["local_rank"].number() == 1);
  CHECK(said["layout"]["nodes"].dump() ==
        "[{\"host\": \"node0\", \"ranks\": [0, 1]}, {\"host\": \"node1\", \"ranks\": [2]}]");
  CHECK(said["bytes"].number() == 4000);
  CHECK(said["batches"].number() == 1);
  REQUIRE(said["operations"].items().size() == 1);
  const Json& operation = said["operations"].items()[0];
  CHECK(operation["name"].text() == "late");
  CHECK(operation["kind"].text() == "allreduce");
  CHECK(operation["type"].text() == "float32");
  CHECK(operation["shape"].dump() == "[1000]");
  CHECK(operation["state"].text() == "waiting");
  CHECK(operation["age_ms"].number() >= 0);

  job.kill(2);
  REQUIRE(hvd_test::eventually([&] { return ask(1)["state"].text() == "failed"; }));
  CHECK(ask(1)["reason"].text() == "rank 2 on node1 is gone (connection closed); 2 ranks stop");
  CHECK(ask(1)["operations"].items().empty());
}

// A rank that is alone never waits for another, so the thread that drives hardly ever sleeps.
TEST_CASE("hvd-info: an engine that is busy all the time is asked all the same") {
  ThreadJob::Options options;
  options.inspected = true;
  ThreadJob job({0}, options);
  std::atomic<bool> stop{false};
  std::atomic<bool> failed{false};
  std::thread rank([&] {
    std::vector<float> data(1000, 1.0f);
    while (!stop.load() && !failed.load()) {
      const auto handle = allreduce(job.engine(0), "x", &data, ReduceOp::kSum, 1);
      failed.store(!handle.ok() || !job.engine(0).wait(*handle, -1).ok());
    }
  });
  bool answered = true;
  for (int i = 0; i < 5 && answered; ++i) {
    const Fd client = connect_to(job.inspector_name(0));
    std::vector<Fd> received;
    answered = receive_fds(client.get(), 1, &received, soon()).ok();
  }
  stop.store(true);
  rank.join();
  CHECK(answered);
  CHECK_FALSE(failed.load());
}
