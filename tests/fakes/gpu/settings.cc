// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/gpu/settings.h"

#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <mutex>

#include "tests/fakes/gpu/cuda_abi.h"

namespace fake_gpu {
namespace {

std::string text_of(const char* name, const std::string& fallback) {
  const char* value = getenv(name);
  return value != nullptr && *value != '\0' ? value : fallback;
}

// A test that asks for what it does not get would pass for the wrong reason.
[[noreturn]] void refuse(const char* name, const std::string& value, const char* wanted) {
  violation("settings", "%s is \"%s\", not %s", name, value.c_str(), wanted);
}

long number_of(const char* name, long fallback) {
  const std::string value = text_of(name, "");
  if (value.empty()) return fallback;
  char* end = nullptr;
  const long number = strtol(value.c_str(), &end, 10);
  if (*end != '\0') refuse(name, value, "a number");
  return number;
}

// The launcher's rank: Slurm's variable is there under mpirun in a job, too, so it comes last.
int rank_of_process() {
  for (const char* name : {"FAKE_GPU_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}) {
    if (getenv(name) != nullptr) return static_cast<int>(number_of(name, -1));
  }
  return -1;
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

Settings read_settings() {
  Settings s;
  s.rank = rank_of_process();
  s.gpus = static_cast<int>(number_of("FAKE_GPU_COUNT", 2));
  s.node = text_of("FAKE_GPU_NODE", text_of("HOROVOD_HOSTNAME", host_name()));
  s.seed = static_cast<std::uint64_t>(number_of("FAKE_GPU_SEED", 1));
  s.delay_us = number_of("FAKE_GPU_DELAY_US", 100);
  s.deadline_ms = number_of("FAKE_GPU_DEADLINE_MS", 60000);
  s.driver_version = static_cast<int>(number_of("FAKE_GPU_DRIVER_VERSION", 13000));
  s.nccl_version = static_cast<int>(number_of("FAKE_GPU_NCCL_VERSION", 22809));
  s.launch_order = number_of("FAKE_GPU_LAUNCH_ORDER", 1) != 0;
  s.detects_death = number_of("FAKE_GPU_DETECTS_DEATH", 0) != 0;
  s.exit_check = number_of("FAKE_GPU_EXIT_CHECK", 1) != 0;
  s.leak_check = number_of("FAKE_GPU_LEAK_CHECK", 0) != 0;
  s.kernels = text_of("FAKE_GPU_KERNELS", "");
  s.directory = text_of("FAKE_GPU_DIR", "/tmp") + "/fake-gpu-" + std::to_string(getuid());
  s.memory_bytes = static_cast<size_t>(number_of("FAKE_GPU_MEMORY_MB", 4096)) << 20;
  return s;
}

std::optional<long> whole_number(const std::string& text) {
  char* end = nullptr;
  const long number = strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0') return std::nullopt;
  return number;
}

std::optional<Fault> parse_fault(std::string text) {
  Fault fault;
  const auto take_after = [&](char mark, long* number) {
    const size_t at = text.find(mark);
    if (at == std::string::npos) return true;
    const auto value = whole_number(text.substr(at + 1));
    text.resize(at);
    if (value) *number = *value;
    return value.has_value();
  };
  if (!take_after('=', &fault.value) || !take_after('@', &fault.at)) return std::nullopt;
  if (const size_t colon = text.find(':'); colon != std::string::npos) {
    const auto rank = whole_number(text.substr(0, colon));
    if (!rank) return std::nullopt;
    fault.rank = static_cast<int>(*rank);
    text.erase(0, colon + 1);
  }
  fault.point = text;
  return text.empty() || fault.at < 1 ? std::nullopt : std::optional(fault);
}

// Where a fault can be planted besides in the entry points of the driver.
constexpr const char* kPoints[] = {"copy",       "kernel",    "nccl-id",      "nccl-init",
                                   "nccl-split", "nccl-sync", "nccl-async",   "nccl-silent",
                                   "nccl-kill",  "nccl-slow", "ncclMemAlloc", "nccl-init-silent"};

bool is_point(const std::string& name) {
  for (const char* point : kPoints) {
    if (name == point) return true;
  }
#define FAKE_GPU_SAME(entry, parameters) \
  if (name == #entry || name + "_v2" == #entry) return true;
  FAKE_GPU_CUDA(FAKE_GPU_SAME)
#undef FAKE_GPU_SAME
  return false;
}

struct Faults {
  std::mutex mutex;
  std::vector<Fault> planted;
  std::map<std::string, long> times;
};

Faults& faults() {
  static auto* faults = [] {
    auto* made = new Faults;
    const std::string text = text_of("FAKE_GPU_FAULT", "");
    const auto parsed = parse_faults(text);
    if (!parsed) refuse("FAKE_GPU_FAULT", text, "\"[RANK:]POINT[@N][=VALUE],...\"");
    made->planted = *parsed;
    for (const Fault& fault : made->planted) {
      if (!is_point(fault.point)) refuse("FAKE_GPU_FAULT", fault.point, "a place for a fault");
    }
    return made;
  }();
  return *faults;
}

}  // namespace

const Settings& settings() {
  static const auto* read = new Settings(read_settings());
  return *read;
}

std::optional<std::vector<Fault>> parse_faults(const std::string& text) {
  std::vector<Fault> faults;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find(',', begin);
    if (end == std::string::npos) end = text.size();
    const auto fault = parse_fault(text.substr(begin, end - begin));
    if (!fault) return std::nullopt;
    faults.push_back(*fault);
    begin = end + 1;
  }
  return faults;
}

std::optional<long> fault(const char* point) {
  Faults& all = faults();
  if (all.planted.empty()) return std::nullopt;
  const std::lock_guard lock(all.mutex);
  const long time = ++all.times[point];
  for (const Fault& planted : all.planted) {
    if (planted.rank && *planted.rank != settings().rank) continue;
    if (planted.point == point && planted.at == time) return planted.value;
  }
  return std::nullopt;
}

void violation(const char* rule, const char* format, ...) {
  static std::atomic_flag said = ATOMIC_FLAG_INIT;
  while (said.test_and_set()) pause();  // another thread ends the process: one sentence is enough
  char what[700], line[800];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  const int rank = rank_of_process();
  const int bytes =
      rank < 0 ? snprintf(line, sizeof line, "fake gpu: %s: %s\n", rule, what)
               : snprintf(line, sizeof line, "fake gpu: rank %d: %s: %s\n", rank, rule, what);
  if (write(STDERR_FILENO, line, static_cast<size_t>(bytes)) < 0) _exit(134);
  abort();
}

long now_ms() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

}  // namespace fake_gpu
