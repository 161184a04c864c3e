// SPDX-License-Identifier: Apache-2.0
//
// Bytes and descriptors over a non-blocking unix stream socket, all of them or an error by a
// deadline. For node_link only.
#pragma once

#include <cstddef>
#include <vector>

#include "libhvd/base/clock.h"
#include "libhvd/base/fd.h"
#include "libhvd/base/status.h"

namespace hvd {

// kPeerLost "it closed the connection", kTimeout "it did not take/send ... in time".
Status send_all(int socket, const void* data, size_t bytes, Deadline deadline);
Status receive_all(int socket, void* data, size_t bytes, Deadline deadline);

// Any number of descriptors, over as many messages as that takes.
Status send_fds(int socket, const std::vector<int>& fds, Deadline deadline);
Status receive_fds(int socket, size_t count, std::vector<Fd>* fds, Deadline deadline);

}  // namespace hvd
