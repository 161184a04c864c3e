// SPDX-License-Identifier: Apache-2.0
#include "libhvd/transport/gpu/pack.h"

#include <algorithm>

#include "config.h"

#ifdef HVD_HAVE_PACK_MODULE
extern "C" const unsigned char hvd_pack_module[];  // module.S
#endif

namespace hvd {
namespace {

constexpr uint32_t kChunkElements = 16384;
constexpr uint32_t kChunkBytes = 65536;
// Of a piece, so that it fits its counter; whole chunks.
constexpr size_t kMostCount = size_t{1} << 30;

// Same type: what happens to integers and bool, and to floating types that are scaled.
const char* kernel_of_type(DataType type) {
  switch (type) {
    case DataType::kUint8:
      return "hvd_pack_uint8_uint8";
    case DataType::kInt8:
      return "hvd_pack_int8_int8";
    case DataType::kUint16:
      return "hvd_pack_uint16_uint16";
    case DataType::kInt16:
      return "hvd_pack_int16_int16";
    case DataType::kInt32:
      return "hvd_pack_int32_int32";
    case DataType::kInt64:
      return "hvd_pack_int64_int64";
    default:
      return nullptr;
  }
}

// 0 to 3: the order of the rows and columns of kCasts.
size_t floating_index(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return 0;
    case DataType::kFloat32:
      return 1;
    case DataType::kFloat64:
      return 2;
    default:
      return 3;
  }
}

constexpr const char* kCasts[4][4] = {{"hvd_pack_float16_float16", "hvd_pack_float16_float32",
                                       "hvd_pack_float16_float64", "hvd_pack_float16_bfloat16"},
                                      {"hvd_pack_float32_float16", "hvd_pack_float32_float32",
                                       "hvd_pack_float32_float64", "hvd_pack_float32_bfloat16"},
                                      {"hvd_pack_float64_float16", "hvd_pack_float64_float32",
                                       "hvd_pack_float64_float64", "hvd_pack_float64_bfloat16"},
                                      {"hvd_pack_bfloat16_float16", "hvd_pack_bfloat16_float32",
                                       "hvd_pack_bfloat16_float64", "hvd_pack_bfloat16_bfloat16"}};

// bool knows no scale.
bool is_copy(const PackJob& job) {
  return job.from == job.to && (job.scale.identity() || job.from == DataType::kBool);
}

PackArguments empty_launch(const PackJob& job) {
  PackArguments launch = {};
  launch.chunk = is_copy(job) ? kChunkBytes : kChunkElements;
  launch.factor = job.scale.multiply / static_cast<double>(job.scale.divide);
  launch.multiply = job.scale.multiply;
  launch.divide = job.scale.divide;
  return launch;
}

void add_piece(PackArguments* launch, const void* from, void* to, size_t count) {
  launch->piece[launch->pieces++] = {from, to, static_cast<uint32_t>(count), launch->chunks};
  launch->chunks += static_cast<uint32_t>((count + launch->chunk - 1) / launch->chunk);
}

}  // namespace

const char* pack_kernel(const PackJob& job) {
  if (is_copy(job)) return "hvd_pack_copy";
  if (is_floating(job.from) && is_floating(job.to)) {
    return kCasts[floating_index(job.from)][floating_index(job.to)];
  }
  return job.from == job.to ? kernel_of_type(job.from) : nullptr;
}

std::vector<PackArguments> pack_launches(const PackJob& job, const std::vector<PackMove>& moves) {
  // A copy counts bytes.
  const size_t unit = is_copy(job) ? size_of(job.from) : 1;
  const size_t from_step = is_copy(job) ? 1 : size_of(job.from);
  const size_t to_step = is_copy(job) ? 1 : size_of(job.to);
  std::vector<PackArguments> launches;
  for (const PackMove& move : moves) {
    const size_t count = move.count * unit;
    for (size_t at = 0; at < count; at += kMostCount) {
      if (launches.empty() || launches.back().pieces == kMostPackPieces) {
        launches.push_back(empty_launch(job));
      }
      add_piece(&launches.back(), static_cast<const char*>(move.from) + at * from_step,
                static_cast<char*>(move.to) + at * to_step, std::min(count - at, kMostCount));
    }
  }
  return launches;
}

unsigned pack_blocks(const PackArguments& launch, unsigned most) {
  return std::max(1u, std::min(launch.chunks, most));
}

const void* pack_module() {
#ifdef HVD_HAVE_PACK_MODULE
  return hvd_pack_module;
#else
  return nullptr;
#endif
}

}  // namespace hvd
