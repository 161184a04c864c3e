// SPDX-License-Identifier: Apache-2.0
//
// Who is let in, byte by byte and without sockets.
#include "libhvd/transport/handshake.h"

#include "tests/unit/catch.h"

using hvd::Handshake;
using hvd::Introduction;
using hvd::Role;
using State = hvd::Handshake::State;

namespace {

constexpr Introduction kChildThree{Role::kChild, 3, 1};
constexpr const char* kStranger = "not a process of this job (it does not know the job's secret)";

// Moves what `from` has to say to `to`, in pieces; what was said.
std::string carry(Handshake* from, Handshake* to, size_t piece) {
  const std::string said(from->output());
  from->sent(said.size());
  for (size_t at = 0; at < said.size() && to->state() != State::kRefused; at += piece) {
    to->receive(said.substr(at, piece));
  }
  return said;
}

// Runs both sides until neither has anything to say; both proceed when asked.
std::string converse(Handshake* connecting, Handshake* accepting, size_t piece = 1000) {
  std::string all;
  for (int round = 0; round < 4; ++round) {
    all += carry(connecting, accepting, piece);
    if (accepting->state() == State::kAsking) accepting->proceed();
    all += carry(accepting, connecting, piece);
    if (connecting->state() == State::kAsking) connecting->proceed();
  }
  return all;
}

}  // namespace

TEST_CASE("two processes of a job recognise each other, however the bytes are cut") {
  for (size_t piece : {1, 7, 1000}) {
    Handshake connecting = Handshake::connecting("secret", kChildThree);
    Handshake accepting = Handshake::accepting("secret", 1);
    converse(&connecting, &accepting, piece);
    CHECK(connecting.state() == State::kDone);
    CHECK(accepting.state() == State::kDone);
    CHECK(accepting.introduction().role == Role::kChild);
    CHECK(accepting.introduction().from == 3);
    CHECK(accepting.introduction().to == 1);
    CHECK(connecting.wanted() == 0);
    CHECK(accepting.wanted() == 0);
  }
}

TEST_CASE("neither side accepts one that does not know the secret, and the secret is never sent") {
  Handshake connecting = Handshake::connecting("secret", kChildThree);
  Handshake accepting = Handshake::accepting("another", 1);
  const std::string said = converse(&connecting, &accepting);
  CHECK(connecting.state() == State::kRefused);
  CHECK(connecting.why() == kStranger);
  CHECK(accepting.state() == State::kRunning);  // it was never answered
  CHECK(said.find("secret") == std::string::npos);
  CHECK(said.find("another") == std::string::npos);
}

TEST_CASE("a recorded conversation does not let anybody in") {
  Handshake connecting = Handshake::connecting("secret", kChildThree);
  Handshake recorded = Handshake::accepting("secret", 1);
  const std::string hello = carry(&connecting, &recorded, 1000);
  carry(&recorded, &connecting, 1000);
  connecting.proceed();
  const std::string proof = carry(&connecting, &recorded, 1000);
  REQUIRE(recorded.state() == State::kAsking);

  Handshake accepting = Handshake::accepting("secret", 1);
  accepting.receive(hello);
  accepting.receive(proof);
  CHECK(accepting.state() == State::kRefused);
  CHECK(accepting.why() == kStranger);
}

TEST_CASE("nobody can pass on our own challenge as an answer to it") {
  // A mirror sends back what it gets: each side's proof is for its own side only.
  Handshake connecting = Handshake::connecting("secret", kChildThree);
  const std::string hello(connecting.output());
  Handshake accepting = Handshake::accepting("secret", 1);
  accepting.receive(hello);
  const std::string challenge(accepting.output());
  accepting.receive(challenge.substr(challenge.size() - hvd::kDigestBytes));
  CHECK(accepting.state() == State::kRefused);
}

TEST_CASE("a changed hello is refused: who wants what of whom is part of the proof") {
  for (size_t byte : {4, 8, 20}) {
    Handshake connecting = Handshake::connecting("secret", kChildThree);
    Handshake accepting = Handshake::accepting("secret", 1);
    std::string hello(connecting.output());
    connecting.sent(hello.size());
    hello[byte] = static_cast<char>(hello[byte] + 1);
    accepting.receive(hello);
    carry(&accepting, &connecting, 1000);
    CHECK(connecting.state() == State::kRefused);
  }
}

TEST_CASE("garbage is refused by its first wrong byte, a hello for another by its address") {
  Handshake accepting = Handshake::accepting("secret", 1);
  accepting.receive("G");
  CHECK(accepting.state() == State::kRefused);
  CHECK(accepting.why() == "not a process of this version of horovod");

  Handshake elsewhere = Handshake::accepting("secret", 2);
  Handshake connecting = Handshake::connecting("secret", kChildThree);
  carry(&connecting, &elsewhere, 1000);
  CHECK(elsewhere.state() == State::kRefused);
  CHECK(elsewhere.why() == "a connection for somebody else");
  CHECK(elsewhere.output().empty());

  Handshake flooded = Handshake::accepting("secret", 1);
  flooded.receive(std::string(1000, 'H'));
  CHECK(flooded.state() == State::kRefused);
}
