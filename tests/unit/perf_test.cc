// SPDX-License-Identifier: Apache-2.0
//
// hvd-perf's pure parts: what is asked for, what is sent and expected, what is printed.
#include <cstring>

#include "config.h"
#include "libhvd/tools/perf/options.h"
#include "libhvd/tools/perf/pattern.h"
#include "libhvd/tools/perf/report.h"
#include "tests/unit/catch.h"

namespace hvd::perf {
namespace {

std::string refusal(const std::vector<std::string_view>& arguments) {
  const auto options = parse_options(arguments);
  return options.ok() ? "" : options.status().text();
}

TEST_CASE("a wrong argument is a sentence with the way out") {
  struct Case {
    std::vector<std::string_view> arguments;
    const char* text;
  };
  const Case cases[] = {
      {{},
       "name what to measure: allreduce, broadcast, barrier or idle; \"hvd-perf --help\" says "
       "more"},
      {{"allredcue"}, "unknown operation \"allredcue\"; did you mean \"allreduce\"?"},
      {{"gemm"},
       "unknown operation \"gemm\"; what can be measured is allreduce, broadcast, barrier and "
       "idle"},
      {{"barrier", "idle"}, "\"idle\" is one operation too many; measure one at a time"},
      {{"allreduce", "--mn", "1"}, "unknown option \"--mn\"; did you mean \"--min\"?"},
      {{"allreduce", "-n=1"}, "unknown option \"-n\"; \"hvd-perf --help\" lists all"},
      {{"allreduce", "--min"}, "--min lacks its value; write it as in --min 1K"},
      {{"allreduce", "--json="}, "--json lacks its value; write it as in --json FILE"},
      {{"allreduce", "--in-place=1"}, "--in-place takes no value; leave out \"=1\""},
      {{"allreduce", "--max", "0"},
       "--max is \"0\", not a number of bytes from 1 to 1T; write it as in --max 64M"},
      {{"allreduce", "--factor", "1"},
       "--factor is \"1\", not a number from 2 to 1000000; write it as in --factor 4"},
      {{"allreduce", "--rounds", "many"},
       "--rounds is \"many\", not a number from 1 to 1000000; write it as in --rounds 5"},
      {{"allreduce", "--min", "2M", "--max", "1M"},
       "--min 2M is more than --max 1M; no size lies between them"},
      {{"allreduce", "--type", "float8"},
       "--type is \"float8\"; what can be measured is float32, float64, int32, int64"},
      {{"allreduce", "--compare", "nccl"}, "--compare is \"nccl\"; the one peer there is is mpi"},
      {{"idle", "--seconds", "long"},
       "--seconds is \"long\", not a time of up to a day; write it as in --seconds 10"},
      {{"barrier", "--min", "1K"}, "--min means nothing to barrier; leave it out"},
      {{"--out-of-place", "broadcast"}, "--out-of-place means nothing to broadcast; leave it out"},
      {{"idle", "--rounds", "3"}, "--rounds means nothing to idle; leave it out"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    CHECK(refusal(c.arguments) == c.text);
  }
}

TEST_CASE("a size that is not given gives way to one that is") {
  struct Case {
    std::vector<std::string_view> arguments;
    std::vector<int64_t> sizes;
  };
  const Case cases[] = {
      {{"allreduce", "--factor", "1000"}, {1024, 1024000}},
      {{"allreduce", "--max", "512"}, {512}},
      {{"allreduce", "--min=128M"}, {128 << 20}},
      {{"broadcast", "--min", "1", "--max", "20"}, {1, 4, 16}},
      {{"allreduce", "--min", "64M", "--max", "64M"}, {64 << 20}},
  };
  for (const Case& c : cases) {
    const auto options = parse_options(c.arguments);
    REQUIRE(options.ok());
    std::vector<int64_t> sizes;
    for (int64_t bytes = options->min_bytes; bytes <= options->max_bytes;
         bytes *= options->factor) {
      sizes.push_back(bytes);
    }
    CHECK(sizes == c.sizes);
  }
}

TEST_CASE("help is given whatever else is said, and names every option") {
  const auto options = parse_options({"--help"});
  REQUIRE(options.ok());
  CHECK(options->action == Options::Action::kHelp);
  for (const char* option : {"--min", "--type", "--compare", "--json", "--seconds"}) {
    CHECK(usage().find(option) != std::string::npos);
  }
}

TEST_CASE("the expected sum is the sum of what the ranks send, in every type") {
  constexpr int64_t kCount = 1000;
  constexpr int64_t kShift = Pattern::kPeriod - 300;  // goes over the end
  for (const ElementType& type : kElementTypes) {
    std::vector<unsigned char> sum(static_cast<size_t>(kCount * type.bytes));
    for (int rank = 0; rank < 3; ++rank) {
      std::vector<unsigned char> sent(sum.size());
      Pattern(type, rank, 1).fill(sent.data(), kCount, kShift);
      for (int64_t i = 0; i < kCount; ++i) {
        unsigned char* to = sum.data() + i * type.bytes;
        const unsigned char* from = sent.data() + i * type.bytes;
        const auto add = [&](auto zero) {
          auto a = zero;
          auto b = zero;
          memcpy(&a, to, sizeof a);
          memcpy(&b, from, sizeof b);
          a += b;
          memcpy(to, &a, sizeof a);
        };
        switch (type.number) {
          case HVD_FLOAT32:
            add(float{});
            break;
          case HVD_FLOAT64:
            add(double{});
            break;
          case HVD_INT32:
            add(int32_t{});
            break;
          default:
            add(int64_t{});
        }
      }
    }
    CAPTURE(type.name);
    CHECK(Pattern(type, 0, 3).count_wrong(sum.data(), kCount, kShift) == 0);
  }
}

TEST_CASE("a wrong element, an old result and a misplaced block are counted") {
  const ElementType& type = kElementTypes[0];
  const Pattern pattern(type, 0, 2);
  constexpr int64_t kCount = 200000;
  std::vector<float> data(kCount);
  pattern.fill(data.data(), kCount, 5);
  CHECK(pattern.count_wrong(data.data(), kCount, 5) == 0);
  data[7] += 1;
  data[199999] -= 1;
  CHECK(pattern.count_wrong(data.data(), kCount, 5) == 2);
  CHECK(pattern.count_wrong(data.data(), kCount, 6) > kCount / 2);
  CHECK(pattern.count_wrong(data.data() + 65536, 65536, 5) > 65536 / 2);
}

Options options_for(const std::vector<std::string_view>& arguments) {
  const auto options = parse_options(arguments);
  REQUIRE(options.ok());
  return *options;
}

const Job kJob{"0.1.0", "node0", 2, 4, 0};

TEST_CASE("the table has nccl-tests' columns") {
  const Options options = options_for({"allreduce"});
  CHECK(table_header(kJob, options) ==
        "# hvd-perf 0.1.0: allreduce, 4 ranks on 2 nodes, sum, in place\n"
        "#\n"
        "#         size        count  type            time    algbw    busbw  wrong\n"
        "#          (B)   (elements)                  (us)   (GB/s)   (GB/s)\n");
  CHECK(table_row(kJob, options, {4000, 1000, 2.0, 3, std::nullopt, 0}) ==
        "          4000         1000  float32          2.0    2.000    3.000      3\n");
}

#ifdef HVD_HAVE_MPI
TEST_CASE("with a peer there are its time and the ratio, more than 1 if the peer is slower") {
  const Options options = options_for({"barrier", "--compare", "mpi"});
  CHECK(table_row(kJob, options, {0, 0, 2.0, 0, 5.0, 0}) ==
        "             0            0  -                2.0    0.000    0.000      0         5.0   "
        "2.50\n");
  CHECK(json(kJob, options, {{0, 0, 2.0, 0, 5.0, 0}}) ==
        "{\"version\": \"0.1.0\", \"host\": \"node0\", \"nodes\": 2, \"ranks\": 4, \"op\": "
        "\"barrier\", \"type\": \"float32\", \"in_place\": true, \"results\": [\n"
        "  {\"bytes\": 0, \"time_us\": 2.000, \"algbw_gbs\": 0.000000, \"busbw_gbs\": 0.000000, "
        "\"wrong\": 0, \"peer_time_us\": 5.000, \"ratio\": 2.5000}\n"
        "]}\n");
}
#endif

TEST_CASE("without a peer its figures are null") {
  const Options options = options_for({"allreduce", "--out-of-place", "--type", "int64"});
  CHECK(json(kJob, options, {{8, 1, 1.0, 0, std::nullopt, 0}}) ==
        "{\"version\": \"0.1.0\", \"host\": \"node0\", \"nodes\": 2, \"ranks\": 4, \"op\": "
        "\"allreduce\", \"type\": \"int64\", \"in_place\": false, \"results\": [\n"
        "  {\"bytes\": 8, \"time_us\": 1.000, \"algbw_gbs\": 0.008000, \"busbw_gbs\": 0.012000, "
        "\"wrong\": 0, \"peer_time_us\": null, \"ratio\": null}\n"
        "]}\n");
}

TEST_CASE("idle: a line for every rank, and one for the rank that waited") {
  const Options options = options_for({"idle", "--seconds", "2"});
  const std::vector<IdleRow> rows = {{0, false, 0.25}, {1, false, 0.5}, {0, true, 0.125}};
  CHECK(idle_table({"0.1.0", "node0", 1, 2, 0}, options, rows) ==
        "# hvd-perf 0.1.0: idle, 2 ranks on 1 node, 2s each\n"
        "#\n"
        "#   rank  while                         CPU use\n"
        "#                                  (% of a core)\n"
        "       0  it has nothing to do            0.250\n"
        "       1  it has nothing to do            0.500\n"
        "       0  in hvd_wait on a barrier        0.125\n");
  CHECK(idle_json(kJob, options, {{0, true, 0.125}}) ==
        "{\"version\": \"0.1.0\", \"host\": \"node0\", \"nodes\": 2, \"ranks\": 4, \"op\": "
        "\"idle\", \"seconds\": 2.000, \"results\": [\n"
        "  {\"rank\": 0, \"waiting\": true, \"cpu_percent\": 0.1250}\n"
        "]}\n");
}

}  // namespace
}  // namespace hvd::perf
