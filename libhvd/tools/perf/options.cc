// SPDX-License-Identifier: Apache-2.0
//
// One table of options; parser, usage text and the rule of which operation takes what read it.
#include "libhvd/tools/perf/options.h"

#include <algorithm>

#include "config.h"
#include "libhvd/base/nearest.h"
#include "libhvd/base/parse.h"
#include "libhvd/tools/perf/rules.h"

namespace hvd::perf {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 40;
constexpr int64_t kMostTimes = 1000000;
constexpr int64_t kMostTensors = 4000;
constexpr int64_t kMostIdleNs = 24 * 3600 * kNsPerSecond;

// Which operations an option is for, as a set of bits.
constexpr unsigned bit(Operation operation) { return 1u << static_cast<int>(operation); }
constexpr unsigned those_with(bool OperationFacts::*fact) {
  unsigned bits = 0;
  unsigned next = 1;
  for (const OperationFacts& operation : kOperations) {
    if (operation.*fact) bits |= next;
    next <<= 1;
  }
  return bits;
}
constexpr unsigned kStepBit = bit(Operation::kStep);
constexpr unsigned kSized = those_with(&OperationFacts::sized);
constexpr unsigned kReduces = those_with(&OperationFacts::reduces);
constexpr unsigned kInPlace = those_with(&OperationFacts::can_be_in_place);
constexpr unsigned kGrouped = those_with(&OperationFacts::grouped);
constexpr unsigned kTimed = kSized | kStepBit | bit(Operation::kBarrier);
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

Status take_count(const Option& option, std::string_view value, int64_t least, int64_t& count,
                  int64_t most = kMostTimes) {
  const auto number = parse_count(value);
  if (!number || *number < least || *number > most) {
    const std::string range = format("a number from %lld to %lld", static_cast<long long>(least),
                                     static_cast<long long>(most));
    return bad_value(option, value, range.c_str());
  }
  count = *number;
  return ok_status();
}

// The row of a table that has this name; else an error that lists all.
template <typename Row, size_t kRows>
Expected<const Row*> find_row(const Row (&table)[kRows], const Option& option,
                              std::string_view value, const char* what) {
  std::string known;
  for (const Row& row : table) {
    if (row.name == value) return &row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return error(Code::kInvalid, "--%.*s is \"%.*s\"; %s %s", static_cast<int>(option.name.size()),
               option.name.data(), static_cast<int>(value.size()), value.data(), what,
               known.c_str());
}

Status take_type(Options& options, const Option& self, std::string_view value) {
  const auto type = find_row(kElementTypes, self, value, "what can be measured is");
  if (!type.ok()) return type.status();
  options.type = *type;
  return ok_status();
}

Status take_reduction(Options& options, const Option& self, std::string_view value) {
  const auto reduction = find_row(kReductions, self, value, "the reductions are");
  if (!reduction.ok()) return reduction.status();
  options.op = (*reduction)->number;
  return ok_status();
}

Status take_model(Options& options, const Option& self, std::string_view value) {
  const auto model = find_row(kModels, self, value, "the models are");
  if (!model.ok()) return model.status();
  options.model = *model;
  return ok_status();
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

Status take_compute(Options& options, const Option& self, std::string_view value) {
  const auto duration = parse_duration(value, kNsPerMs);
  if (!duration || *duration < kNsPerMs || *duration > 60 * kNsPerSecond) {
    return bad_value(self, value, "a number of milliseconds from 1 to 60000");
  }
  options.compute_ns = *duration;
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
    {"type", "float32", kSized | kStepBit, "type of the elements, any that libhvd has (float32)",
     take_type},
    {"op", "sum", kReduces, "sum, average, min, max, product or adasum (sum; of a step average)",
     take_reduction},
    {"tensors", "8", kGrouped, "a group of so many tensors, which share the size (1: no group)",
     [](Options& o, const Option& self, std::string_view v) {
       return take_count(self, v, 1, o.tensors, kMostTensors);
     }},
    {"in-place", "", kInPlace, "the result replaces the input (the default)",
     [](Options& o, const Option&, std::string_view) {
       o.in_place = true;
       return ok_status();
     }},
    {"out-of-place", "", kInPlace, "the result goes to memory of its own",
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
    {"model", "resnet50", kStepBit, "whose gradients: resnet50, bert-base or vgg16", take_model},
    {"compute", "100", kStepBit, "also compute so many milliseconds while gradients travel",
     take_compute},
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

// "allreduce, ... and idle".
std::string operation_list(const char* conjunction) {
  std::string list;
  for (const OperationFacts& operation : kOperations) {
    const bool last = &operation == std::end(kOperations) - 1;
    list += (list.empty() ? "" : last ? format(" %s ", conjunction) : ", ");
    list += operation.name;
  }
  return list;
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
  std::vector<std::string_view> names;
  for (const OperationFacts& operation : kOperations) {
    if (operation.name == word) return static_cast<Operation>(names.size());
    names.push_back(operation.name);
  }
  const std::string way = hint(word, names, "", "what can be measured is " + operation_list("and"));
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

// What was given, and that the operation takes it.
Status check_given(Operation operation, const std::vector<const Option*>& given) {
  for (const Option* option : given) {
    if ((option->operations & bit(operation)) != 0) continue;
    return error(Code::kInvalid, "--%.*s means nothing to %.*s; leave it out",
                 static_cast<int>(option->name.size()), option->name.data(),
                 static_cast<int>(name_of(operation).size()), name_of(operation).data());
  }
  return ok_status();
}

}  // namespace

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
    return error(Code::kInvalid, "name what to measure: %s; \"hvd-perf --help\" says more",
                 operation_list("or").c_str());
  }
  options.operation = *operation;
  if (Status checked = check_given(*operation, given); !checked.ok()) return checked;
  const bool op_given = std::any_of(given.begin(), given.end(),
                                    [](const Option* option) { return option->name == "op"; });
  if (Status settled = settle(options, op_given); !settled.ok()) return settled;
  return options;
}

std::string usage() {
  std::string text =
      "usage: hvd-perf OPERATION [OPTION]...\n"
      "       srun --horovod -N2 --ntasks-per-node=2 hvd-perf allreduce --compare mpi\n"
      "\n"
      "Measures an operation of libhvd over all ranks of the job and checks every result.\n"
      "\n"
      "operations: allreduce allgather broadcast alltoall reducescatter barrier\n"
      "            step: the gradients of a model, as a backward pass makes them\n"
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
