// SPDX-License-Identifier: Apache-2.0
#include "spank/cpu_set.h"

#include <algorithm>

#include "libhvd/base/parse.h"
#include "libhvd/base/status.h"

namespace hvd {
namespace {

constexpr int kBits = 64;

size_t word_of(int cpu) { return static_cast<size_t>(cpu) / kBits; }
uint64_t bit_of(int cpu) { return uint64_t{1} << (cpu % kBits); }

}  // namespace

CpuSet::CpuSet(std::initializer_list<int> cpus) {
  for (const int cpu : cpus) add(cpu);
}

CpuSet CpuSet::range(int first, int last) {
  CpuSet set;
  for (int cpu = std::max(first, 0); cpu <= last && cpu < kMost; ++cpu) set.add(cpu);
  return set;
}

std::optional<CpuSet> CpuSet::parse(std::string_view list) {
  CpuSet set;
  if (trim(list).empty()) return set;
  for (const std::string_view part : split(list, ',')) {
    const size_t dash = part.find('-');
    const auto first = parse_count(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_count(part.substr(dash + 1));
    if (!first || !last || *first > *last || *last >= kMost) return std::nullopt;
    set |= range(static_cast<int>(*first), static_cast<int>(*last));
  }
  return set;
}

void CpuSet::add(int cpu) {
  if (cpu < 0 || cpu >= kMost) return;
  if (word_of(cpu) >= words_.size()) words_.resize(word_of(cpu) + 1);
  words_[word_of(cpu)] |= bit_of(cpu);
}

bool CpuSet::has(int cpu) const {
  return cpu >= 0 && word_of(cpu) < words_.size() && (words_[word_of(cpu)] & bit_of(cpu)) != 0;
}

int CpuSet::count() const {
  int count = 0;
  for (const uint64_t word : words_) count += __builtin_popcountll(word);
  return count;
}

int CpuSet::next(int cpu) const {
  const int from = cpu + 1;
  for (size_t at = word_of(from); at < words_.size(); ++at) {
    uint64_t word = words_[at];
    if (at == word_of(from)) word &= ~uint64_t{0} << (from % kBits);
    if (word != 0) return static_cast<int>(at) * kBits + __builtin_ctzll(word);
  }
  return -1;
}

bool CpuSet::includes(const CpuSet& other) const { return (other - *this).empty(); }

bool CpuSet::meets(const CpuSet& other) const {
  for (size_t at = 0; at < std::min(words_.size(), other.words_.size()); ++at) {
    if ((words_[at] & other.words_[at]) != 0) return true;
  }
  return false;
}

CpuSet& CpuSet::operator|=(const CpuSet& other) {
  words_.resize(std::max(words_.size(), other.words_.size()));
  for (size_t at = 0; at < other.words_.size(); ++at) words_[at] |= other.words_[at];
  return *this;
}

CpuSet& CpuSet::operator&=(const CpuSet& other) {
  words_.resize(std::min(words_.size(), other.words_.size()));
  for (size_t at = 0; at < words_.size(); ++at) words_[at] &= other.words_[at];
  shorten();
  return *this;
}

CpuSet& CpuSet::operator-=(const CpuSet& other) {
  for (size_t at = 0; at < std::min(words_.size(), other.words_.size()); ++at) {
    words_[at] &= ~other.words_[at];
  }
  shorten();
  return *this;
}

void CpuSet::shorten() {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

std::string CpuSet::list() const {
  std::string text;
  for (int cpu = first(); cpu >= 0;) {
    int last = cpu;
    while (has(last + 1)) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(cpu);
    if (last > cpu) text += "-" + std::to_string(last);
    cpu = next(last);
  }
  return text;
}

std::string CpuSet::mask() const {
  if (words_.empty()) return "0x0";
  std::string text = format("0x%llx", static_cast<unsigned long long>(words_.back()));
  for (size_t at = words_.size() - 1; at-- > 0;) {
    text += format("%016llx", static_cast<unsigned long long>(words_[at]));
  }
  return text;
}

}  // namespace hvd
