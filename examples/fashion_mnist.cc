// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion_mnist.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace example {
namespace {

struct Close {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

uint32_t big_endian(const uint8_t* bytes) {
  return static_cast<uint32_t>(bytes[0]) << 24 | static_cast<uint32_t>(bytes[1]) << 16 |
         static_cast<uint32_t>(bytes[2]) << 8 | bytes[3];
}

// An IDX file of bytes: 0, 0, 8 (the type), number of dimensions, each dimension as 4 bytes, data.
std::string read_idx(const std::string& path, std::vector<uint32_t> expected, int& count,
                     std::vector<uint8_t>& data) {
  errno = 0;
  const std::unique_ptr<gzFile_s, Close> file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) {
    return path + ": " + (errno != 0 ? strerror(errno) : "no memory") +
           ". Debian has the data in the package dataset-fashion-mnist; --data names another place";
  }
  const std::string broken = path + " is not the file it should be. Install its package again";
  uint8_t header[16];
  const size_t dimensions = expected.size() + 1;
  const auto header_bytes = static_cast<unsigned>(4 + 4 * dimensions);
  if (gzread(file.get(), header, header_bytes) != static_cast<int>(header_bytes)) return broken;
  if (big_endian(header) != (8u << 8 | dimensions)) return broken;
  const uint32_t items = big_endian(header + 4);
  size_t item_bytes = 1;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (big_endian(header + 8 + 4 * i) != expected[i]) return broken;
    item_bytes *= expected[i];
  }
  if (items == 0 || items > 1000000) return broken;
  data.resize(items * item_bytes);
  const auto bytes = static_cast<unsigned>(data.size());
  if (gzread(file.get(), data.data(), bytes) != static_cast<int>(bytes)) return broken;
  count = static_cast<int>(items);
  return "";
}

}  // namespace

std::string load(const std::string& directory, const std::string& set, Pictures& pictures) {
  const std::string start = directory + "/" + set;
  std::string wrong =
      read_idx(start + "-images-idx3-ubyte.gz", {28, 28}, pictures.count, pictures.pixels);
  if (!wrong.empty()) return wrong;
  int labels = 0;
  wrong = read_idx(start + "-labels-idx1-ubyte.gz", {}, labels, pictures.labels);
  if (!wrong.empty()) return wrong;
  if (labels != pictures.count) return directory + " has not as many labels as pictures";
  for (const uint8_t label : pictures.labels) {
    if (label >= kClasses) return start + "-labels-idx1-ubyte.gz has a label above 9";
  }
  return "";
}

}  // namespace example
