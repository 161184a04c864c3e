// SPDX-License-Identifier: Apache-2.0
//
// See rounds_model.h. Inputs are small whole numbers and factors are such that sums are exact in
// every type: the order of summation is another test's business.
#include "tests/ranks/rounds_model.h"

#include <stdio.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "libhvd/hvd.h"

namespace hvd::test {
namespace {

constexpr double kFactors[] = {1, 1, 1, 0.5, 2, -1, 3};

double a_factor(Random* random) { return kFactors[random->below(7)]; }

int a_type(Random* random) {
  const int types[] = {HVD_INT32, HVD_INT64, HVD_FLOAT32, HVD_FLOAT64};
  return types[random->below(4)];
}

std::vector<int64_t> a_shape(Random* random) {
  if (random->one_in(12)) return {0, 3};
  if (random->one_in(12)) return {};
  if (random->one_in(30)) return {random->from(1, 100), random->from(1, 200)};
  if (random->one_in(2)) return {random->from(1, 40)};
  return {random->from(1, 500)};
}

std::string text_of(const Says& says, Aspect aspect) {
  char text[40];
  switch (aspect) {
    case Aspect::kOperation:
      return says.broadcast ? "broadcast" : "allreduce";
    case Aspect::kType:
      return says.type == HVD_INT32     ? "int32"
             : says.type == HVD_INT64   ? "int64"
             : says.type == HVD_FLOAT32 ? "float32"
                                        : "float64";
    case Aspect::kShape: {
      std::string shape;
      for (int64_t extent : says.shape)
        shape += (shape.empty() ? "" : ",") + std::to_string(extent);
      return "[" + shape + "]";
    }
    case Aspect::kReduction:
      return says.op == HVD_AVERAGE ? "average" : "sum";
    case Aspect::kRoot:
      return std::to_string(says.root);
    case Aspect::kPrescale:
    case Aspect::kPostscale:
      snprintf(text, sizeof text, "%.17g",
               aspect == Aspect::kPrescale ? says.prescale : says.postscale);
      return text;
    case Aspect::kDevice:
      return says.gpu ? "GPU memory" : "host memory";
  }
  return "";
}

template <typename T>
std::vector<char> bytes_of(const std::vector<T>& elements) {
  std::vector<char> bytes(elements.size() * sizeof(T));
  if (!bytes.empty()) memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

template <typename T>
T input_element(int rank, uint64_t salt, size_t i) {
  return static_cast<T>((static_cast<uint64_t>(rank) * 7 + i * 3 + salt) % 32);
}

template <typename T>
T scaled(T x, double multiply, int divide) {
  if constexpr (std::is_floating_point_v<T>) {
    return multiply == 1 && divide == 1 ? x : x * static_cast<T>(multiply / divide);
  } else {
    if (multiply == 1) return static_cast<T>(x / divide);
    return static_cast<T>(static_cast<double>(x) * multiply / divide);
  }
}

template <typename T>
std::vector<char> inputs(const Says& says, int rank, uint64_t salt) {
  std::vector<T> elements(says.elements());
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = input_element<T>(rank, salt, i);
  return bytes_of(elements);
}

template <typename T>
std::vector<char> outputs(const Says& says, int ranks, uint64_t salt) {
  std::vector<T> elements(says.elements());
  for (size_t i = 0; i < elements.size(); ++i) {
    T sum = scaled(input_element<T>(0, salt, i), says.prescale, 1);  // perhaps -0
    for (int rank = 1; rank < ranks; ++rank) {
      sum += scaled(input_element<T>(rank, salt, i), says.prescale, 1);
    }
    elements[i] = scaled(sum, says.postscale, says.op == HVD_AVERAGE ? ranks : 1);
  }
  return bytes_of(elements);
}

}  // namespace

size_t Says::elements() const {
  size_t n = 1;
  for (int64_t extent : shape) n *= static_cast<size_t>(extent);
  return n;
}

size_t Says::bytes() const {
  return elements() * (type == HVD_INT32 || type == HVD_FLOAT32 ? 4 : 8);
}

bool Says::operator==(const Says& other) const {
  return broadcast == other.broadcast && type == other.type && shape == other.shape &&
         op == other.op && root == other.root && prescale == other.prescale &&
         postscale == other.postscale && gpu == other.gpu;
}

std::vector<Says> all_say(const Says& says, int ranks) {
  return std::vector<Says>(static_cast<size_t>(ranks), says);
}

const char* words_for(Aspect aspect) {
  const char* words[kAspects] = {"the operation",        "the type",  "the shape",
                                 "the reduction",        "the root",  "the prescale factor",
                                 "the postscale factor", "the device"};
  return words[static_cast<int>(aspect)];
}

bool change(Says* says, Aspect aspect, int ranks, Random* random) {
  const Says before = *says;
  const bool of_allreduce =
      aspect == Aspect::kReduction || aspect == Aspect::kPrescale || aspect == Aspect::kPostscale;
  if (says->broadcast ? of_allreduce : aspect == Aspect::kRoot) return false;
  if (aspect == Aspect::kRoot && ranks == 1) return false;
  while (*says == before) {
    switch (aspect) {
      case Aspect::kOperation:
        // An operation has nothing of another one's: its other aspects are what they always are.
        says->broadcast = !says->broadcast;
        says->op = HVD_SUM;
        says->root = 0;
        says->prescale = says->postscale = 1;
        break;
      case Aspect::kType:
        says->type = a_type(random);
        break;
      case Aspect::kShape:
        says->shape = a_shape(random);
        break;
      case Aspect::kReduction:
        says->op = says->op == HVD_SUM ? HVD_AVERAGE : HVD_SUM;
        break;
      case Aspect::kRoot:
        says->root = static_cast<int>(random->below(static_cast<size_t>(ranks)));
        break;
      case Aspect::kPrescale:
        says->prescale = a_factor(random);
        break;
      case Aspect::kPostscale:
        says->postscale = a_factor(random);
        break;
      case Aspect::kDevice:
        says->gpu = !says->gpu;
        break;
    }
  }
  return true;
}

std::string as_people_write(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size(); ++i) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(ranks[i]);
    if (last - i < 2) continue;
    text += "-" + std::to_string(ranks[last]);
    i = last;
  }
  return text;
}

