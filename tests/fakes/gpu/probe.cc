// SPDX-License-Identifier: Apache-2.0
//
// fake_gpu CASE [RANKS [NODES [SEEDS]]]: runs the case so many times, every time with another seed
// of the delays. The ranks are processes of their own; the exit status is the first that is not 0,
// or 128 and the signal's number.
#include "tests/fakes/gpu/probe.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdio>
#include <cstring>
#include <utility>

namespace fake_gpu {
namespace {

constexpr unsigned kSeconds = 60;  // for one rank
constexpr long kPatience = 1000;   // ms, after a rank has ended badly
constexpr int kMostIds = 4;

// Ids go from rank 0 to the others through memory they share.
struct Board {
  std::atomic<int> made;
  UniqueId ids[kMostIds];
};

void* open_library(const char* name) {
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  return library;
}

template <class Function>
void find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  expect(*function != nullptr, name);
}

Api open_libraries() {
  Api api;
  void* cuda = open_library("libcuda.so.1");
  void* nccl = open_library("libnccl.so.2");
#define FAKE_GPU_FIND(name, parameters) find(cuda, #name, &api.name);
  FAKE_GPU_CUDA(FAKE_GPU_FIND)
#undef FAKE_GPU_FIND
#define FAKE_GPU_FIND(name, parameters) find(nccl, #name, &api.name);
  FAKE_GPU_NCCL(FAKE_GPU_FIND)
#undef FAKE_GPU_FIND
  find(nccl, "ncclGetErrorString", &api.ncclGetErrorString);
  find(nccl, "ncclGetLastError", &api.ncclGetLastError);
  return api;
}

UniqueId shared_id(const Api& api, Board* board, int rank, int number) {
  if (rank == 0 && board->made <= number) {
    MUST(api.ncclGetUniqueId(&board->ids[number]));
    board->made = number + 1;
  }
  while (board->made <= number) usleep(200);
  return board->ids[number];
}

void run_rank(const Case& which, Board* board, int number, int ranks, int nodes, unsigned seed) {
  const int per_node = (ranks + nodes - 1) / nodes;
  const std::string node = std::to_string(number / per_node);
  setenv("FAKE_GPU_RANK", std::to_string(number).c_str(), 1);
  setenv("FAKE_GPU_NODE", ("node" + node).c_str(), 1);
  setenv("FAKE_GPU_COUNT", "8", 0);
  if (seed != 0) setenv("FAKE_GPU_SEED", std::to_string(seed).c_str(), 1);
  alarm(kSeconds);
  const Api api = open_libraries();
  Rank rank{api, number, ranks, number % per_node, seed, {}, {}};
  MUST(api.cuInit(0));
  Handle context = nullptr;
  MUST(api.cuDevicePrimaryCtxRetain(&context, rank.local_rank));
  MUST(api.cuCtxSetCurrent(context));
  rank.share = [&](int n) { return shared_id(api, board, number, n); };
  rank.id = rank.share(0);
  which.run(rank);
  MUST(api.cuDevicePrimaryCtxRelease_v2(rank.local_rank));
}

// The first status that is not 0. Ranks that wait for one that is gone get a while to say so.
int wait_for(std::vector<pid_t> processes) {
  int first = 0;
  long patience = LONG_MAX;
  while (!processes.empty()) {
    for (size_t i = processes.size(); i-- > 0;) {
      int status = 0;
      if (waitpid(processes[i], &status, WNOHANG) == 0) continue;
      processes.erase(processes.begin() + static_cast<long>(i));
      const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      if (first == 0) first = code;
    }
    if (first != 0) patience = std::min(patience, kPatience);
    if (patience-- == 0) {
      for (const pid_t process : processes) kill(process, SIGKILL);
    }
    usleep(1000);
  }
  return first;
}

int run_all(const Case& which, int ranks, int nodes, unsigned seed) {
  void* shared =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* board = static_cast<Board*>(shared);
  std::vector<pid_t> processes;
  for (int i = 0; i < ranks; ++i) {
    const pid_t process = fork();
    if (process == 0) {
      run_rank(which, board, i, ranks, nodes, seed);
      exit(0);
    }
    processes.push_back(process);
  }
  const int first = wait_for(std::move(processes));
  munmap(shared, sizeof(Board));
  return first;
}

const Case* find_case(const std::string& name) {
  for (const auto* cases : {&kValueCases, &kPackCases, &kRuleCases, &kFaultCases}) {
    const auto found = std::find_if(cases->begin(), cases->end(),
                                    [&](const Case& each) { return each.name == name; });
    if (found != cases->end()) return &*found;
  }
  return nullptr;
}

}  // namespace

void expect(int code, int wanted, const char* what) {
  if (code == wanted) return;
  fprintf(stderr, "%s: %d, not %d\n", what, code, wanted);
  _exit(1);
}

void expect(bool holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "not so: %s\n", what);
  _exit(1);
}

Buffer make_buffer(const Rank& rank, size_t bytes) {
  Buffer buffer;
  buffer.bytes = bytes;
  MUST(rank.api.cuMemAlloc_v2(&buffer.device, bytes));
  return buffer;
}

Handle make_stream(const Rank& rank) {
  Handle stream = nullptr;
  MUST(rank.api.cuStreamCreateWithPriority(&stream, kStreamNonBlocking, -5));
  return stream;
}

Handle make_event(const Rank& rank) {
  Handle event = nullptr;
  MUST(rank.api.cuEventCreate(&event, kEventDisableTiming));
  return event;
}

void fill(const Rank& rank, const Buffer& buffer, const std::vector<char>& bytes) {
  MUST(rank.api.cuMemcpyHtoD_v2(buffer.device, bytes.data(), bytes.size()));
}

std::vector<char> read(const Rank& rank, const Buffer& buffer) {
  std::vector<char> bytes(buffer.bytes);
  MUST(rank.api.cuMemcpyDtoH_v2(bytes.data(), buffer.device, buffer.bytes));
  return bytes;
}

CommHandle make_comm(const Rank& rank, bool blocking, const UniqueId& id) {
  Config config{sizeof config, kConfigMagic, 22809, blocking ? 1 : 0};
  CommHandle comm = nullptr;
  const int code = rank.api.ncclCommInitRankConfig(&comm, rank.ranks, id, rank.rank, &config);
  expect(code, blocking ? kNcclSuccess : kNcclInProgress, "ncclCommInitRankConfig");
  return comm;
}

int settle(const Rank& rank, CommHandle comm) {
  for (;;) {
    int error = kNcclSuccess;
    MUST(rank.api.ncclCommGetAsyncError(comm, &error));
    if (error != kNcclInProgress) return error;
    usleep(100);
  }
}

}  // namespace fake_gpu

int main(int argc, char** argv) {
  using namespace fake_gpu;
  const Case* which = argc < 2 ? nullptr : find_case(argv[1]);
  if (which == nullptr) {
    fprintf(stderr, "usage: fake_gpu CASE [RANKS [NODES [SEEDS]]]\n");
    return 2;
  }
  const auto number = [&](int at, int otherwise) { return argc > at ? atoi(argv[at]) : otherwise; };
  const int ranks = number(2, 1), nodes = number(3, 1), seeds = number(4, 0);
  for (int seed = seeds == 0 ? 0 : 1; seed <= seeds; ++seed) {
    if (const int code = run_all(*which, ranks, nodes, static_cast<unsigned>(seed))) return code;
  }
  return 0;
}
