// SPDX-License-Identifier: Apache-2.0
//
// How two processes of one job recognise each other on a fresh stream socket: each proves that it
// knows the job's secret by an HMAC over both sides' random numbers and over who wants what of
// whom. The secret itself never travels. Four messages of fixed size:
//
//   connecting -> accepting   hello: magic, role, from, to, random number A
//   accepting -> connecting   magic, random number B, HMAC(secret, "accepting" hello B)
//   connecting -> accepting   HMAC(secret, "connecting" hello B)
//   accepting -> connecting   magic: you are in
//
// Handshake is the state machine of either side: bytes in, bytes out, no waiting; `drive` runs it
// on a non-blocking socket. It reads no byte beyond its own messages. Anything unexpected refuses.
// It protects against strangers and against other jobs of the same user, not against somebody who
// can change packets on the way (what follows is not encrypted).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "libhvd/base/sha256.h"

namespace hvd {

enum class Role : uint8_t {
  kLocalRank = 1,  // `from` and `to` are local ranks
  kChild = 2,      // `from` and `to` are node indices, `to` is the parent
  kNews = 3,       // a rank of node `from` whose leader is dead
};

struct Introduction {
  Role role;
  int from;
  int to;
};

class Handshake {
 public:
  enum class State {
    kRunning,
    kAsking,  // the other side has proved itself: the caller calls proceed(), or drops the socket
    kDone,
    kRefused  // why() says why; the caller drops the socket
  };

  static Handshake connecting(std::string_view secret, const Introduction& introduction);
  // `own` is who we are: a hello for somebody else is refused before it learns anything.
  static Handshake accepting(std::string_view secret, int own);

  State state() const { return state_; }
  // Who is there; valid on the accepting side from kAsking on.
  const Introduction& introduction() const { return introduction_; }
  const std::string& why() const { return why_; }
  // Whether the other side has proved to be of the job.
  bool proved() const { return proved_; }

  size_t wanted() const;  // bytes that receive() takes next; 0 if it is not our turn to read
  void receive(std::string_view bytes);  // at most wanted()
  std::string_view output() const { return output_; }
  void sent(size_t bytes);
  void proceed();

  // Sends and receives on a non-blocking socket as far as that goes now.
  State drive(int fd);
  // What poll(2) must wait for before drive() is called again.
  short poll_events() const;

 private:
  Handshake(bool accepts, std::string_view secret);
  void refuse(std::string why);
  void take_message();
  Digest proof(const char* side) const;

  bool accepts_;
  std::string secret_;
  int own_ = 0;
  State state_ = State::kRunning;
  bool proved_ = false;
  int step_ = 0;         // messages received so far
  size_t expected_ = 0;  // size of the message being received
  std::string input_;
  std::string output_;
  std::string hello_;
  std::string challenge_;  // random number B
  Introduction introduction_{};
  std::string why_;
};

}  // namespace hvd