std::string dispute(const std::string& spoken, const std::string& what,
                    const std::vector<Said>& said) {
  std::vector<std::pair<std::string, std::vector<int>>> camps;  // by their lowest rank
  for (const Said& one : said) {
    auto camp = std::find_if(camps.begin(), camps.end(),
                             [&](const auto& c) { return c.first == one.text; });
    if (camp == camps.end()) camp = camps.insert(camps.end(), {one.text, {}});
    camp->second.push_back(one.rank);
  }
  if (camps.size() < 2) return "";
  std::string text = spoken + ": ranks disagree about " + what + ": ";
  for (size_t camp = 0; camp < camps.size(); ++camp) {
    if (camp > 0) text += "; ";
    text += camps[camp].first + " on rank " + as_people_write(camps[camp].second);
  }
  return text;
}

std::string expected_error(const std::string& name, const std::vector<Says>& by_rank) {
  for (int i = 0; i < kAspects; ++i) {
    const Aspect aspect = static_cast<Aspect>(i);
    std::vector<Said> said;
    for (size_t rank = 0; rank < by_rank.size(); ++rank) {
      said.push_back({static_cast<int>(rank), text_of(by_rank[rank], aspect)});
    }
    const std::string spoken = text_of(by_rank[0], Aspect::kOperation) + " \"" + name + "\"";
    const std::string text = dispute(spoken, words_for(aspect), said);
    if (!text.empty()) return text;
  }
  return "";
}

std::vector<char> input_of(const Says& says, int rank, uint64_t salt) {
  switch (says.type) {
    case HVD_INT32:
      return inputs<int32_t>(says, rank, salt);
    case HVD_INT64:
      return inputs<int64_t>(says, rank, salt);
    case HVD_FLOAT32:
      return inputs<float>(says, rank, salt);
    default:
      return inputs<double>(says, rank, salt);
  }
}

