// SPDX-License-Identifier: Apache-2.0
//
// Bandwidths are those of nccl-tests: algbw = bytes / time; busbw = algbw x what of it each rank
// has to send and receive at least (bus_factor), so that it can be held against the hardware's.
#include "libhvd/tools/perf/report.h"

#include "libhvd/base/json.h"
#include "libhvd/base/parse.h"

namespace hvd::perf {
namespace {

double algbw(const Row& row) {
  return row.time_us > 0 ? static_cast<double>(row.bytes) / row.time_us / 1000 : 0;
}

double busbw(const Job& job, const Options& options, const Row& row) {
  return algbw(row) * bus_factor(options.operation, job.ranks);
}

double ratio(const Row& row) { return row.time_us > 0 ? *row.peer_time_us / row.time_us : 0; }

std::string plural(int count, const char* what) {
  return format("%d %s%s", count, what, count == 1 ? "" : "s");
}

std::string_view reduction_of(const Options& options) {
  for (const Reduction& reduction : kReductions) {
    if (reduction.number == options.op) return reduction.name;
  }
  return "";
}

}  // namespace

std::string title(const Job& job, const Options& options) {
  std::string text =
      format("# hvd-perf %s: %.*s, %s on %s", job.version.c_str(),
             static_cast<int>(name_of(options.operation).size()), name_of(options.operation).data(),
             plural(job.ranks, "rank").c_str(), plural(job.nodes, "node").c_str());
  if (facts(options.operation).reduces) text += ", " + std::string(reduction_of(options));
  if (facts(options.operation).can_be_in_place) {
    text += options.in_place ? ", in place" : ", out of place";
  }
  if (options.tensors > 1) {
    text += format(", %lld tensors", static_cast<long long>(options.tensors));
  }
  return text;
}

// Up to the results, which differ.
std::string json_head(const Job& job, const Options& options) {
  std::string text =
      format("{\"version\": %s, \"host\": %s, \"nodes\": %d, \"ranks\": %d, \"op\": %s",
             json_quoted(job.version).c_str(), json_quoted(job.host).c_str(), job.nodes, job.ranks,
             json_quoted(name_of(options.operation)).c_str());
  if (options.operation == Operation::kIdle) return text;
  const std::string reduction =
      facts(options.operation).reduces ? json_quoted(reduction_of(options)) : "null";
  return text + format(", \"reduction\": %s, \"type\": %s, \"in_place\": %s, \"tensors\": ",
                       reduction.c_str(), json_quoted(options.type->name).c_str(),
                       options.in_place ? "true" : "false");
}

std::string json_list(const std::vector<std::string>& items) {
  std::string text = "[";
  for (size_t i = 0; i < items.size(); ++i) text += (i == 0 ? "\n  " : ",\n  ") + items[i];
  return text + "\n]";
}

std::string table_header(const Job& job, const Options& options) {
  std::string text = title(job, options);
  text += format("\n#\n# %12s %12s  %-8s %11s %8s %8s %6s", "size", "count", "type", "time",
                 "algbw", "busbw", "wrong");
  if (options.compare_mpi) text += format(" %11s %6s", "MPI time", "ratio");
  text += format("\n# %12s %12s  %-8s %11s %8s %8s", "(B)", "(elements)", "", "(us)", "(GB/s)",
                 "(GB/s)");
  if (options.compare_mpi) text += format(" %18s", "(us)");
  return text + "\n";
}

std::string table_row(const Job& job, const Options& options, const Row& row) {
  const std::string_view type =
      options.operation == Operation::kBarrier ? std::string_view("-") : options.type->name;
  std::string text =
      format("  %12lld %12lld  %-8.*s %11.1f %8.3f %8.3f %6lld", static_cast<long long>(row.bytes),
             static_cast<long long>(row.count), static_cast<int>(type.size()), type.data(),
             row.time_us, algbw(row), busbw(job, options, row), static_cast<long long>(row.wrong));
  if (row.peer_time_us) text += format(" %11.1f %6.2f", *row.peer_time_us, ratio(row));
  return text + "\n";
}

std::string json(const Job& job, const Options& options, const std::vector<Row>& rows) {
  std::vector<std::string> items;
  for (const Row& row : rows) {
    std::string item = format(
        "{\"bytes\": %lld, \"time_us\": %.3f, \"algbw_gbs\": %.6f, \"busbw_gbs\": %.6f, "
        "\"wrong\": %lld, ",
        static_cast<long long>(row.bytes), row.time_us, algbw(row), busbw(job, options, row),
        static_cast<long long>(row.wrong));
    item += row.peer_time_us
                ? format("\"peer_time_us\": %.3f, \"ratio\": %.4f}", *row.peer_time_us, ratio(row))
                : std::string("\"peer_time_us\": null, \"ratio\": null}");
    items.push_back(std::move(item));
  }
  return json_head(job, options) +
         format("%lld, \"results\": ", static_cast<long long>(options.tensors)) + json_list(items) +
         "}\n";
}

std::string idle_table(const Job& job, const Options& options, const std::vector<IdleRow>& rows) {
  std::string text = title(job, options);
  text += format(", %s each\n#\n# %6s  %-24s %12s\n# %6s  %-24s %12s\n",
                 duration_text(options.idle_ns).c_str(), "rank", "while", "CPU use", "", "",
                 "(% of a core)");
  for (const IdleRow& row : rows) {
    text += format("  %6d  %-24s %12.3f\n", row.rank,
                   row.waiting ? "in hvd_wait on a barrier" : "it has nothing to do", row.percent);
  }
  return text;
}

std::string idle_json(const Job& job, const Options& options, const std::vector<IdleRow>& rows) {
  std::vector<std::string> items;
  for (const IdleRow& row : rows) {
    items.push_back(format("{\"rank\": %d, \"waiting\": %s, \"cpu_percent\": %.4f}", row.rank,
                           row.waiting ? "true" : "false", row.percent));
  }
  return json_head(job, options) +
         format(", \"seconds\": %.3f, \"results\": ",
                static_cast<double>(options.idle_ns) / kNsPerSecond) +
         json_list(items) + "}\n";
}

}  // namespace hvd::perf
