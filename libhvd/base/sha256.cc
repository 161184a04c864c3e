// SPDX-License-Identifier: Apache-2.0
//
// Straight from the standards; messages are hundreds of bytes here, so clarity wins over speed.
#include "libhvd/base/sha256.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hvd {
namespace {

constexpr uint32_t kRoundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t rotate_right(uint32_t x, int n) { return x >> n | x << (32 - n); }

uint32_t load_big_endian(const unsigned char* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]};
}

void store_big_endian(uint64_t value, int bytes, unsigned char* p) {
  for (int i = bytes - 1; i >= 0; --i, value >>= 8) p[i] = static_cast<unsigned char>(value);
}

}  // namespace

Sha256::Sha256()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
      block_{} {}

void Sha256::take_block(const unsigned char* block) {
  uint32_t w[64];
  for (int t = 0; t < 16; ++t) w[t] = load_big_endian(block + 4 * t);
  for (int t = 16; t < 64; ++t) {
    const uint32_t x = w[t - 15], y = w[t - 2];
    const uint32_t s0 = rotate_right(x, 7) ^ rotate_right(x, 18) ^ x >> 3;
    const uint32_t s1 = rotate_right(y, 17) ^ rotate_right(y, 19) ^ y >> 10;
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int t = 0; t < 64; ++t) {
    const uint32_t s1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRoundConstants[t] + w[t];
    const uint32_t s0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1;
    d = c, c = b, b = a, a = t1 + t2;
  }
  const uint32_t worked[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state_[i] += worked[i];
}

void Sha256::update(const void* data, size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  length_ += bytes;
  if (filled_ > 0) {
    const size_t part = std::min(bytes, block_.size() - filled_);
    if (part > 0) memcpy(block_.data() + filled_, p, part);
    filled_ += part, p += part, bytes -= part;
    if (filled_ < block_.size()) return;
    take_block(block_.data());
    filled_ = 0;
  }
  for (; bytes >= block_.size(); p += block_.size(), bytes -= block_.size()) take_block(p);
  if (bytes > 0) memcpy(block_.data(), p, bytes);
  filled_ = bytes;
}

Digest Sha256::finish() {
  const uint64_t bits = length_ * 8;
  unsigned char padding[72] = {0x80};
  const size_t zeros = (filled_ < 56 ? 56 : 120) - filled_;
  store_big_endian(bits, 8, padding + zeros);
  update(padding, zeros + 8);
  Digest digest;
  for (size_t i = 0; i < state_.size(); ++i) store_big_endian(state_[i], 4, &digest[4 * i]);
  return digest;
}

Digest sha256(std::string_view message) {
  Sha256 hash;
  hash.update(message.data(), message.size());
  return hash.finish();
}

Digest hmac_sha256(std::string_view key, std::string_view message) {
  std::array<unsigned char, 64> pad{};
  if (key.size() > pad.size()) {
    const Digest hashed = sha256(key);
    memcpy(pad.data(), hashed.data(), hashed.size());
  } else if (!key.empty()) {
    memcpy(pad.data(), key.data(), key.size());
  }
  for (unsigned char& byte : pad) byte ^= 0x36;
  Sha256 inner;
  inner.update(pad.data(), pad.size());
  inner.update(message.data(), message.size());
  const Digest inner_digest = inner.finish();
  for (unsigned char& byte : pad) byte ^= 0x36 ^ 0x5c;
  Sha256 outer;
  outer.update(pad.data(), pad.size());
  outer.update(inner_digest.data(), inner_digest.size());
  return outer.finish();
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  // volatile: without it a compiler may see that the loop can stop at the first difference.
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  }
  return difference == 0;
}

Expected<std::string> random_bytes(size_t bytes) {
  std::string result(bytes, '\0');
  for (size_t have = 0; have < bytes;) {
    const ssize_t got = getrandom(&result[have], bytes - have, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error(errno, "asking the kernel for %zu random bytes", bytes);
    have += static_cast<size_t>(got);
  }
  return result;
}

std::string to_hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

}  // namespace hvd