std::vector<char> expected_output(const Says& says, int ranks, uint64_t salt) {
  if (says.broadcast) return input_of(says, says.root, salt);
  switch (says.type) {
    case HVD_INT32:
      return outputs<int32_t>(says, ranks, salt);
    case HVD_INT64:
      return outputs<int64_t>(says, ranks, salt);
    case HVD_FLOAT32:
      return outputs<float>(says, ranks, salt);
    default:
      return outputs<double>(says, ranks, salt);
  }
}

Trial::Trial(std::string name_of_use, const std::vector<Says>& by_rank, int rank, uint64_t salt)
    : name(std::move(name_of_use)),
      says(by_rank[static_cast<size_t>(rank)]),
      error(expected_error(name, by_rank)),
      before(input_of(says, rank, salt)),
      data(before) {
  if (error.empty()) want = expected_output(says, static_cast<int>(by_rank.size()), salt);
}

std::string Trial::verdict(End end, const std::string& text) const {
  if (end != (error.empty() ? End::kWell : End::kMismatch) || text != error) {
    return name + " ended with \"" + text + "\", not \"" + error + "\"";
  }
  if (!error.empty()) return data == before ? "" : name + " failed and touched its tensor";
  return data == want ? "" : name + " has a wrong result";
}

Rounds::Rounds(uint64_t seed, int ranks, int names, bool gpu)
    : seed_(seed), ranks_(ranks), gpu_(gpu), random_(seed) {
  for (int name = 0; name < names; ++name) usual_.push_back(any());
  says_.resize(usual_.size());
}

Says Rounds::any() {
  Says says;
  // Mostly what can be fused: every kind of batch of a round costs its own trips between nodes.
  if (random_.one_in(2)) says.type = a_type(&random_);
  says.shape = a_shape(&random_);
  says.broadcast = random_.one_in(7);
  if (says.broadcast) {
    says.root = static_cast<int>(random_.below(static_cast<size_t>(ranks_)));
  } else {
    says.op = random_.one_in(3) ? HVD_AVERAGE : HVD_SUM;
    says.prescale = a_factor(&random_);
    says.postscale = a_factor(&random_);
  }
  return says;
}

void Rounds::next() {
  ++round_;
  for (size_t name = 0; name < usual_.size(); ++name) {
    if (random_.one_in(8)) usual_[name] = any();
    says_[name].assign(static_cast<size_t>(ranks_), usual_[name]);
    if (random_.one_in(5)) dissent(&says_[name]);
    // Sometimes what one has changed is what all say from then on.
    if (random_.one_in(10)) usual_[name] = says_[name][random_.below(says_[name].size())];
    if (usual_[name].gpu) usual_[name].gpu = false;
  }
}

// One rank, some ranks or all but one say something else, alike or each its own.
void Rounds::dissent(std::vector<Says>* by_rank) {
  std::vector<int> ranks;
  for (int rank = 0; rank < ranks_; ++rank) ranks.push_back(rank);
  random_.shuffle(&ranks);
  const int64_t count = random_.one_in(2) ? 1 : random_.from(1, ranks_);
  ranks.resize(static_cast<size_t>(count));
  const bool alike = random_.one_in(2);
  Says other = (*by_rank)[0];
  for (int rank : ranks) {
    Says& says = (*by_rank)[static_cast<size_t>(rank)];
    if (alike && rank != ranks[0]) {
      says = other;
      continue;
    }
    for (bool changed = false; !changed || random_.one_in(3);) {
      const size_t aspects = gpu_ ? kAspects : kAspects - 1;
      changed |= change(&says, static_cast<Aspect>(random_.below(aspects)), ranks_, &random_);
    }
    other = says;
  }
}

std::vector<int> Rounds::order(int rank) const {
  std::vector<int> names;
  for (size_t name = 0; name < usual_.size(); ++name) names.push_back(static_cast<int>(name));
  Random random(Random(seed_ + static_cast<uint64_t>(round_) * 1000003).next() +
                static_cast<uint64_t>(rank));
  random.shuffle(&names);
  return names;
}

}  // namespace hvd::test
