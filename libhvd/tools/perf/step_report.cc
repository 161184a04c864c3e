// SPDX-License-Identifier: Apache-2.0
//
// A step's table is one row; columns that were not asked for are left out.
#include <algorithm>

#include "libhvd/base/json.h"
#include "libhvd/tools/perf/report.h"

namespace hvd::perf {
namespace {

struct Column {
  const char* name;
  const char* unit;
  std::string value;
};

std::string milliseconds(double us) { return format("%.2f", us / 1000); }

double algbw(const StepRow& row) {
  return row.time_us > 0 ? static_cast<double>(row.bytes) / row.time_us / 1000 : 0;
}

double busbw(const Job& job, const StepRow& row) {
  return algbw(row) * bus_factor(Operation::kStep, job.ranks);
}

std::vector<Column> columns(const Job& job, const StepRow& row) {
  std::vector<Column> all = {
      {"time", "(ms)", milliseconds(row.time_us)},
      {"batches", "", row.batches ? format("%.1f", *row.batches) : "-"},
      {"algbw", "(GB/s)", format("%.3f", algbw(row))},
      {"busbw", "(GB/s)", format("%.3f", busbw(job, row))},
      {"wrong", "", format("%lld", static_cast<long long>(row.wrong))},
  };
  if (row.compute_us) {
    all.push_back({"compute", "(ms)", milliseconds(*row.compute_us)});
    all.push_back({"together", "(ms)", milliseconds(*row.together_us)});
    all.push_back({"overlap", "(%)", format("%.0f", *overlap(row) * 100)});
  }
  if (row.peer_time_us) {
    all.push_back({"MPI time", "(ms)", milliseconds(*row.peer_time_us)});
    all.push_back({"MPI fused", "(ms)", milliseconds(*row.peer_fused_us)});
    all.push_back({"ratio", "", format("%.2f", *ratio(row))});
  }
  return all;
}

std::string number(const std::optional<double>& value, int digits) {
  return value ? format("%.*f", digits, *value) : "null";
}

}  // namespace

std::optional<double> overlap(const StepRow& row) {
  if (!row.compute_us || !row.together_us || row.time_us <= 0) return std::nullopt;
  return 1 - (*row.together_us - *row.compute_us) / row.time_us;
}

std::optional<double> ratio(const StepRow& row) {
  if (!row.peer_time_us || !row.peer_fused_us || row.time_us <= 0) return std::nullopt;
  return std::min(*row.peer_time_us, *row.peer_fused_us) / row.time_us;
}

std::string step_table(const Job& job, const Options& options, const StepRow& row) {
  std::string names = "# ";
  std::string units = "# ";
  std::string values = "  ";
  for (const Column& column : columns(job, row)) {
    names += format(" %10s", column.name);
    units += format(" %10s", column.unit);
    values += format(" %10s", column.value.c_str());
  }
  units.erase(units.find_last_not_of(' ') + 1);
  return title(job, options) +
         format("\n# %.*s: %lld tensors, %lld elements of %.*s, %.1f MB\n#\n",
                static_cast<int>(options.model->name.size()), options.model->name.data(),
                static_cast<long long>(row.tensors), static_cast<long long>(row.elements),
                static_cast<int>(options.type->name.size()), options.type->name.data(),
                static_cast<double>(row.bytes) / 1e6) +
         names + "\n" + units + "\n" + values + "\n";
}

std::string step_json(const Job& job, const Options& options, const StepRow& row) {
  std::string item = format(
      "{\"bytes\": %lld, \"time_us\": %.3f, \"algbw_gbs\": %.6f, \"busbw_gbs\": %.6f, "
      "\"wrong\": %lld, \"batches\": %s, ",
      static_cast<long long>(row.bytes), row.time_us, algbw(row), busbw(job, row),
      static_cast<long long>(row.wrong), number(row.batches, 2).c_str());
  item += format("\"compute_us\": %s, \"together_us\": %s, \"overlap\": %s, ",
                 number(row.compute_us, 3).c_str(), number(row.together_us, 3).c_str(),
                 number(overlap(row), 4).c_str());
  std::optional<double> peer;
  if (row.peer_time_us) peer = std::min(*row.peer_time_us, *row.peer_fused_us);
  item += format(
      "\"peer_one_by_one_us\": %s, \"peer_fused_us\": %s, \"peer_time_us\": %s, \"ratio\": %s}",
      number(row.peer_time_us, 3).c_str(), number(row.peer_fused_us, 3).c_str(),
      number(peer, 3).c_str(), number(ratio(row), 4).c_str());
  return json_head(job, options) +
         format("%lld, \"model\": %s, \"elements\": %lld, \"results\": ",
                static_cast<long long>(row.tensors), json_quoted(options.model->name).c_str(),
                static_cast<long long>(row.elements)) +
         json_list({item}) + "}\n";
}

}  // namespace hvd::perf
