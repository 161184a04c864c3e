// SPDX-License-Identifier: Apache-2.0
//
// Each side's HMAC covers a word for the side, so that neither can be made to answer for the other.
#include "libhvd/transport/handshake.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "libhvd/base/status.h"

namespace hvd {
namespace {

constexpr std::string_view kMagic = "HVD1";
constexpr size_t kNonceBytes = 32;
constexpr size_t kHelloBytes = 4 + 4 + 4 + 4 + kNonceBytes;
constexpr size_t kChallengeBytes = 4 + kNonceBytes + kDigestBytes;

void put_u32(std::string* out, uint32_t value) {
  for (int i = 0; i < 4; ++i) *out += static_cast<char>(value >> 8 * i);
}

uint32_t get_u32(std::string_view in, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value |= uint32_t{static_cast<unsigned char>(in[at + i])} << 8 * i;
  }
  return value;
}

}  // namespace

Handshake::Handshake(bool accepts, std::string_view secret) : accepts_(accepts), secret_(secret) {}

Handshake Handshake::connecting(std::string_view secret, const Introduction& introduction) {
  Handshake h(false, secret);
  h.introduction_ = introduction;
  auto nonce = random_bytes(kNonceBytes);
  if (!nonce.ok()) {
    h.refuse(nonce.status().text());
    return h;
  }
  h.hello_ = kMagic;
  put_u32(&h.hello_, static_cast<uint32_t>(introduction.role));
  put_u32(&h.hello_, static_cast<uint32_t>(introduction.from));
  put_u32(&h.hello_, static_cast<uint32_t>(introduction.to));
  h.hello_ += *nonce;
  h.output_ = h.hello_;
  h.expected_ = kChallengeBytes;
  return h;
}

Handshake Handshake::accepting(std::string_view secret, int own) {
  Handshake h(true, secret);
  h.own_ = own;
  h.expected_ = kHelloBytes;
  return h;
}

void Handshake::refuse(std::string why) {
  state_ = State::kRefused;
  why_ = std::move(why);
  output_.clear();
}

Digest Handshake::proof(const char* side) const {
  return hmac_sha256(secret_, std::string(side) + hello_ + challenge_);
}

size_t Handshake::wanted() const {
  return state_ == State::kRunning ? expected_ - input_.size() : 0;
}

void Handshake::receive(std::string_view bytes) {
  if (state_ != State::kRunning) return;
  if (bytes.size() > wanted()) return refuse("more bytes than the handshake has");
  input_ += bytes;
  // The proof of the connecting side is the only message without the magic in front. Garbage is
  // refused by its first wrong byte, not when enough of it has come.
  const bool has_magic = !(accepts_ && step_ == 1);
  const size_t known = std::min(input_.size(), kMagic.size());
  if (has_magic && input_.compare(0, known, kMagic, 0, known) != 0) {
    return refuse("not a process of this version of horovod");
  }
  if (input_.size() == expected_) take_message();
}

void Handshake::take_message() {
  const std::string message = std::exchange(input_, std::string());
  ++step_;
  if (accepts_ && step_ == 1) {
    hello_ = message;
    introduction_ = {static_cast<Role>(get_u32(message, 4)), static_cast<int>(get_u32(message, 8)),
                     static_cast<int>(get_u32(message, 12))};
    if (introduction_.to != own_) return refuse("a connection for somebody else");
    auto nonce = random_bytes(kNonceBytes);
    if (!nonce.ok()) return refuse(nonce.status().text());
    challenge_ = *nonce;
    output_ += kMagic;
    output_ += challenge_;
    output_ += view(proof("accepting"));
    expected_ = kDigestBytes;
  } else if (accepts_) {
    if (!equal_in_constant_time(message, view(proof("connecting")))) {
      return refuse("not a process of this job (it does not know the job's secret)");
    }
    proved_ = true;
    state_ = State::kAsking;
  } else if (step_ == 1) {
    challenge_ = message.substr(4, kNonceBytes);
    if (!equal_in_constant_time(message.substr(4 + kNonceBytes), view(proof("accepting")))) {
      return refuse("not a process of this job (it does not know the job's secret)");
    }
    proved_ = true;
    state_ = State::kAsking;
  } else {
    state_ = State::kDone;
  }
}

void Handshake::proceed() {
  if (state_ != State::kAsking) return;
  if (accepts_) {
    output_ += kMagic;
    state_ = State::kDone;
  } else {
    output_ += view(proof("connecting"));
    expected_ = kMagic.size();
    state_ = State::kRunning;
  }
}

void Handshake::sent(size_t bytes) { output_.erase(0, bytes); }

short Handshake::poll_events() const {
  return static_cast<short>((wanted() > 0 ? POLLIN : 0) | (output_.empty() ? 0 : POLLOUT));
}

Handshake::State Handshake::drive(int fd) {
  while (state_ == State::kRunning || !output_.empty()) {
    if (!output_.empty()) {
      const ssize_t n = ::send(fd, output_.data(), output_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (n < 0) {
        refuse(errno_error(errno, "the connection broke").text());
        break;
      }
      sent(static_cast<size_t>(n));
      continue;
    }
    char buffer[kHelloBytes + kChallengeBytes];
    const ssize_t n = ::recv(fd, buffer, std::min(wanted(), sizeof buffer), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0) {
      refuse(errno_error(errno, "the connection broke").text());
    } else if (n == 0) {
      refuse("the other side closed the connection");
    } else {
      receive({buffer, static_cast<size_t>(n)});
    }
  }
  return state_;
}

}  // namespace hvd
