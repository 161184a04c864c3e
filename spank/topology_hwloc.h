// SPDX-License-Identifier: Apache-2.0
//
// This machine's tree of objects, from hwloc's library.
#pragma once

#include "spank/topology_tree.h"

namespace hvd {

// Opens the library at the first use and never closes it; no vendor's library is loaded, so that
// links between GPUs are known only where hwloc itself reads a file (HWLOC_XMLFILE). Also the CPUs
// that this process may not use. An error is a sentence; hwloc itself may say something on
// stderr unless HWLOC_HIDE_ERRORS=2.
Expected<Tree> tree_of_machine();

}  // namespace hvd
