// SPDX-License-Identifier: Apache-2.0
//
// One table of options; parser, usage text and the rule of which operation takes what read it.
#include "libhvd/tools/perf/options.h"

#include <algorithm>
#include <climits>

#include "config.h"
#include "libhvd/base/nearest.h"
#include "libhvd/base/parse.h"

namespace hvd::perf {
namespace {

constexpr int64_t kDefaultMin = int64_t{1} << 10;
constexpr int64_t kDefaultMax = int64_t{64} << 20;
constexpr int64_t kMostBytes = int64_t{1} << 40;
constexpr int64_t kMostTimes = 1000000;
constexpr int64_t kDefaultIdleNs = 10 * kNsPerSecond;
constexpr int64_t kMostIdleNs = 24 * 3600 * kNsPerSecond;

constexpr std::string_view kOperations[] = {"allreduce", "broadcast", "barrier", "idle"};

// Which operations an option is for, as a set of bits.
constexpr unsigned bit(Operation operation) { return 1u << static_cast<int>(operation); }
constexpr unsigned kSized = bit(Operation::kAllreduce) | bit(Operation::kBroadcast);
constexpr unsigned kTimed = kSized | bit(Operation::kBarrier);
constexpr unsigned kAny = kTimed | bit(Operation::kIdle);

struct Option {
  std::string_view name;
  std::string_view example;  // of its value; empty: it takes none
  unsigned operations;
  std::string_view meaning;
  Status (*take)(Options& options, const Option& self, std::string_view value);
};

Status bad_value(const Option& option, std::string_view value, const char* what) {
  return error(Code::kInvalid, "--%.*s is \"%.*s\", not %s; write it as in --%.*s %.*s",
               static_cast<int>(option.name.size()), option.name.data(),
               static_cast<int>(value.size()), value.data(), what,
               static_cast<int>(option.name.size()), option.name.data(),
               static_cast<int>(option.example.size()), option.example.data());
}

Status take_size(const Option& option, std::string_view value, int64_t& bytes) {
  const auto size = parse_size(value);
  if (!size || *size < 1 || *size > kMostBytes) {
    return bad_value(option, value, "a number of bytes from 1 to 1T");
  }
  bytes = *size;
  return ok_status();
}

Status take_count(const Option& option, std::string_view value, int64_t least, int64_t& count) {
  const auto number = parse_count(value);
  if (!number || *number < least || *number > kMostTimes) {
    const std::string range = format("a number from %lld to %lld", static_cast<long long>(least),
                                     static_cast<long long>(kMostTimes));
    return bad_value(option, value, range.c_str());
  }
  count = *number;
  return ok_status();
}

Status take_type(Options& options, const Option&, std::string_view value) {
  std::string known;
  for (const ElementType& type : kElementTypes) {
    if (type.name == value) {
      options.type = &type;
      return ok_status();
    }
    known += (known.empty() ? "" : ", ") + std::string(type.name);
  }
  return error(Code::kInvalid, "--type is \"%.*s\"; what can be measured is %s",
               static_cast<int>(value.size()), value.data(), known.c_str());
}

Status take_peer(Options& options, const Option&, std::string_view value) {
  if (value != "mpi") {
    return error(Code::kInvalid, "--compare is \"%.*s\"; the one peer there is is mpi",
                 static_cast<int>(value.size()), value.data());
  }
#ifndef HVD_HAVE_MPI
  return error(Code::kInvalid,
               "--compare mpi: this hvd-perf was built without MPI; configure it --with-mpi");
#endif
  options.compare_mpi = true;
  return ok_status();
}

Status take_seconds(Options& options, const Option& self, std::string_view value) {
  const auto duration = parse_duration(value, kNsPerSecond);
  if (!duration || *duration < kNsPerMs || *duration > kMostIdleNs) {
    return bad_value(self, value, "a time of up to a day");
  }
  options.idle_ns = *duration;
  return ok_status();
}

const Option kOptions[] = {
    {"min", "1K", kSized, "smallest size in bytes (1K)",
     [](Options& o, const Option& self, std::string_view v) {
       return take_size(self, v, o.min_bytes);
     }},
    {"max", "64M", kSized, "largest size in bytes (64M)",
     [](Options& o, const Option& self, std::string_view v) {
       return take_size(self, v, o.max_bytes);
     }},
    {"factor", "4", kSized, "each size is so many times the one before (4)",
     [](Options& o, const Option& self, std::string_view v) {
       return take_count(self, v, 2, o.factor);
     }},
    {"type", "float32", kSized, "type of the elements: float32, float64, int32, int64 (float32)",
     take_type},
    {"in-place", "", bit(Operation::kAllreduce), "the result replaces the input (the default)",
     [](Options& o, const Option&, std::string_view) {
       o.in_place = true;
       return ok_status();
     }},
    {"out-of-place", "", bit(Operation::kAllreduce), "the result goes to memory of its own",
     [](Options& o, const Option&, std::string_view) {
       o.in_place = false;
       return ok_status();
     }},
    {"iterations", "20", kTimed, "timed operations a round (5 to 50, the fewer the larger)",
     [](Options& o, const Option& self, std::string_view v) {
       return take_count(self, v, 1, o.iterations.emplace());
     }},
    {"warmup", "2", kTimed, "operations a round before those (2)",
     [](Options& o, const Option& self, std::string_view v) {
       return take_count(self, v, 0, o.warmup);
     }},
    {"rounds", "5", kTimed, "rounds, of which the median counts (5)",
     [](Options& o, const Option& self, std::string_view v) {
       return take_count(self, v, 1, o.rounds);
     }},
    {"compare", "mpi", kTimed, "run MPI's operation in rounds of its own, in turn with ours",
     take_peer},
    {"json", "FILE", kAny, "write the results to FILE as one JSON object, too",
     [](Options& o, const Option&, std::string_view v) {
       o.json_file = v;
       return ok_status();
     }},
    {"seconds", "10", bit(Operation::kIdle), "how long there is nothing to do (10)", take_seconds},
    {"version", "", kAny, "print the library's version",
     [](Options& o, const Option&, std::string_view) {
       o.action = Options::Action::kVersion;
       return ok_status();
     }},
    {"help", "", kAny, "print this",
     [](Options& o, const Option&, std::string_view) {
       o.action = Options::Action::kHelp;
       return ok_status();
     }},
};

// "; did you mean ...?" or, if nothing is near, `otherwise`.
std::string hint(std::string_view word, const std::vector<std::string_view>& candidates,
                 std::string_view before, std::string_view otherwise) {
  const std::string_view near = nearest(word, candidates);
  if (near.empty()) return "; " + std::string(otherwise);
  return "; did you mean \"" + std::string(before) + std::string(near) + "\"?";
}

// [name] of the option that was given as [word].
Expected<const Option*> find_option(std::string_view name, std::string_view word) {
  std::vector<std::string_view> names;
  for (const Option& option : kOptions) {
    if (option.name == name) return &option;
    names.push_back(option.name);
  }
  const std::string way = hint(name, names, "--", "\"hvd-perf --help\" lists all");
  return error(Code::kInvalid, "unknown option \"%.*s\"%s", static_cast<int>(word.size()),
               word.data(), way.c_str());
}

Expected<Operation> find_operation(std::string_view word) {
  const auto* found = std::find(std::begin(kOperations), std::end(kOperations), word);
  if (found != std::end(kOperations)) {
    return static_cast<Operation>(found - std::begin(kOperations));
  }
  const std::string way = hint(word, {std::begin(kOperations), std::end(kOperations)}, "",
                               "what can be measured is allreduce, broadcast, barrier and idle");
  return error(Code::kInvalid, "unknown operation \"%.*s\"%s", static_cast<int>(word.size()),
               word.data(), way.c_str());
}

// The value of arguments[at], behind its "=" or in the next argument, to which `at` then moves on.
Expected<std::string_view> value_of(const Option& option, std::optional<std::string_view> attached,
                                    const std::vector<std::string_view>& arguments, size_t& at) {
  const int length = static_cast<int>(option.name.size());
  if (option.example.empty()) {
    if (!attached) return std::string_view();
    return error(Code::kInvalid, "--%.*s takes no value; leave out \"=%.*s\"", length,
                 option.name.data(), static_cast<int>(attached->size()), attached->data());
  }
  if (!attached && at + 1 < arguments.size()) attached = arguments[++at];
  if (attached && !attached->empty()) return *attached;
  return error(Code::kInvalid, "--%.*s lacks its value; write it as in --%.*s %.*s", length,
               option.name.data(), length, option.name.data(),
               static_cast<int>(option.example.size()), option.example.data());
}

// A bound that was not given gives way to one that was.
Status settle_sizes(Options& options) {
  const bool has_min = options.min_bytes != 0;
  const bool has_max = options.max_bytes != 0;
  if (!has_min)
    options.min_bytes = has_max ? std::min(kDefaultMin, options.max_bytes) : kDefaultMin;
  if (!has_max) options.max_bytes = std::max(kDefaultMax, options.min_bytes);
  if (options.min_bytes > options.max_bytes) {
    return error(Code::kInvalid, "--min %s is more than --max %s; no size lies between them",
                 size_text(options.min_bytes).c_str(), size_text(options.max_bytes).c_str());
  }
  const int64_t most = INT_MAX * options.type->bytes;
  if (options.compare_mpi && options.max_bytes > most) {
    return error(Code::kInvalid,
                 "--max %s is more than one MPI operation can take; with --compare mpi stay below "
                 "%s",
                 size_text(options.max_bytes).c_str(),
                 size_text(most + options.type->bytes).c_str());
  }
  return ok_status();
}

}  // namespace

std::string_view name_of(Operation operation) { return kOperations[static_cast<int>(operation)]; }

Expected<Options> parse_options(const std::vector<std::string_view>& arguments) {
  Options options;
  std::optional<Operation> operation;
  std::vector<const Option*> given;
  for (size_t at = 0; at < arguments.size(); ++at) {
    const std::string_view word = arguments[at];
    if (word.substr(0, 1) != "-") {
      if (operation) {
        return error(Code::kInvalid, "\"%.*s\" is one operation too many; measure one at a time",
                     static_cast<int>(word.size()), word.data());
      }
      const auto found = find_operation(word);
      if (!found.ok()) return found.status();
      operation = *found;
      continue;
    }
    std::string_view name = word == "-h" ? "help" : word.substr(word.substr(0, 2) == "--" ? 2 : 1);
    std::optional<std::string_view> attached;
    if (const size_t equals = name.find('='); equals != std::string_view::npos) {
      attached = name.substr(equals + 1);
      name = name.substr(0, equals);
    }
    const auto option = find_option(name, word.substr(0, word.find('=')));
    if (!option.ok()) return option.status();
    const auto value = value_of(**option, attached, arguments, at);
    if (!value.ok()) return value.status();
    if (Status taken = (*option)->take(options, **option, *value); !taken.ok()) return taken;
    given.push_back(*option);
  }

  if (options.action != Options::Action::kMeasure) return options;
  if (!operation) {
    return error(Code::kInvalid,
                 "name what to measure: allreduce, broadcast, barrier or idle; \"hvd-perf --help\" "
                 "says more");
  }
  options.operation = *operation;
  for (const Option* option : given) {
    if ((option->operations & bit(*operation)) == 0) {
      return error(Code::kInvalid, "--%.*s means nothing to %.*s; leave it out",
                   static_cast<int>(option->name.size()), option->name.data(),
                   static_cast<int>(name_of(*operation).size()), name_of(*operation).data());
    }
  }
  if (options.idle_ns == 0) options.idle_ns = kDefaultIdleNs;
  if ((kSized & bit(*operation)) != 0) {
    if (Status settled = settle_sizes(options); !settled.ok()) return settled;
  }
  return options;
}

std::string usage() {
  std::string text =
      "usage: hvd-perf OPERATION [OPTION]...\n"
      "       srun --horovod -N2 --ntasks-per-node=2 hvd-perf allreduce --compare mpi\n"
      "\n"
      "Measures an operation of libhvd over all ranks of the job and checks every result.\n"
      "\n"
      "operations: allreduce broadcast barrier\n"
      "            idle: what a rank costs that has nothing to do\n"
      "\n";
  for (const Option& option : kOptions) {
    std::string left = "--" + std::string(option.name);
    if (!option.example.empty()) left += " " + std::string(option.example);
    text += format("  %-20s  %.*s\n", left.c_str(), static_cast<int>(option.meaning.size()),
                   option.meaning.data());
  }
  return text;
}

}  // namespace hvd::perf
