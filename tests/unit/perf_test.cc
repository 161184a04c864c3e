// SPDX-License-Identifier: Apache-2.0
//
// hvd-perf's pure parts: what is asked for, and what is printed. The numbers that are sent are
// perf_pattern_test.cc's.
#include <algorithm>
#include <numeric>

#include "config.h"
#include "libhvd/tools/perf/options.h"
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
       "name what to measure: allreduce, allgather, broadcast, alltoall, reducescatter, barrier, "
       "step or idle; \"hvd-perf --help\" says more"},
      {{"allredcue"}, "unknown operation \"allredcue\"; did you mean \"allreduce\"?"},
      {{"gemm"},
       "unknown operation \"gemm\"; what can be measured is allreduce, allgather, broadcast, "
       "alltoall, reducescatter, barrier, step and idle"},
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
       "--type is \"float8\"; what can be measured is float32, float64, float16, bfloat16, int8, "
       "int16, int32, int64, uint8, uint16, bool"},
      {{"allreduce", "--op", "xor"},
       "--op is \"xor\"; the reductions are sum, average, min, max, product, adasum"},
      {{"allgather", "--op", "sum"}, "--op means nothing to allgather; leave it out"},
      {{"allgather", "--in-place"}, "--in-place means nothing to allgather; leave it out"},
      {{"allreduce", "--type", "bool", "--op", "average"},
       "there is no average of bool; use --op max (or), --op min (and), or another --type"},
      {{"allreduce", "--type", "int32", "--op", "adasum"},
       "adasum is for floating types; use --type float32, float64, float16 or bfloat16"},
      {{"reducescatter", "--op", "adasum"}, "adasum is for allreduce alone; use another --op"},
      {{"alltoall", "--tensors", "2"}, "--tensors means nothing to alltoall; leave it out"},
      {{"allreduce", "--tensors", "5000"},
       "--tensors is \"5000\", not a number from 1 to 4000; write it as in --tensors 8"},
      {{"step"}, "step needs a model: --model resnet50, bert-base or vgg16"},
      {{"step", "--model", "alexnet"},
       "--model is \"alexnet\"; the models are resnet50, bert-base, vgg16"},
      {{"step", "--model", "vgg16", "--op", "max"},
       "a step adds gradients up; use --op average or sum"},
      {{"step", "--model", "vgg16", "--type", "int8"},
       "gradients are floating-point numbers; use --type float32, float16 or bfloat16"},
      {{"step", "--model", "vgg16", "--compute", "0"},
       "--compute is \"0\", not a number of milliseconds from 1 to 60000; write it as in "
       "--compute 100"},
      {{"step", "--model", "vgg16", "--max", "1M"}, "--max means nothing to step; leave it out"},
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

TEST_CASE("the bus bandwidth of each operation is nccl-tests'") {
  struct Case {
    const char* operation;
    const char* busbw;
  };
  const Case cases[] = {
      {"allreduce", "6.000"}, {"allgather", "3.000"},     {"broadcast", "4.000"},
      {"alltoall", "3.000"},  {"reducescatter", "3.000"},
  };
  for (const Case& c : cases) {
    CHECK(table_row(kJob, options_for({c.operation}), {8000, 500, 2.0, 0, std::nullopt, 0}) ==
          std::string("          8000          500  float32          2.0    4.000    ") + c.busbw +
              "      0\n");
  }
}

TEST_CASE("the table's title says what was asked for") {
  struct Case {
    std::vector<std::string_view> arguments;
    const char* end;
  };
  const Case cases[] = {
      {{"allgather"}, "allgather, 4 ranks on 2 nodes\n"},
      {{"allreduce", "--op=adasum"}, "allreduce, 4 ranks on 2 nodes, adasum, in place\n"},
      {{"reducescatter", "--tensors=8", "--out-of-place"},
       "reducescatter, 4 ranks on 2 nodes, sum, out of place, 8 tensors\n"},
      {{"barrier"}, "barrier, 4 ranks on 2 nodes\n"},
  };
  for (const Case& c : cases) {
    const std::string header = table_header(kJob, options_for(c.arguments));
    CHECK(header.substr(0, header.find('\n') + 1) == std::string("# hvd-perf 0.1.0: ") + c.end);
  }
}

#ifdef HVD_HAVE_MPI
TEST_CASE("what MPI does not have is not compared") {
  struct Case {
    std::vector<std::string_view> arguments;
    const char* text;
  };
  const Case cases[] = {
      {{"allreduce", "--type", "bfloat16"},
       "MPI has no bfloat16; with --compare mpi use another --type"},
      {{"allgather", "--type", "bool"}, "MPI has no bool; with --compare mpi use another --type"},
      {{"step", "--model", "vgg16", "--type", "float16"},
       "MPI has no float16; with --compare mpi use another --type"},
      {{"reducescatter", "--op", "average"},
       "MPI has no average; with --compare mpi use --op sum, min, max or product"},
      {{"allreduce", "--op", "adasum"},
       "MPI has no adasum; with --compare mpi use --op sum, min, max or product"},
      {{"step", "--model", "vgg16"}, ""},
      {{"alltoall", "--type", "uint8"}, ""},
      {{"barrier"}, ""},
  };
  for (Case c : cases) {
    CAPTURE(c.text);
    c.arguments.insert(c.arguments.end(), {"--compare", "mpi"});
    CHECK(refusal(c.arguments) == c.text);
  }
}

