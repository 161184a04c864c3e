// SPDX-License-Identifier: Apache-2.0
#include "libhvd/tools/info/gpu.h"

#include <string>
#include <vector>

namespace hvd::info {
namespace {

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json library(const std::string& version, const std::string& path, const Status& status) {
  return Json::object()
      .set("version", text_or_null(version))
      .set("path", text_or_null(path))
      .set("usable", status.ok())
      .set("reason", text_or_null(status.text()));
}

Json texts(const std::vector<std::string>& lines) {
  Json all = Json::array();
  for (const std::string& line : lines) all.add(line);
  return all;
}

}  // namespace

Json gpu_json(const CudaLibrary& cuda, const NcclLibrary& nccl) {
  Json both = Json::object();
  both.set("cuda", library(cuda_version_text(cuda.version), cuda.path, cuda.status));
  if (cuda.path.empty()) return both.set("nccl", Json());
  return both.set("nccl", library(nccl_version_text(nccl.version), nccl.path, nccl.status)
                              .set("enabled", texts(nccl.enabled()))
                              .set("remarks", texts(nccl.policy.remarks)));
}

}  // namespace hvd::info
