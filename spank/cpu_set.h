// SPDX-License-Identifier: Apache-2.0
//
// A set of CPUs: what the system calls CPU 0, 1, ... (hwloc's PUs, taskset's numbers). Not
// cpu_set_t, which has a fixed size, and not hwloc's bitmap, which would need hwloc. A value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd {

class CpuSet {
 public:
  static constexpr int kMost = 8192;  // CPUs 0 to kMost - 1; others cannot be members

  CpuSet() = default;
  CpuSet(std::initializer_list<int> cpus);
  // From `first` to `last`, both of them.
  static CpuSet range(int first, int last);
  // "0-3,8" as the kernel and taskset write it; "" is the empty set. Nothing if it is no list or
  // has a CPU that cannot be a member.
  static std::optional<CpuSet> parse(std::string_view list);

  void add(int cpu);
  bool has(int cpu) const;
  bool empty() const { return words_.empty(); }
  int count() const;
  int first() const { return next(-1); }
  // The smallest member above `cpu`; -1 if there is none.
  int next(int cpu) const;
  bool includes(const CpuSet& other) const;
  bool meets(const CpuSet& other) const;

  CpuSet& operator|=(const CpuSet& other);
  CpuSet& operator&=(const CpuSet& other);
  CpuSet& operator-=(const CpuSet& other);
  friend CpuSet operator|(CpuSet a, const CpuSet& b) { return a |= b; }
  friend CpuSet operator&(CpuSet a, const CpuSet& b) { return a &= b; }
  friend CpuSet operator-(CpuSet a, const CpuSet& b) { return a -= b; }
  bool operator==(const CpuSet& other) const { return words_ == other.words_; }
  bool operator!=(const CpuSet& other) const { return words_ != other.words_; }

  std::string list() const;  // "0-3,8"
  std::string mask() const;  // "0x10f", as Slurm's --cpu-bind=mask_cpu takes it

 private:
  void shorten();

  std::vector<uint64_t> words_;  // the last one is not 0
};

}  // namespace hvd