TEST_CASE("with a peer there are its time and the ratio, more than 1 if the peer is slower") {
  const Options options = options_for({"barrier", "--compare", "mpi"});
  CHECK(table_row(kJob, options, {0, 0, 2.0, 0, 5.0, 0}) ==
        "             0            0  -                2.0    0.000    0.000      0         5.0   "
        "2.50\n");
  CHECK(json(kJob, options, {{0, 0, 2.0, 0, 5.0, 0}}) ==
        "{\"version\": \"0.1.0\", \"host\": \"node0\", \"nodes\": 2, \"ranks\": 4, \"op\": "
        "\"barrier\", \"reduction\": null, \"type\": \"float32\", \"in_place\": true, "
        "\"tensors\": 1, \"results\": [\n"
        "  {\"bytes\": 0, \"time_us\": 2.000, \"algbw_gbs\": 0.000000, \"busbw_gbs\": 0.000000, "
        "\"wrong\": 0, \"peer_time_us\": 5.000, \"ratio\": 2.5000}\n"
        "]}\n");
}
#endif

TEST_CASE("without a peer its figures are null") {
  const Options options = options_for({"allreduce", "--out-of-place", "--type", "int64"});
  CHECK(json(kJob, options, {{8, 1, 1.0, 0, std::nullopt, 0}}) ==
        "{\"version\": \"0.1.0\", \"host\": \"node0\", \"nodes\": 2, \"ranks\": 4, \"op\": "
        "\"allreduce\", \"reduction\": \"sum\", \"type\": \"int64\", \"in_place\": false, "
        "\"tensors\": 1, \"results\": [\n"
        "  {\"bytes\": 8, \"time_us\": 1.000, \"algbw_gbs\": 0.008000, \"busbw_gbs\": 0.012000, "
        "\"wrong\": 0, \"peer_time_us\": null, \"ratio\": null}\n"
        "]}\n");
}

TEST_CASE("the models have the gradients that they have") {
  struct Case {
    const char* name;
    size_t tensors;
    int64_t elements;
    int64_t first;
    int64_t last;
  };
  const Case cases[] = {
      {"resnet50", 161, 25557032, 64 * 3 * 7 * 7, 1000},
      {"bert-base", 199, 109482240, 30522 * 768, 768},
      {"vgg16", 32, 138357544, 64 * 3 * 3 * 3, 1000},
  };
  REQUIRE(std::size(cases) == std::size(kModels));
  for (size_t i = 0; i < std::size(cases); ++i) {
    const std::vector<int64_t> sizes = kModels[i].parameters();
    CHECK(kModels[i].name == cases[i].name);
    CHECK(sizes.size() == cases[i].tensors);
    CHECK(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) == cases[i].elements);
    CHECK(sizes.front() == cases[i].first);
    CHECK(sizes.back() == cases[i].last);
  }
  const std::vector<int64_t> resnet = resnet50_parameters();
  CHECK(*std::max_element(resnet.begin(), resnet.end()) == 512 * 512 * 3 * 3);
}

StepRow step_row() {
  StepRow row;
  row.tensors = 161;
  row.elements = 25557032;
  row.bytes = 4 * row.elements;
  row.time_us = 20000;
  row.batches = 3.25;
  return row;
}

TEST_CASE("overlap is the part of the communication that did not lengthen the step") {
  StepRow row = step_row();
  CHECK(!overlap(row));
  row.compute_us = 100000;
  row.together_us = 105000;
  CHECK(*overlap(row) == Approx(0.75));
  row.together_us = 100000;
  CHECK(*overlap(row) == Approx(1));
  row.together_us = 130000;
  CHECK(*overlap(row) == Approx(-0.5));
}

TEST_CASE("the ratio of a step is that of MPI's better way") {
  StepRow row = step_row();
  CHECK(!ratio(row));
  row.peer_time_us = 50000;
  row.peer_fused_us = 40000;
  CHECK(*ratio(row) == Approx(2));
  row.peer_fused_us = 60000;
  CHECK(*ratio(row) == Approx(2.5));
}

TEST_CASE("a step is one row, with the columns that were asked for") {
  const Options options = options_for({"step", "--model", "resnet50"});
  StepRow row = step_row();
  CHECK(step_table(kJob, options, row) ==
        "# hvd-perf 0.1.0: step, 4 ranks on 2 nodes, average\n"
        "# resnet50: 161 tensors, 25557032 elements of float32, 102.2 MB\n"
        "#\n"
        "#        time    batches      algbw      busbw      wrong\n"
        "#        (ms)                (GB/s)     (GB/s)\n"
        "        20.00        3.2      5.111      7.667          0\n");
  row.batches.reset();
  row.compute_us = 100000;
  row.together_us = 105000;
  row.peer_time_us = 50000;
  row.peer_fused_us = 40000;
  const std::string table = step_table(kJob, options, row);
  CHECK(table.substr(table.rfind("\n  ") + 1) ==
        "        20.00          -      5.111      7.667          0     100.00     105.00         "
        "75      50.00      40.00       2.00\n");
  CHECK(step_json(kJob, options, row) ==
        "{\"version\": \"0.1.0\", \"host\": \"node0\", \"nodes\": 2, \"ranks\": 4, \"op\": "
        "\"step\", \"reduction\": \"average\", \"type\": \"float32\", \"in_place\": true, "
        "\"tensors\": 161, \"model\": \"resnet50\", \"elements\": 25557032, \"results\": [\n"
        "  {\"bytes\": 102228128, \"time_us\": 20000.000, \"algbw_gbs\": 5.111406, \"busbw_gbs\": "
        "7.667110, \"wrong\": 0, \"batches\": null, \"compute_us\": 100000.000, \"together_us\": "
        "105000.000, \"overlap\": 0.7500, \"peer_one_by_one_us\": 50000.000, \"peer_fused_us\": "
        "40000.000, \"peer_time_us\": 40000.000, \"ratio\": 2.0000}\n"
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
