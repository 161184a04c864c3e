// SPDX-License-Identifier: Apache-2.0
//
// The pack kernels through their twins on the host (tests/fakes/gpu/kernel_twins.h), and the
// launches they are given. Equal to the reference means bit by bit, with nothing written beside.
#include "libhvd/transport/gpu/pack.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <string>

#include "config.h"
#include "tests/fakes/gpu/kernel_twins.h"
#include "tests/unit/catch.h"
#include "tests/unit/kernels_reference.h"

namespace hvd {
namespace {

constexpr size_t kAlignments = 16;

std::vector<DataType> types() {
  std::vector<DataType> all;
  for (int i = 0; i < kTypeCount; ++i) all.push_back(static_cast<DataType>(i));
  return all;
}

KernelTwin twin_of(const char* name) {
  for (size_t i = 0; hvd_gpu_host_names[i] != nullptr; ++i) {
    if (strcmp(hvd_gpu_host_names[i], name) == 0) return hvd_gpu_host_twins[i];
  }
  return nullptr;
}

void launch(const PackJob& job, const std::vector<PackMove>& moves, unsigned blocks,
            unsigned threads) {
  const KernelTwin twin = twin_of(pack_kernel(job));
  for (PackArguments& arguments : pack_launches(job, moves)) {
    void* parameters[] = {&arguments};
    twin(pack_blocks(arguments, blocks), threads, parameters);
  }
}

// As pack.h says it, made of the reference's operations.
std::string wanted(const PackJob& job, const std::string& from) {
  if (job.from == job.to) {
    return job.scale.identity() ? from : reference::scale(job.from, from, job.scale);
  }
  const bool wide = job.from == DataType::kFloat64 || job.to == DataType::kFloat64;
  const DataType step = wide ? DataType::kFloat64 : DataType::kFloat32;
  std::string values = job.from == step ? from : reference::convert(step, job.from, from);
  if (!job.scale.identity()) values = reference::scale(step, values, job.scale);
  return job.to == step ? values : reference::convert(job.to, step, values);
}

std::string text_of(const PackJob& job) {
  return std::string(name_of(job.from)) + " to " + name_of(job.to) + " times " +
         std::to_string(job.scale.multiply) + " by " + std::to_string(job.scale.divide);
}

// Every pair of types that has a kernel, with every kind of scale.
std::vector<PackJob> jobs() {
  std::vector<PackJob> all;
  for (const DataType from : types()) {
    for (const DataType to : types()) {
      for (const Scale scale : {Scale{}, Scale{0.3, 7}, Scale{1, 3}}) {
        const PackJob job = {from, to, scale};
        if (pack_kernel(job) != nullptr) all.push_back(job);
      }
    }
  }
  return all;
}

// Memory in which elements stand at any address modulo 16, between bytes that must stay.
class Room {
 public:
  Room(size_t bytes, size_t offset) : memory_(bytes + 3 * kAlignments, '#'), bytes_(bytes) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    at_ = kAlignments + (kAlignments - address % kAlignments) % kAlignments + offset;
  }
  Room(const std::string& content, size_t offset) : Room(content.size(), offset) {
    memory_.replace(at_, bytes_, content);
  }
  char* data() { return memory_.data() + at_; }
  std::string content() const { return memory_.substr(at_, bytes_); }
  bool untouched_beside() const {
    return memory_.find_first_not_of('#') >= at_ &&
           memory_.find_first_not_of('#', at_ + bytes_) == std::string::npos;
  }

 private:
  std::string memory_;
  size_t bytes_;
  size_t at_ = 0;
};

// "" if n elements at such offsets come out as they should.
std::string moved_wrong(const PackJob& job, const std::string& elements, size_t n,
                        size_t from_offset, size_t to_offset, unsigned blocks, unsigned threads) {
  const std::string source = elements.substr(0, n * size_of(job.from));
  Room from(source, from_offset);
  Room to(n * size_of(job.to), to_offset);
  launch(job, {{from.data(), to.data(), n}}, blocks, threads);
  std::string where = text_of(job) + ", " + std::to_string(n) + " elements from " +
                      std::to_string(from_offset) + " to " + std::to_string(to_offset);
  if (to.content() != wanted(job, source)) return where + ": other bits";
  if (from.content() != source) return where + ": the source has changed";
  return to.untouched_beside() ? "" : where + ": wrote beside it";
}

}  // namespace

