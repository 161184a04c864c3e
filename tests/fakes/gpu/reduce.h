// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of NCCL's reductions on the CPU. Pure. The 16-bit floats are reduced in float32
// and rounded once, which a ring would do at every hop: only sums that are exact are the same.
#ifndef TESTS_FAKES_GPU_REDUCE_H
#define TESTS_FAKES_GPU_REDUCE_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fake_gpu {

// Bytes of an element; 0 for a type that is not faked.
size_t size_of_type(int type);

// Every rank's elements, in the order of ranks, into out, which may be one of them.
void reduce(int type, int op, const std::vector<const char*>& in, size_t count, char* out);

float from_float16(std::uint16_t bits);
std::uint16_t to_float16(float value);
float from_bfloat16(std::uint16_t bits);
std::uint16_t to_bfloat16(float value);

}  // namespace fake_gpu

#endif  // TESTS_FAKES_GPU_REDUCE_H
