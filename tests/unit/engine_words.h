// SPDX-License-Identifier: Apache-2.0
//
// Shorthands for tests of the engine with ranks as threads: operations, and what is to come of
// them. What goes wrong is complained of, for assertions are for the test's own thread.
#pragma once

#include <string>
#include <vector>

#include "tests/unit/random_cases.h"
#include "tests/unit/thread_job.h"

namespace hvd::test {

constexpr int64_t kDeadlineMs = 60000;

// Operations in place; the name may be empty.
OperationPtr summing(std::vector<float>* data, const std::string& name, int32_t set = 0);
OperationPtr averaging(std::vector<float>* data, int ranks, const std::string& name);
OperationPtr copying(std::vector<float>* data, int root, const std::string& name, int32_t set = 0);
OperationPtr grouped(std::vector<float>* a, std::vector<int64_t>* b, std::vector<float>* c,
                     const std::string& name);
OperationPtr barrier_of(int32_t set, const std::string& name = "");
OperationPtr adding_set(std::vector<int32_t> ranks, int32_t* id, const std::string& name = "");
OperationPtr removing_set(int32_t set, const std::string& name = "");
OperationPtr joining(int32_t* last);

// 0 if it was refused, which is complained of.
int64_t start(Engine& engine, OperationPtr operation, Complaints* complaints, int rank);
// Waits, and complains unless it ends well.
void finish(Engine& engine, int64_t handle, Complaints* complaints, int rank);
// The number of the set.
int32_t add_set(Engine& engine, const std::vector<int32_t>& ranks, Complaints* complaints,
                int rank);

bool has(const std::vector<int32_t>& members, int rank);
bool all_are(const std::vector<float>& data, float value);
std::string text_of(const Engine::Sizes& sizes);

}  // namespace hvd::test
