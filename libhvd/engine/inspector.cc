// SPDX-License-Identifier: Apache-2.0
//
// See inspector.h.
#include "libhvd/engine/inspector.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace hvd {
namespace {

constexpr int kBacklog = 64;
// Anybody on the node can connect, in a loop too: what that can cost is bounded by these.
constexpr int kMostATurn = 8;
constexpr int64_t kRestNs = 10 * 1000000LL;

bool may_ask(int client) {
  ucred peer;
  return peer_credentials(client, &peer) && (peer.uid == geteuid() || peer.uid == 0);
}

// Who gets it can read it and nothing else. Empty if there is no memory for it.
Fd sealed(std::string_view text) {
  Fd memory(memfd_create("horovod-info", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  while (memory.valid() && !text.empty()) {
    const ssize_t n = write(memory.get(), text.data(), text.size());
    if (n <= 0) return Fd();
    text.remove_prefix(static_cast<size_t>(n));
  }
  if (memory.valid()) {
    fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
  }
  return memory;
}

}  // namespace

Expected<std::unique_ptr<Inspector>> Inspector::open() {
  Expected<NamedListener> listener = listen_at_random_name(kInfoSocketPrefix, kBacklog);
  if (!listener.ok()) return listener.status().annotate("making the place where hvd-info asks");
  return std::unique_ptr<Inspector>(new Inspector(std::move(*listener)));
}

int64_t Inspector::add_poll_fd(std::vector<pollfd>* fds, int64_t now_ns) const {
  if (now_ns < rests_until_ns_) return rests_until_ns_;
  fds->push_back({listener_.fd.get(), POLLIN, 0});
  return INT64_MAX;
}

void Inspector::serve(int64_t now_ns, const std::function<std::string()>& describe) {
  if (now_ns < rests_until_ns_) return;
  Fd text;
  for (int turn = 0; turn < kMostATurn; ++turn) {
    Fd client(accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client.valid() && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    // What else accept4 refuses (no more descriptors) it refuses again at once: rest.
    if (!client.valid()) break;
    rests_until_ns_ = now_ns + kRestNs;
    if (!may_ask(client.get())) continue;
    if (!text.valid()) text = sealed(describe());
    if (!text.valid()) continue;
    // Its buffer is empty, so this does not wait; who has gone meanwhile gets nothing.
    (void)send_fds(client.get(), {text.get()}, Deadline::after_ms(0)).ok();
  }
  rests_until_ns_ = now_ns + kRestNs;
}

}  // namespace hvd