TEST_CASE("pack: every pair of types that can be packed has its kernel, and every kernel is used") {
  std::set<std::string> used;
  for (const PackJob& job : jobs()) {
    CAPTURE(text_of(job));
    CHECK(twin_of(pack_kernel(job)) != nullptr);
    CHECK((job.from == job.to || (is_floating(job.from) && is_floating(job.to))));
    used.insert(pack_kernel(job));
  }
  std::set<std::string> all;
  for (size_t i = 0; hvd_gpu_host_names[i] != nullptr; ++i) all.insert(hvd_gpu_host_names[i]);
  CHECK(used == all);
  for (const DataType type : types()) {
    CAPTURE(name_of(type));
    CHECK(pack_kernel({type, type, {}}) == std::string("hvd_pack_copy"));
    CHECK(pack_kernel({type, type, {0.5, 1}}) != nullptr);
    CHECK((pack_kernel({type, DataType::kInt32, {}}) != nullptr) == (type == DataType::kInt32));
  }
}

TEST_CASE("pack: every type, scale and alignment gives the reference's bits and nothing beside") {
  std::mt19937_64 random(7);
  // A vector less or more, a block's vectors, four of them, and a second chunk.
  const size_t sizes[] = {1, 2, 3, 7, 8, 15, 17, 33, 100, 513, 1027};
  for (const PackJob& job : jobs()) {
    const std::string elements = reference::random_elements(job.from, 1027, &random);
    for (size_t from = 0; from < kAlignments; ++from) {
      for (const size_t to : {from, (from + 8) % kAlignments, random() % kAlignments}) {
        const size_t n = sizes[random() % std::size(sizes)];
        const std::string wrong = moved_wrong(job, elements, n, from, to, 3, 32);
        if (!wrong.empty()) FAIL_CHECK(wrong);
      }
    }
    const std::string wrong = moved_wrong(job, "", 0, 0, 0, 3, 32);
    if (!wrong.empty()) FAIL_CHECK(wrong);
  }
}

TEST_CASE("pack: pieces of several chunks are shared out among any number of blocks") {
  std::mt19937_64 random(8);
  const DataType kFloat32 = DataType::kFloat32;
  const size_t n = 70001;
  for (const PackJob& job :
       {PackJob{kFloat32, DataType::kBfloat16, {0.5, 1}}, PackJob{kFloat32, kFloat32, {}}}) {
    const std::string elements = reference::random_elements(job.from, n, &random);
    for (const unsigned blocks : {1u, 2u, 3u, 5u, 1000u}) {
      const std::string wrong = moved_wrong(job, elements, n, 4, 4, blocks, kPackThreads);
      if (!wrong.empty()) FAIL_CHECK(wrong);
    }
  }
}

TEST_CASE("pack: all alignments and sizes up to a million elements, for every type", "[.][long]") {
  std::mt19937_64 random(9);
  const size_t most = 1000000;
  for (const PackJob& job : jobs()) {
    const std::string elements = reference::random_elements(job.from, most, &random);
    for (size_t from = 0; from < kAlignments; ++from) {
      for (size_t to = 0; to < kAlignments; ++to) {
        const size_t n = size_t{1} << (random() % 12);
        const std::string wrong =
            moved_wrong(job, elements, random() % (n + 1), from, to, 3, kPackThreads);
        if (!wrong.empty()) FAIL_CHECK(wrong);
      }
    }
    for (size_t n = 0; n < 600; ++n) {
      const size_t from = random() % kAlignments;
      const std::string wrong = moved_wrong(job, elements, n, from, from, 2, 32);
      if (!wrong.empty()) FAIL_CHECK(wrong);
    }
    for (const size_t n : {size_t{16384}, size_t{16385}, size_t{131071}, most}) {
      for (const size_t from : {size_t{0}, size_t{8}}) {
        const std::string wrong = moved_wrong(job, elements, n, from, 0, 64, kPackThreads);
        if (!wrong.empty()) FAIL_CHECK(wrong);
      }
    }
  }
}

TEST_CASE("pack: halves are converted as the CPU's kernels convert them, every one") {
  std::string bits(2 * 65536, '\0');
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto half = static_cast<uint16_t>(i);
    memcpy(&bits[2 * i], &half, 2);
  }
  std::mt19937_64 random(10);
  const std::string floats = reference::random_elements(DataType::kFloat32, 65536, &random);
  for (const DataType narrow : {DataType::kFloat16, DataType::kBfloat16}) {
    for (const DataType wide : {DataType::kFloat32, DataType::kFloat64}) {
      const PackJob widening = {narrow, wide, {}};
      std::string got(65536 * size_of(wide), '\0');
      std::string want = got;
      launch(widening, {{bits.data(), got.data(), 65536}}, 8, kPackThreads);
      kernels().convert(wide, want.data(), narrow, bits.data(), 65536);
      CHECK(got == want);
    }
    std::string got = bits;
    std::string want = bits;
    launch({DataType::kFloat32, narrow, {}}, {{floats.data(), got.data(), 65536}}, 8, kPackThreads);
    kernels().convert(narrow, want.data(), DataType::kFloat32, floats.data(), 65536);
    CHECK(got == want);
    launch({narrow, narrow, {0.3, 1}}, {{bits.data(), got.data(), 65536}}, 8, kPackThreads);
    kernels().scale(narrow, want.data(), bits.data(), 65536, {0.3, 1});
    CHECK(got == want);
  }
}

