// SPDX-License-Identifier: Apache-2.0
//
// Results that are no plain ones: Adasum, and sums that cross between nodes in a lower precision.
#include <math.h>
#include <string.h>

#include <string>
#include <vector>

#include "libhvd/data/kernels.h"
#include "tests/unit/catch.h"
#include "tests/unit/stream_job.h"
#include "tests/unit/thread_job.h"

using namespace hvd;
using namespace hvd::test;

namespace {

using Vector = std::vector<double>;

Vector numbers(DataType type, const Bytes& bytes) {
  Vector v(bytes.size() / size_of(type));
  kernels().convert(DataType::kFloat64, v.data(), type, bytes.data(), v.size());
  return v;
}

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Vector adasum(const Vector& a, const Vector& b) {
  const double ab = dot(a, b);
  const double ca = dot(a, a) == 0 ? 1 : 1 - ab / (2 * dot(a, a));
  const double cb = dot(b, b) == 0 ? 1 : 1 - ab / (2 * dot(b, b));
  Vector sum(a.size());
  for (size_t i = 0; i < a.size(); ++i) sum[i] = ca * a[i] + cb * b[i];
  return sum;
}

// Of all members: those beyond the power of two first, then neighbours, their neighbours ...
Vector adasum_of(const Item& item, size_t tensor) {
  std::vector<Vector> all;
  for (int member = 0; member < static_cast<int>(item.members.size()); ++member) {
    all.push_back(numbers(item.type, input_of(item, member, tensor)));
  }
  size_t power = 1;
  while (power * 2 <= all.size()) power *= 2;
  for (size_t i = power; i < all.size(); ++i) all[i - power] = adasum(all[i - power], all[i]);
  for (; power > 1; power /= 2) {
    for (size_t i = 0; i < power / 2; ++i) all[i] = adasum(all[2 * i], all[2 * i + 1]);
  }
  return all[0];
}

double distance(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sqrt(sum);
}

Item of_all(const Layout& layout, DataType type, std::vector<size_t> elements) {
  Item item;
  item.type = type;
  for (int rank = 0; rank < layout.size; ++rank) item.members.push_back(rank);
  item.elements = std::move(elements);
  return item;
}

}  // namespace

TEST_CASE("Adasum is that of the paper, in any layout and whatever else is in the batch",
          "[ranks-as-threads]") {
  for (const JobShape& shape : job_shapes()) {
    StreamJob job(shape.node_of_rank, {});
    std::vector<Item> schedule;
    for (DataType type : {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16}) {
      for (std::vector<size_t> elements : {std::vector<size_t>{5000, 1, 0, 33},
                                           std::vector<size_t>{5000}, std::vector<size_t>{0}}) {
        schedule.push_back(of_all(job.layout(), type, elements));
        schedule.back().op = ReduceOp::kAdasum;
        schedule.back().seed = 1;  // the first tensors of all are the same
      }
    }
    INFO(shape.name);
    REQUIRE(job.run(schedule) == "");
    REQUIRE(job.wrong_results() == "");
    for (size_t i = 0; i < schedule.size(); ++i) {
      const Item& item = job.schedule()[i];
      const double most = item.type == DataType::kFloat32   ? 1e-6
                          : item.type == DataType::kFloat64 ? 1e-13
                                                            : 1e-2;
      for (size_t t = 0; t < item.tensors(); ++t) {
        const Vector want = adasum_of(item, t);
        const Vector got = numbers(item.type, job.output(i, 0, t));
        INFO("item " << i << ", tensor " << t);
        REQUIRE(distance(got, want) <= most * sqrt(dot(want, want)));
      }
      if (i % 3 == 1) CHECK(job.output(i, 0, 0) == job.output(i - 1, 0, 0));
    }
  }
}

TEST_CASE("Adasum of the same vectors is the vector, of orthogonal ones their sum",
          "[ranks-as-threads]") {
  for (const JobShape& shape : job_shapes()) {
    StreamJob job(shape.node_of_rank, {});
    std::vector<Item> schedule;
    for (Item::Pattern pattern : {Item::Pattern::kSame, Item::Pattern::kOrthogonal}) {
      schedule.push_back(of_all(job.layout(), DataType::kFloat32, {777}));
      schedule.back().op = ReduceOp::kAdasum;
      schedule.back().pattern = pattern;
    }
    INFO(shape.name);
    REQUIRE(job.run(schedule) == "");
    CHECK(job.output(0, 0, 0) == input_of(job.schedule()[0], 0, 0));
    Item sum = job.schedule()[1];
    sum.op = ReduceOp::kSum;
    CHECK(job.output(1, 0, 0) == result_of(sum, job.layout(), 0, 0));
  }
}

TEST_CASE("sums that cross in 16 bits have one rounding per hop and the same bits everywhere",
          "[ranks-as-threads]") {
  for (const JobShape& shape : job_shapes()) {
    StreamJob job(shape.node_of_rank, {});
    for (WireType wire : {WireType::kBfloat16, WireType::kFloat16}) {
      std::vector<Item> schedule;
      for (DataType type : {DataType::kFloat32, DataType::kFloat64}) {
        // The same tensor in small and large shards, and scattered by rows.
        for (std::vector<size_t> elements :
             {std::vector<size_t>{600}, std::vector<size_t>{600, 30000}}) {
          schedule.push_back(of_all(job.layout(), type, elements));
        }
        schedule.push_back(of_all(job.layout(), type, {}));
        schedule.back().kind = OpKind::kReducescatter;
        schedule.back().rows = {{200}};
        schedule.back().row_elements = {3};
      }
      for (Item& item : schedule) {
        item.wire = wire;
        item.seed = 3;
      }
      INFO(shape.name);
      REQUIRE(job.run(schedule) == "");
      REQUIRE(job.wrong_results() == "");
      const double unit = wire == WireType::kBfloat16 ? 1.0 / 256 : 1.0 / 2048;
      const double hops = job.layout().nodes() == 1 ? 0 : ceil(log2(job.layout().nodes())) + 1;
      for (size_t i = 0; i < schedule.size(); i += 3) {
        const Item& item = job.schedule()[i];
        Vector want(600), size(600);
        for (int member = 0; member < job.layout().size; ++member) {
          const Vector x = numbers(item.type, input_of(item, member, 0));
          for (size_t k = 0; k < 600; ++k) {
            want[k] += x[k];
            size[k] += fabs(x[k]);
          }
        }
        const Vector got = numbers(item.type, job.output(i, 0, 0));
        bool near = true;
        for (size_t k = 0; k < 600; ++k) {
          near &= fabs(got[k] - want[k]) <= (hops * unit * 1.01 + 1e-6) * size[k];
        }
        CHECK(near);
        CHECK(job.output(i, 0, 0) == job.output(i + 1, 0, 0));
        Bytes rows;
        for (int member = 0; member < job.layout().size; ++member) {
          const Bytes& part = job.output(i + 2, member, 0);
          rows.insert(rows.end(), part.begin(), part.end());
        }
        CHECK(rows == job.output(i, 0, 0));
      }
    }
  }
}
