// SPDX-License-Identifier: Apache-2.0
//
// read_topology: from this machine, a file, or text.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "libhvd/base/fd.h"
#include "spank/topology_hwloc.h"

namespace hvd {
namespace {

Expected<std::string> read_file(const std::string& path) {
  // Not blocking: a FIFO would hold us.
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat st;
  if (!file.valid() || fstat(file.get(), &st) != 0) return errno_error(errno, "%s", path.c_str());
  if (!S_ISREG(st.st_mode) || st.st_size > static_cast<off_t>(kMostXmlBytes)) {
    return error(Code::kInvalid, "%s: not a file of at most 32 MB, as lstopo FILE.xml writes",
                 path.c_str());
  }
  std::string text(static_cast<size_t>(st.st_size), '\0');
  size_t at = 0;
  while (at < text.size()) {
    const ssize_t n = read(file.get(), text.data() + at, text.size() - at);
    if (n < 0) return errno_error(errno, "%s", path.c_str());
    if (n == 0) break;
    at += static_cast<size_t>(n);
  }
  text.resize(at);
  return text;
}

Expected<Topology> read_xml(const std::string& xml, const std::string& name) {
  const auto tree = parse_tree(xml);
  if (tree.ok()) return topology_of(*tree);
  return Status(tree.status().code(),
                "the topology " + name + tree.status().text() +
                    ". \"lstopo FILE.xml\" of hwloc 2 on the node writes one");
}

}  // namespace

Expected<Topology> read_topology(const TopologySource& source) {
  switch (source.kind) {
    case TopologySource::Kind::kMachine: {
      const auto tree = tree_of_machine();
      if (!tree.ok()) return tree.status();
      Topology topology = topology_of(*tree);
      if (topology.cores.empty()) return error(Code::kSystem, "hwloc finds no CPU");
      return topology;
    }
    case TopologySource::Kind::kXml:
      return read_xml(source.text, "");
    case TopologySource::Kind::kFile:
      break;
  }
  const auto xml = read_file(source.text);
  if (!xml.ok()) return xml.status().annotate("reading a topology");
  return read_xml(*xml, source.text + " ");
}

}  // namespace hvd
