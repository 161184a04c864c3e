// SPDX-License-Identifier: Apache-2.0
//
// hvd-info: what a program started here would find (it joins no job), what a running rank does, or
// what binding would do on a node.
// Exit status: 0, 1 if something is wrong or the rank could not be asked, 2 for a wrong argument.
#include <stdlib.h>

#include <cstdio>
#include <string>

#include "config.h"
#include "libhvd/base/handoff.h"
#include "libhvd/base/json.h"
#include "libhvd/hvd.h"
#include "libhvd/tools/info/ask.h"
#include "libhvd/tools/info/bind.h"
#include "libhvd/tools/info/gpu.h"
#include "libhvd/tools/info/libraries.h"
#include "libhvd/tools/info/options.h"
#include "libhvd/tools/info/python.h"
#include "libhvd/tools/info/surroundings.h"
#include "libhvd/tools/info/text.h"

extern char** environ;

namespace hvd::info {
namespace {

constexpr int kWrongArgument = 2;
constexpr int64_t kAnswerMs = 5000;

int complain(const Status& status, int exit_status = 1) {
  fprintf(stderr, "hvd-info: %s\n", printable(status.text()).c_str());
  return exit_status;
}

int say(const std::string& text) {
  if (fputs(text.c_str(), stdout) >= 0 && fflush(stdout) == 0) return 0;
  return complain(Status(Code::kSystem, "the output could not be written"));
}

Json built() {
  return Json::object()
      .set("Slurm", HVD_BUILD_SLURM)
      .set("PMIx", HVD_BUILD_PMIX)
      .set("MPI", HVD_BUILD_MPI)
      .set("hwloc", HVD_BUILD_HWLOC)
      .set("CUDA", HVD_BUILD_CUDA)
      .set("sanitizer", HVD_BUILD_SANITIZER);
}

int show_place(const Options& options) {
  const Getenv get = [](const char* name) { return static_cast<const char*>(getenv(name)); };
  const Surroundings here = look_around(get, environ, host_name(get));
  const int exit_status = here.facts["errors"].items().empty() ? 0 : 1;
  if (here.task != 0 && !options.all_ranks) return exit_status;
  Json facts = Json::object().set("version", hvd_version());
  for (const auto& [key, value] : here.facts.members()) facts.set(key, value);
  const CudaLibrary cuda = open_cuda(cuda_search());
  const NcclLibrary nccl = open_nccl(nccl_search(here.nccl_lib));
  const Json libraries = libraries_here(cuda, nccl);
  facts.set("libraries", libraries);
  facts.set("gpu", gpu_json(cuda, nccl));
  facts.set("python", python_here(libraries, Deadline::after_ms(kAnswerMs)));
  facts.set("built", built());
  const int said = say(options.json ? facts.dump() + "\n" : text_of_place(facts));
  return said != 0 ? said : exit_status;
}

int show_rank(const Options& options) {
  const auto facts = ask_rank(*options.pid, Deadline::after_ms(kAnswerMs));
  if (!facts.ok()) return complain(facts.status());
  return say(options.json ? facts->dump() + "\n" : text_of_rank(*facts));
}

int show_binding(const std::vector<std::string_view>& arguments) {
  const auto options = parse_bind_options(arguments);
  if (!options.ok()) return complain(options.status().annotate("bind"), kWrongArgument);
  if (options->help) return say(bind_usage());
  const Getenv get = [](const char* name) { return static_cast<const char*>(getenv(name)); };
  const auto report = preview(*options, name_of_node(options->topology, host_name(get)));
  if (!report.ok()) return complain(report.status());
  return say(options->json ? report->dump() + "\n" : text_of_preview(*report));
}

}  // namespace
}  // namespace hvd::info

int main(int argc, char** argv) {
  using namespace hvd::info;
  if (argc > 1 && std::string_view(argv[1]) == "bind") {
    return show_binding({argv + 2, argv + argc});
  }
  const auto options = parse_options({argv + 1, argv + argc});
  if (!options.ok()) return complain(options.status(), kWrongArgument);
  switch (options->action) {
    case Options::Action::kHelp:
      return say(usage());
    case Options::Action::kVersion:
      return say(std::string(hvd_version()) + "\n");
    case Options::Action::kShow:
      break;
  }
  return options->pid ? show_rank(*options) : show_place(*options);
}
