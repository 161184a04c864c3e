// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 against the examples of FIPS 180-4, HMAC against RFC 4231.
#include "libhvd/base/sha256.h"

#include <algorithm>
#include <string>

#include "tests/unit/catch.h"

using hvd::equal_in_constant_time;
using hvd::hmac_sha256;
using hvd::sha256;
using hvd::to_hex;
using hvd::view;

TEST_CASE("sha256 gives the digests of the standard's examples") {
  const struct {
    std::string message;
    const char* digest;
  } cases[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopq"
       "klmnopqrlmnopqrsmnopqrstnopqrstu",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
      {std::string(1000000, 'a'),
       "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
  };
  for (const auto& c : cases) {
    INFO(c.message.size() << " bytes");
    CHECK(to_hex(view(sha256(c.message))) == c.digest);
  }
}

TEST_CASE("a message in pieces has the digest of the whole, at every length around a block") {
  std::string message;
  for (int i = 0; i < 200; ++i) message += static_cast<char>(i * 7);
  for (size_t length = 0; length <= message.size(); ++length) {
    const std::string whole = message.substr(0, length);
    for (size_t piece : {1, 3, 63, 64, 65}) {
      hvd::Sha256 hash;
      for (size_t at = 0; at < length; at += piece) {
        hash.update(&whole[at], std::min(piece, length - at));
      }
      INFO(length << " bytes in pieces of " << piece);
      CHECK(hash.finish() == sha256(whole));
    }
  }
}

TEST_CASE("hmac gives the digests of RFC 4231") {
  std::string counting;
  for (char c = 1; c <= 25; ++c) counting += c;
  const struct {
    std::string key, message;
    const char* digest;
  } cases[] = {
      {std::string(20, '\x0b'), "Hi There",
       "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
      {"Jefe", "what do ya want for nothing?",
       "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
      {std::string(20, '\xaa'), std::string(50, '\xdd'),
       "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
      {counting, std::string(50, '\xcd'),
       "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
      {std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First",
       "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
      {std::string(131, '\xaa'),
       "This is a test using a larger than block-size key and a larger than block-size data. "
       "The key needs to be hashed before being used by the HMAC algorithm.",
       "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
  };
  for (const auto& c : cases) {
    INFO(c.message);
    CHECK(to_hex(view(hmac_sha256(c.key, c.message))) == c.digest);
  }
}

TEST_CASE("strings compare equal only if every byte is") {
  CHECK(equal_in_constant_time("", ""));
  CHECK(equal_in_constant_time("same", "same"));
  CHECK_FALSE(equal_in_constant_time("same", "samd"));
  CHECK_FALSE(equal_in_constant_time("same", "Same"));
  CHECK_FALSE(equal_in_constant_time("same", "same again"));
}

TEST_CASE("random bytes are as many as asked for and never the same") {
  auto a = hvd::random_bytes(32), b = hvd::random_bytes(32);
  REQUIRE(a.ok());
  REQUIRE(b.ok());
  CHECK(a->size() == 32);
  CHECK(*a != *b);
  CHECK(hvd::random_bytes(0)->empty());
}
