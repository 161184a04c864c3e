// SPDX-License-Identifier: Apache-2.0
#include "spank/assign.h"

#include <cstddef>
#include <limits>

namespace hvd {
namespace {

constexpr int64_t kFar = std::numeric_limits<int64_t>::max() / 4;

// Square: what is missing of rows costs nothing.
class Assignment {
 public:
  explicit Assignment(const std::vector<std::vector<int64_t>>& cost)
      : size_(cost.empty() ? 0 : cost[0].size()),
        cost_(cost),
        row_price_(size_),
        column_price_(size_),
        row_of_(size_, kNone),
        column_of_(size_, kNone) {
    cost_.resize(size_, std::vector<int64_t>(size_, 0));
    for (size_t row = 0; row < size_; ++row) match(row);
  }

  // Rows in turn, each with the first column that leaves the rest an optimal answer.
  void put_in_order(size_t rows) {
    for (size_t row = 0; row < rows; ++row) {
      for (size_t column = 0; column < column_of_[row]; ++column) {
        if (slack(row, column) == 0 && row_of_[column] > row && exchange(row, column)) break;
      }
    }
  }

  size_t column_of(size_t row) const { return column_of_[row]; }

 private:
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();

  int64_t slack(size_t row, size_t column) const {
    return cost_[row][column] - row_price_[row] - column_price_[column];
  }

  void join(size_t row, size_t column) {
    row_of_[column] = row;
    column_of_[row] = column;
  }

  // Dijkstra from `row` over edges with slack, to the nearest column that is free.
  void match(size_t row) {
    std::vector<int64_t> least(size_, kFar);
    std::vector<size_t> from(size_, row);
    std::vector<bool> done(size_, false);
    size_t end = kNone;
    size_t at = row;
    int64_t gone = 0;
    while (end == kNone) {
      size_t next = kNone;
      for (size_t column = 0; column < size_; ++column) {
        if (done[column]) continue;
        const int64_t reach = gone + slack(at, column);
        if (reach < least[column]) {
          least[column] = reach;
          from[column] = at;
        }
        if (next == kNone || least[column] < least[next]) next = column;
      }
      gone = least[next];
      done[next] = true;
      at = row_of_[next];
      if (at == kNone) end = next;
    }
    row_price_[row] += gone;
    for (size_t column = 0; column < size_; ++column) {
      if (!done[column] || column == end) continue;
      row_price_[row_of_[column]] += gone - least[column];
      column_price_[column] -= gone - least[column];
    }
    while (true) {
      const size_t freed = column_of_[from[end]];
      const size_t by = from[end];
      join(by, end);
      if (by == row) return;
      end = freed;
    }
  }

  // Gives `column` to `row` if its present row finds another, down to the column that `row` leaves.
  bool exchange(size_t row, size_t column) {
    const size_t left = column_of_[row];
    std::vector<bool> seen(size_, false);
    seen[column] = true;
    if (!find_other(row_of_[column], left, row, &seen)) return false;
    join(row, column);
    return true;
  }

  bool find_other(size_t row, size_t goal, size_t fixed, std::vector<bool>* seen) {
    for (size_t column = 0; column < size_; ++column) {
      if ((*seen)[column] || slack(row, column) != 0 || row_of_[column] < fixed) continue;
      (*seen)[column] = true;
      if (column == goal || find_other(row_of_[column], goal, fixed, seen)) {
        join(row, column);
        return true;
      }
    }
    return false;
  }

  size_t size_;
  std::vector<std::vector<int64_t>> cost_;
  std::vector<int64_t> row_price_;
  std::vector<int64_t> column_price_;
  std::vector<size_t> row_of_;
  std::vector<size_t> column_of_;
};

}  // namespace

std::vector<int> assign(const std::vector<std::vector<int64_t>>& cost) {
  Assignment assignment(cost);
  assignment.put_in_order(cost.size());
  std::vector<int> columns;
  for (size_t row = 0; row < cost.size(); ++row) {
    columns.push_back(static_cast<int>(assignment.column_of(row)));
  }
  return columns;
}

}  // namespace hvd
