// SPDX-License-Identifier: Apache-2.0
//
// See rank_claim.h. Who holds a name is asked by connecting to it; nobody ever accepts.
#include "pmix/rank_claim.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "libhvd/base/sha256.h"
#include "libhvd/base/unix_socket.h"
#include "pmix/launch.h"

namespace hvd {
namespace {

constexpr int kBacklog = 64;  // that many second processes are told the first one's id
constexpr int kUnknown = 0;

Fd new_socket() { return Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

}  // namespace

std::string rank_identity(const Getenv& get) {
  std::string text;
  // The server's address tells jobs of two clusters apart that have the same number.
  for (const char* variable :
       {"PMIX_NAMESPACE", "PMIX_RANK", "PMIX_SERVER_URI2", "PMIX_SERVER_TMPDIR"}) {
    const char* value = get(variable);
    text += std::string(value == nullptr ? "" : value) + '\n';
  }
  const Digest digest = sha256(text);
  const auto* bytes = reinterpret_cast<const char*>(digest.data());
  return "horovod-rank-" + to_hex({bytes, 16});
}

Expected<Fd> claim_rank(const std::string& identity) {
  sockaddr_un address;
  const socklen_t length = abstract_address(identity, &address);
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  Fd own = new_socket();
  if (!own.valid()) return Fd();
  if (bind(own.get(), name, length) == 0) {
    return listen(own.get(), kBacklog) == 0 ? std::move(own) : Fd();
  }
  if (errno != EADDRINUSE) return Fd();
  const Fd asking = new_socket();
  ucred holder{};
  if (connect(asking.get(), name, length) != 0) {
    // Who has asked stays in the queue: it is full after so many.
    return errno == EAGAIN ? Expected<Fd>(second_process(kUnknown)) : Expected<Fd>(Fd());
  }
  if (!peer_credentials(asking.get(), &holder) || holder.uid != geteuid()) return Fd();
  return second_process(static_cast<int>(holder.pid));
}

}  // namespace hvd
