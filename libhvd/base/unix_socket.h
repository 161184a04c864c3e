// SPDX-License-Identifier: Apache-2.0
//
// Unix stream sockets under abstract names (no file), and bytes and descriptors over them: all of
// them or an error by a deadline. All sockets here are non-blocking and close-on-exec. What is said
// on them, and who may say it, is the callers' business.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <cstddef>
#include <string>
#include <vector>

#include "libhvd/base/clock.h"
#include "libhvd/base/fd.h"
#include "libhvd/base/status.h"

namespace hvd {

// A name has no leading zero byte here; people see it with an @ in its place.
socklen_t abstract_address(const std::string& name, sockaddr_un* address);

// Of the socket on which a rank answers hvd-info, which finds it by that.
constexpr const char* kInfoSocketPrefix = "horovod-info-";

struct NamedListener {
  Fd fd;
  std::string name;
};

// Listens under `prefix` and 32 random hexadecimal digits. kSystem if the system refuses.
Expected<NamedListener> listen_at_random_name(const char* prefix, int backlog);

// Who made the other end, as it was then; false if the system does not say.
bool peer_credentials(int fd, ucred* peer);

// kPeerLost "it closed the connection", kTimeout "it did not take/send ... in time".
Status send_all(int socket, const void* data, size_t bytes, Deadline deadline);
Status receive_all(int socket, void* data, size_t bytes, Deadline deadline);

// Any number of descriptors, over as many messages as that takes.
Status send_fds(int socket, const std::vector<int>& fds, Deadline deadline);
Status receive_fds(int socket, size_t count, std::vector<Fd>* fds, Deadline deadline);

}  // namespace hvd
