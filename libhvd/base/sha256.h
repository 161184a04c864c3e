// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 (FIPS 180-4), HMAC-SHA-256 (RFC 2104) and random bytes: what the ranks of a job need to
// recognise each other, without a crypto library. Not a general toolbox, and not tuned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "libhvd/base/status.h"

namespace hvd {

constexpr size_t kDigestBytes = 32;
using Digest = std::array<unsigned char, kDigestBytes>;

// Hash of a message that comes in pieces. finish() may be called once.
class Sha256 {
 public:
  Sha256();
  void update(const void* data, size_t bytes);
  Digest finish();

 private:
  void take_block(const unsigned char* block);

  std::array<uint32_t, 8> state_;
  std::array<unsigned char, 64> block_;
  size_t filled_ = 0;    // bytes in block_
  uint64_t length_ = 0;  // bytes taken so far
};

Digest sha256(std::string_view message);
Digest hmac_sha256(std::string_view key, std::string_view message);

// The bytes of a digest, for comparing and sending.
inline std::string_view view(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// Whether two strings are equal, in a time that depends on their lengths only.
bool equal_in_constant_time(std::string_view a, std::string_view b);

// Bytes from the kernel that nobody can guess.
Expected<std::string> random_bytes(size_t bytes);

// Lower-case hexadecimal.
std::string to_hex(std::string_view bytes);

}  // namespace hvd
