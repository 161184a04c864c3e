// SPDX-License-Identifier: Apache-2.0
//
// Figures of all rounds and ranks. Each rank sets its own; after gather() all have all, and make
// the same of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "libhvd/tools/perf/collectives.h"

namespace hvd::perf {

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

class RankTable {
 public:
  RankTable(int64_t rounds, size_t figures, int rank, int ranks)
      : rounds_(static_cast<size_t>(rounds)),
        figures_(figures),
        rank_(static_cast<size_t>(rank)),
        ranks_(static_cast<size_t>(ranks)),
        values_(rounds_ * figures_ * ranks_) {}

  void set(int64_t round, size_t figure, double value) {
    values_[place(static_cast<size_t>(round), figure, rank_)] = value;
  }

  // Every rank's columns are zero on the others: the sum is the table.
  Status gather(HvdCollectives& hvd) { return hvd.sum(&values_).annotate("gathering the times"); }

  // The time of a round is that of its slowest rank.
  double median_of_slowest(size_t figure) const {
    std::vector<double> slowest;
    for (size_t round = 0; round < rounds_; ++round) {
      double most = 0;
      for (size_t rank = 0; rank < ranks_; ++rank) {
        most = std::max(most, values_[place(round, figure, rank)]);
      }
      slowest.push_back(most);
    }
    return median(std::move(slowest));
  }

  double total(size_t figure) const {
    double sum = 0;
    for (size_t round = 0; round < rounds_; ++round) {
      for (size_t rank = 0; rank < ranks_; ++rank) sum += values_[place(round, figure, rank)];
    }
    return sum;
  }

 private:
  size_t place(size_t round, size_t figure, size_t rank) const {
    return (round * ranks_ + rank) * figures_ + figure;
  }

  size_t rounds_;
  size_t figures_;
  size_t rank_;
  size_t ranks_;
  std::vector<double> values_;
};

}  // namespace hvd::perf
