// SPDX-License-Identifier: Apache-2.0
//
// See trace_text.h.
#include "libhvd/trace/trace_text.h"

#include <algorithm>

#include "libhvd/base/json.h"
#include "libhvd/base/status.h"

namespace hvd {
namespace {

// Bytes of a name, escaped: an element has to fit into a page.
constexpr size_t kMostNameBytes = 3000;

constexpr const char* kStageNames[] = {"pack", "reduce", "cross", "unpack"};

std::string quoted_name(std::string_view name) {
  std::string quoted = json_quoted(name);
  if (quoted.size() <= kMostNameBytes) return quoted;
  quoted.clear();
  while (!name.empty()) {
    const size_t length = std::max<size_t>(utf8_length(name), 1);
    const std::string next = json_quoted(name.substr(0, length));
    if (quoted.size() + next.size() > kMostNameBytes - 5) break;
    quoted.append(next, 1, next.size() - 2);
    name.remove_prefix(length);
  }
  return "\"" + quoted + "...\"";
}

// Nanoseconds as microseconds; no locale has a say in the point.
std::string micros(int64_t ns) {
  const bool negative = ns < 0;
  const int64_t size = negative ? -ns : ns;
  return format("%s%lld.%03d", negative ? "-" : "", static_cast<long long>(size / 1000),
                static_cast<int>(size % 1000));
}

std::string args_text(const TraceEvent& event) {
  std::string text;
  for (uint8_t i = 0; i < event.arg_count; ++i) {
    text += text.empty() ? ",\"args\":{" : ",";
    text += json_quoted(event.args[i].key) + ":" + std::to_string(event.args[i].value);
  }
  return text.empty() ? text : text + "}";
}

std::string about(const char* what, unsigned process, int thread, const std::string& args) {
  return format("{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%d,\"args\":{%s}}", what, process,
                thread, args.c_str());
}

}  // namespace

void TraceBatch::clear() {
  names.clear();
  events.clear();
  dropped = 0;
}

std::string TraceText::head(const TraceIdentity& identity, int64_t start_us) const {
  return about(
      "process_name", 0, 0,
      format("\"name\":%s,\"start_time_since_epoch_in_micros\":%lld,\"rank\":%d,\"size\":%d,"
             "\"host\":%s,\"job\":%s",
             json_quoted(format("rank %d", identity.rank)).c_str(),
             static_cast<long long>(start_us), identity.rank, identity.size,
             json_quoted(std::string_view(identity.host).substr(0, 256)).c_str(),
             json_quoted(std::string_view(identity.job).substr(0, 256)).c_str()));
}

void TraceText::write(const TraceBatch& batch) {
  for (const std::string& name : batch.names) name_track(name);
  for (const TraceEvent& event : batch.events) {
    switch (event.kind) {
      case TraceEvent::Kind::kBegin:
        begin(event);
        break;
      case TraceEvent::Kind::kEnd:
        end(event);
        break;
      case TraceEvent::Kind::kStage:
        stage(event);
        break;
      case TraceEvent::Kind::kRank:
        put(event, 'X', std::to_string(event.rank), 0, ",\"dur\":0");
        break;
      case TraceEvent::Kind::kCycle:
        put(event, 'i', "CYCLE_START", 0, ",\"s\":\"g\"");
        break;
    }
  }
  if (batch.dropped == 0) return;
  TraceEvent event;
  event.ns = batch.dropped_ns;
  put(event, 'i', format("%llu events dropped", static_cast<unsigned long long>(batch.dropped)), 0,
      ",\"s\":\"g\"");
}

void TraceText::name_track(std::string_view name) {
  const auto track = static_cast<unsigned>(tracks_.size());
  tracks_.emplace_back();
  emit_(about("process_name", track, 0, "\"name\":" + quoted_name(name)));
  emit_(about("process_sort_index", track, 0, format("\"sort_index\":%u", track)));
}

// A phase that is open already has lost its end.
void TraceText::begin(const TraceEvent& event) {
  auto& open = tracks_[event.track].open;
  if (std::find(open.begin(), open.end(), event.name) != open.end()) {
    TraceEvent lost = event;
    lost.arg_count = 0;
    end(lost);
  }
  open.push_back(event.name);
  put(event, 'B', event.name, 0, "");
}

// Ends what began inside as well; nothing if it began before the trace, or that was dropped.
void TraceText::end(const TraceEvent& event) {
  auto& open = tracks_[event.track].open;
  if (std::find(open.begin(), open.end(), event.name) == open.end()) return;
  TraceEvent inner = event;
  inner.arg_count = 0;
  for (; open.back() != event.name; open.pop_back()) put(inner, 'E', open.back(), 0, "");
  open.pop_back();
  put(event, 'E', event.name, 0, "");
}

void TraceText::stage(const TraceEvent& event) {
  const auto index = static_cast<unsigned>(event.stage);
  const int thread = static_cast<int>(index) + 1;
  auto& named = tracks_[event.track].stages;
  if ((named & (1U << index)) == 0) {
    named = static_cast<uint8_t>(named | (1U << index));
    emit_(about("thread_name", event.track, thread, format("\"name\":\"%s\"", kStageNames[index])));
  }
  // Begun before the trace did: from its start.
  TraceEvent shown = event;
  shown.ns = std::max(event.ns, start_ns_);
  put(shown, 'X', kStageNames[index], thread,
      ",\"dur\":" + micros(std::max<int64_t>(event.end_ns - shown.ns, 0)));
}

void TraceText::put(const TraceEvent& event, char phase, std::string_view name, int thread,
                    std::string_view more) {
  std::string text = format("{\"ph\":\"%c\",\"name\":", phase);
  text += quoted_name(name);
  text += format(",\"pid\":%u,\"tid\":%d,\"ts\":", event.track, thread);
  text += micros(event.ns - start_ns_);
  text += more;
  text += args_text(event) + "}";
  emit_(text);
}

}  // namespace hvd
