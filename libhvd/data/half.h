// SPDX-License-Identifier: Apache-2.0
//
// float16 and bfloat16 from and to float32, one element at a time, in integer arithmetic and
// without branches, so that a loop over them can be vectorised. What a processor converts by itself
// (loops.h) gives the same bits.
//
// Nearest, ties to even. A NaN stays one, and becomes the one quiet NaN of a type that is stored.
// Between float32 and the 16-bit types neither the flush-to-zero nor the denormals-are-zero mode of
// the processor changes a result.
//
// Included once per instruction set, below the set's target: everything is in an unnamed namespace.
// GPUs are one more: their kernels (transport/gpu/pack_body.h) are made of the same functions.
#pragma once

#include <cstdint>
#include <cstring>

// In nvcc's hands a function for both sides.
#if defined(__CUDACC__)
#define HVD_ANYWHERE __host__ __device__
#else
#define HVD_ANYWHERE
#endif

namespace hvd {
namespace {

constexpr uint32_t kNanFloat = 0x7fc00000;
constexpr uint16_t kNanHalf = 0x7e00;
constexpr uint16_t kNanBrain = 0x7fc0;

HVD_ANYWHERE inline float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

HVD_ANYWHERE inline uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}

HVD_ANYWHERE inline float float_of_half(uint16_t half) {
#if defined(__CUDA_ARCH__)
  // Exact, and so is the next one's rounding; the arithmetic below would take longer than memory.
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
  return x;
#else
  constexpr uint32_t kRebias = (127 - 15) << 23;
  const uint32_t magnitude = half & 0x7fffu;
  const uint32_t sign = (half & 0x8000u) << 16;
  uint32_t bits = (magnitude << 13) + kRebias;
  bits += magnitude >= 0x7c00 ? kRebias : 0;
  // Below 2^-14 the fraction has no leading one: put it in, and take it off in floating point.
  const uint32_t leading = kRebias + (1u << 23);
  const uint32_t small = bits_of(float_of((magnitude << 13) + leading) - float_of(leading));
  bits = magnitude < 0x0400 ? small : bits;
  return float_of(bits | sign);
#endif
}

HVD_ANYWHERE inline uint16_t half_of_float(float x) {
#if defined(__CUDA_ARCH__)
  uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
  return x == x ? half : kNanHalf;
#else
  constexpr uint32_t kRebias = (127 - 15) << 23;
  const uint32_t all = bits_of(x);
  const uint32_t magnitude = all & 0x7fffffffu;
  const uint32_t sign = (all >> 16) & 0x8000u;
  uint32_t bits = (magnitude - kRebias + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  // Below 2^-14 one unit is 2^-24, the last bit of numbers around 0.5: the addition rounds.
  const uint32_t small = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
  bits = magnitude < 0x38800000 ? small : bits;
  bits = magnitude >= 0x47800000 ? 0x7c00 : bits;
  return static_cast<uint16_t>(x == x ? bits | sign : kNanHalf);
#endif
}

HVD_ANYWHERE inline float float_of_brain(uint16_t brain) {
  return float_of(static_cast<uint32_t>(brain) << 16);
}

HVD_ANYWHERE inline uint16_t brain_of_float(float x) {
  const uint32_t bits = bits_of(x);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return static_cast<uint16_t>(x == x ? rounded : kNanBrain);
}

// The neighbour of x whose last bit is one, x itself if float32 has it: rounded again to a type
// with at least two bits less this gives what one rounding of x would have given.
HVD_ANYWHERE inline float odd_float_of(double x) {
  const float nearest = static_cast<float>(x);
  const double back = static_cast<double>(nearest);
  const uint32_t bits = bits_of(nearest);
  const uint32_t towards_zero = __builtin_fabs(back) > __builtin_fabs(x) ? bits - 1 : bits;
  return float_of(back != x ? towards_zero | 1 : towards_zero);
}

}  // namespace
}  // namespace hvd