TEST_CASE("pack: in place") {
  std::mt19937_64 random(11);
  for (const PackJob& job : jobs()) {
    if (size_of(job.from) != size_of(job.to)) continue;
    const std::string elements = reference::random_elements(job.from, 999, &random);
    Room room(elements, 3);
    launch(job, {{room.data(), room.data(), 999}}, 4, 32);
    CAPTURE(text_of(job));
    CHECK((room.content() == wanted(job, elements) && room.untouched_beside()));
  }
}

TEST_CASE("pack: one launch takes 160 pieces, and any number of pieces arrives") {
  std::mt19937_64 random(12);
  const PackJob job = {DataType::kFloat32, DataType::kBfloat16, {0.25, 1}};
  for (size_t pieces = 1; pieces <= 200; ++pieces) {
    std::vector<std::string> tensors;
    std::string want;
    for (size_t i = 0; i < pieces; ++i) {
      const size_t n = i % 17 == 5 ? 0 : 1 + random() % 40;
      tensors.push_back(reference::random_elements(job.from, n, &random));
      want += wanted(job, tensors.back());
    }
    Room buffer(want.size(), 2);
    std::vector<PackMove> moves;
    size_t at = 0;
    size_t filled = 0;
    for (const std::string& tensor : tensors) {
      moves.push_back({tensor.data(), buffer.data() + at, tensor.size() / 4});
      at += tensor.size() / 2;
      filled += tensor.empty() ? 0 : 1;
    }
    const auto launches = pack_launches(job, moves);
    REQUIRE(launches.size() == (filled + kMostPackPieces - 1) / kMostPackPieces);
    for (const PackArguments& one : launches) REQUIRE(one.pieces <= kMostPackPieces);
    launch(job, moves, 7, 32);
    CAPTURE(pieces);
    REQUIRE(buffer.content() == want);
    REQUIRE(buffer.untouched_beside());
  }
}

TEST_CASE("pack: what is too large for a piece's counter becomes several pieces") {
  char* from = reinterpret_cast<char*>(uintptr_t{1} << 40);
  char* to = reinterpret_cast<char*>(uintptr_t{1} << 45);
  const size_t most = size_t{1} << 30;
  const size_t count = 5 * most + 3;
  const auto cast =
      pack_launches({DataType::kFloat32, DataType::kBfloat16, {}}, {{from, to, count}});
  REQUIRE(cast.size() == 1);
  REQUIRE(cast[0].pieces == 6);
  CHECK(cast[0].piece[5].from == from + 5 * most * 4);
  CHECK(cast[0].piece[5].to == to + 5 * most * 2);
  CHECK(cast[0].piece[5].count == 3);
  CHECK(cast[0].piece[5].first_chunk == 5 * most / cast[0].chunk);
  CHECK(cast[0].chunks == 5 * most / cast[0].chunk + 1);
  const auto copy =
      pack_launches({DataType::kFloat32, DataType::kFloat32, {}}, {{from, to, count}});
  REQUIRE(copy.size() == 1);
  REQUIRE(copy[0].pieces == 21);
  CHECK(copy[0].piece[20].from == from + 20 * most);
  CHECK(copy[0].piece[20].count == 12);
  CHECK(pack_launches({DataType::kFloat32, DataType::kFloat32, {}}, {}).empty());
  CHECK(pack_blocks(copy[0], 64) == 64);
  CHECK(pack_blocks(pack_launches({DataType::kInt8, DataType::kInt8, {}}, {{from, to, 1}})[0],
                    64) == 1);
}

TEST_CASE("pack: where nvcc is, the module is in the library") {
#ifdef HVD_HAVE_PACK_MODULE
  const unsigned char fatbin[] = {0x50, 0xed, 0x55, 0xba};
  REQUIRE(pack_module() != nullptr);
  CHECK(memcmp(pack_module(), fatbin, sizeof fatbin) == 0);
  CHECK(reinterpret_cast<uintptr_t>(pack_module()) % 16 == 0);
#else
  CHECK(pack_module() == nullptr);
#endif
}

}  // namespace hvd
