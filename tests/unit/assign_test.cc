// SPDX-License-Identifier: Apache-2.0
//
// The assignment problem, against trying everything.
#include "spank/assign.h"

#include <algorithm>
#include <numeric>

#include "tests/random.h"
#include "tests/unit/catch.h"

namespace hvd {
namespace {

using Costs = std::vector<std::vector<int64_t>>;

int64_t sum_of(const Costs& cost, const std::vector<int>& columns) {
  int64_t sum = 0;
  for (size_t row = 0; row < cost.size(); ++row)
    sum += cost[row][static_cast<size_t>(columns[row])];
  return sum;
}

// All ways to give rows columns, in lexicographic order; the first of the cheapest.
void try_all(const Costs& cost, std::vector<int>* chosen, int64_t sum, int64_t* least,
             std::vector<int>* best) {
  if (*least >= 0 && sum > *least) return;
  if (chosen->size() == cost.size()) {
    if (*least < 0 || sum < *least) {
      *least = sum;
      *best = *chosen;
    }
    return;
  }
  const auto& row = cost[chosen->size()];
  for (size_t column = 0; column < row.size(); ++column) {
    const int number = static_cast<int>(column);
    if (std::find(chosen->begin(), chosen->end(), number) != chosen->end()) continue;
    chosen->push_back(number);
    try_all(cost, chosen, sum + row[column], least, best);
    chosen->pop_back();
  }
}

TEST_CASE("assignment: the sum is minimal and the first of equal answers is given, up to 8 x 8") {
  test::Random random(11);
  for (int round = 0; round < 1500; ++round) {
    const size_t columns = 1 + random.below(round % 50 == 0 ? 8 : 6);
    const size_t rows = 1 + random.below(columns);
    const auto most = static_cast<size_t>(1) << random.below(10);  // small costs tie
    Costs cost(rows, std::vector<int64_t>(columns));
    for (auto& row : cost) {
      for (int64_t& c : row) c = static_cast<int64_t>(random.below(most));
    }
    std::vector<int> best;
    std::vector<int> chosen;
    int64_t least = -1;
    try_all(cost, &chosen, 0, &least, &best);
    const std::vector<int> answer = assign(cost);
    CAPTURE(round, rows, columns, most);
    REQUIRE(sum_of(cost, answer) == least);
    REQUIRE(answer == best);
  }
}

TEST_CASE("assignment: nothing to assign, and many equal ones") {
  CHECK(assign({}).empty());
  const std::vector<int> answer = assign(Costs(64, std::vector<int64_t>(128, 7)));
  std::vector<int> in_order(64);
  std::iota(in_order.begin(), in_order.end(), 0);
  CHECK(answer == in_order);
}

}  // namespace
}  // namespace hvd
