// SPDX-License-Identifier: Apache-2.0
//
// What is pure of the fake device: the order of work in streams, the reductions' 16-bit floats, and
// the faults one can ask for.
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/fakes/gpu/nccl_abi.h"
#include "tests/fakes/gpu/order.h"
#include "tests/fakes/gpu/reduce.h"
#include "tests/fakes/gpu/settings.h"
#include "tests/unit/catch.h"

using namespace fake_gpu;

namespace {

constexpr int kStreams = 3;
constexpr size_t kMost = 40;  // tasks

// The same question answered by a graph: which tasks come before which, and what each touched.
// Slow, and plain to see.
class Model {
 public:
  void submit(int stream) {
    std::vector<bool> before(kMost, false);
    merge(&before, known_to_host_);
    merge(&before, streams_[stream]);
    before_.push_back(before);
    streams_[stream] = before;
    streams_[stream][before_.size() - 1] = true;
    touched_.emplace_back();
    stream_of_.push_back(stream);
  }
  void touch(const Access& access) { touched_.back().push_back(access); }
  std::vector<bool> place(int stream) const { return streams_[stream]; }
  void wait(int stream, const std::vector<bool>& place) { merge(&streams_[stream], place); }
  void host_wait(const std::vector<bool>& place) { merge(&known_to_host_, place); }

  // Whether the last task races with one before it.
  bool races(const Access& access) const {
    const size_t last = before_.size() - 1;
    for (size_t task = 0; task < last; ++task) {
      if (before_[last][task] || stream_of_[task] == stream_of_[last]) continue;
      for (const Access& other : touched_[task]) {
        if ((other.writes || access.writes) && other.begin < access.begin + access.bytes &&
            access.begin < other.begin + other.bytes) {
          return true;
        }
      }
    }
    return false;
  }

 private:
  static void merge(std::vector<bool>* into, const std::vector<bool>& from) {
    into->resize(kMost, false);
    for (size_t i = 0; i < from.size(); ++i) (*into)[i] = (*into)[i] || from[i];
  }

  std::vector<bool> known_to_host_;
  std::vector<bool> streams_[kStreams];
  std::vector<std::vector<bool>> before_;
  std::vector<int> stream_of_;
  std::vector<std::vector<Access>> touched_;
};

// One random program, until its first race. True if both saw the same.
bool agree(std::uint64_t seed) {
  Random random(seed);
  Order order;
  Model model;
  for (int i = 0; i < kStreams; ++i) order.add_stream();
  std::vector<std::pair<Clock, std::vector<bool>>> events;
  for (size_t tasks = 0; tasks < kMost;) {
    const int stream = static_cast<int>(random.below(kStreams));
    switch (random.below(6)) {
      case 0:
        events.emplace_back(order.clock(stream), model.place(stream));
        break;
      case 1:
      case 2: {
        if (events.empty()) break;
        const auto& event = events[random.below(events.size())];
        order.join(stream, event.first);
        model.wait(stream, event.second);
        break;
      }
      case 3:
        if (random.below(4) != 0) break;
        order.host_knows(order.clock(stream));
        model.host_wait(model.place(stream));
        break;
      default: {
        const Access access{1000 + random.below(30), 1 + random.below(12), random.below(3) == 0};
        order.step(stream);
        model.submit(stream);
        ++tasks;
        const bool race = order.touch(stream, access, "task").has_value();
        if (race != model.races(access)) return false;
        if (race) return true;
        model.touch(access);
      }
    }
  }
  return true;
}

}  // namespace

TEST_CASE("a race is found exactly when nothing orders two accesses to the same bytes") {
  std::vector<std::uint64_t> wrong;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    if (!agree(seed)) wrong.push_back(seed);
  }
  CHECK(wrong == std::vector<std::uint64_t>{});
}

TEST_CASE("a race names the earlier access and the first byte") {
  Order order;
  const int one = order.add_stream(), two = order.add_stream();
  order.step(one);
  REQUIRE_FALSE(order.touch(one, {100, 50, true}, "the copy"));
  order.step(two);
  const auto race = order.touch(two, {120, 100, false}, "the kernel");
  REQUIRE(race);
  CHECK(race->stream == one);
  CHECK(race->what == "the copy");
  CHECK(race->wrote);
  CHECK(race->at == 120);
}

TEST_CASE("memory that was freed begins anew") {
  Order order;
  const int one = order.add_stream(), two = order.add_stream();
  order.step(one);
  REQUIRE_FALSE(order.touch(one, {100, 50, true}, "the copy"));
  order.forget(90, 40);
  order.step(two);
  CHECK_FALSE(order.touch(two, {100, 30, true}, "the kernel"));
  CHECK(order.touch(two, {100, 31, true}, "the kernel"));
}

TEST_CASE("16-bit floats keep every value that they have, and round to nearest, ties to even") {
  size_t wrong = 0;
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const bool nan = std::isnan(from_float16(half)), brain_nan = std::isnan(from_bfloat16(half));
    wrong +=
        nan ? !std::isnan(from_float16(to_float16(NAN))) : to_float16(from_float16(half)) != half;
    wrong += brain_nan ? !std::isnan(from_bfloat16(to_bfloat16(NAN)))
                       : to_bfloat16(from_bfloat16(half)) != half;
  }
  CHECK(wrong == 0);
  CHECK(from_float16(to_float16(2049)) == 2048);
  CHECK(from_float16(to_float16(2051)) == 2052);
  CHECK(from_float16(to_float16(65519)) == 65504);
  CHECK(std::isinf(from_float16(to_float16(65520))));
  CHECK(from_float16(to_float16(std::ldexp(3.0f, -25))) == std::ldexp(1.0f, -23));
  CHECK(from_bfloat16(to_bfloat16(257)) == 256);
  CHECK(from_bfloat16(to_bfloat16(259)) == 260);
}

TEST_CASE("integers wrap around where they overflow") {
  const std::int8_t a = 100, b = 50;
  std::int8_t out = 0;
  const std::vector<const char*> in = {reinterpret_cast<const char*>(&a),
                                       reinterpret_cast<const char*>(&b)};
  reduce(kInt8, kSum, in, 1, reinterpret_cast<char*>(&out));
  CHECK(out == -106);
  reduce(kInt8, kMin, in, 1, reinterpret_cast<char*>(&out));
  CHECK(out == 50);
}

TEST_CASE("a fault has a place, and may have a rank, a time and a value") {
  const auto faults = parse_faults("kernel@5=700,3:nccl-silent,copy=1");
  REQUIRE(faults);
  REQUIRE(faults->size() == 3);
  CHECK_FALSE((*faults)[0].rank);
  CHECK((*faults)[0].point == "kernel");
  CHECK((*faults)[0].at == 5);
  CHECK((*faults)[0].value == 700);
  CHECK((*faults)[1].rank == 3);
  CHECK((*faults)[1].at == 1);
  CHECK((*faults)[2].point == "copy");
  for (const char* text :
       {"x:kernel", "kernel@", "kernel@0", "kernel=seven", "=1", ",kernel", "1:"}) {
    INFO(text);
    CHECK_FALSE(parse_faults(text));
  }
}
