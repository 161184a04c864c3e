// SPDX-License-Identifier: Apache-2.0
//
// What one thread of a pack kernel does: nvcc compiles it for GPUs (pack_kernels.cu), the host's
// compiler for the tests' twins of the kernels. The elements are data/elements.h's, so a GPU and a
// CPU give the same bits.
//
// Every piece (a part of a tensor, from one place to another) is cut into chunks of equal size;
// blocks take chunks in turns. So one large piece has the whole grid, and a hundred small ones
// share it. In a chunk each thread moves 16 bytes at a time where both addresses allow it, else
// elements, else bytes. No shared memory and no barriers: blocks and threads may run in any order,
// which is what a twin needs.
//
// `to` may be `from` if their elements have the same size; else pieces do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "libhvd/data/elements.h"
#include "libhvd/transport/gpu/pack_arguments.h"

// Every kernel once: kernel(name, element read, element written).
#define HVD_PACK_FROM(kernel, name, From)                                                        \
  kernel(hvd_pack_##name##_float16, From, Half) kernel(hvd_pack_##name##_float32, From, Float32) \
      kernel(hvd_pack_##name##_float64, From, Float64)                                           \
          kernel(hvd_pack_##name##_bfloat16, From, Brain)
#define HVD_PACK_INTEGER(kernel, name, type) \
  kernel(hvd_pack_##name##_##name, Integer<type>, Integer<type>)
#define HVD_PACK_KERNELS(kernel)                                                                  \
  kernel(hvd_pack_copy, Bytes, Bytes) HVD_PACK_INTEGER(kernel, uint8, uint8_t)                    \
      HVD_PACK_INTEGER(kernel, int8, int8_t) HVD_PACK_INTEGER(kernel, uint16, uint16_t)           \
          HVD_PACK_INTEGER(kernel, int16, int16_t) HVD_PACK_INTEGER(kernel, int32, int32_t)       \
              HVD_PACK_INTEGER(kernel, int64, int64_t) HVD_PACK_FROM(kernel, float16, Half)       \
                  HVD_PACK_FROM(kernel, float32, Float32) HVD_PACK_FROM(kernel, float64, Float64) \
                      HVD_PACK_FROM(kernel, bfloat16, Brain)

namespace hvd {

namespace {

// Elements that move together, in one instruction if they are 2, 4, 8 or 16 bytes.
template <typename T, unsigned kLanes>
struct __attribute__((may_alias, aligned(sizeof(T) * kLanes))) Pack {
  T lane[kLanes];
};

// Where this thread is among all that share a chunk.
struct Turn {
  unsigned thread;
  unsigned threads;
};

template <typename T, unsigned kLanes>
HVD_ANYWHERE inline bool is_aligned(const char* at) {
  return reinterpret_cast<uintptr_t>(at) % (sizeof(T) * kLanes) == 0;
}

// A GPU ends the program at an address that its instruction cannot take; most CPUs do not mind.
template <typename T>
HVD_ANYWHERE inline T* as_aligned(T* at) {
#if !defined(__CUDA_ARCH__)
  if (reinterpret_cast<uintptr_t>(at) % alignof(T) != 0) __builtin_trap();
#endif
  return at;
}

// ---- What happens to an element ----

// Bytes are copied as they are.
struct Bytes {
  using Bits = Unaligned<uint8_t>;
};

template <typename E>
using BitsOf = decltype(E::Bits::value);

// Floating types: computed in float32, in float64 where one of both is that, and rounded once.
template <typename From, typename To>
class Change {
 public:
  static constexpr unsigned kMostLanes = 8;
  static constexpr unsigned kAhead = 4;
  static constexpr bool kWide = sizeof(BitsOf<From>) == 8 || sizeof(BitsOf<To>) == 8;
  using Step = std::conditional_t<kWide, double, float>;

  HVD_ANYWHERE explicit Change(const PackArguments& arguments)
      : factor_(static_cast<Step>(arguments.factor)) {}

  HVD_ANYWHERE BitsOf<To> operator()(BitsOf<From> bits) const {
    return store(static_cast<Step>(From::load(bits)) * factor_);
  }

 private:
  HVD_ANYWHERE static BitsOf<To> store(Step value) {
    if constexpr (kWide && sizeof(BitsOf<To>) == 2) {
      return To::store(odd_float_of(value));
    } else {
      return To::store(static_cast<typename To::Value>(value));
    }
  }

  const Step factor_;
};

template <typename T>
class Change<Integer<T>, Integer<T>> {
 public:
  // Nobody's gradients: divisions in a row are much code.
  static constexpr unsigned kMostLanes = 4;
  static constexpr unsigned kAhead = 1;

  HVD_ANYWHERE explicit Change(const PackArguments& arguments)
      : multiply_(arguments.multiply), divide_(arguments.divide) {}

  HVD_ANYWHERE T operator()(T value) const {
    if constexpr (sizeof(T) == 8) {
      if (multiply_ == 1) return static_cast<T>(value / divide_);
    }
    return truncate<T>(static_cast<double>(value) * multiply_ / static_cast<double>(divide_));
  }

 private:
  const double multiply_;
  const int64_t divide_;
};

// ---- A chunk ----

// Elements begin, begin + 1 ... end - 1, each through a T, which may be no more than aligned to 1.
template <typename From, typename To, typename Op>
HVD_ANYWHERE inline void each(const char* from, char* to, uint32_t begin, uint32_t end, Op op,
                              Turn turn) {
  const auto* source = as_aligned(reinterpret_cast<const From*>(from));
  auto* target = as_aligned(reinterpret_cast<To*>(to));
  for (uint32_t i = begin + turn.thread; i < end; i += turn.threads) {
    target[i].value = op(source[i].value);
  }
}

template <typename T>
struct __attribute__((may_alias)) Aligned {
  T value;
};

// kLanes elements at a time, and kAhead times that where there are as many: the loads of a thread
// are under way together. `lead` elements stand before the first whole vector.
template <typename F, typename T, unsigned kLanes, typename Op>
HVD_ANYWHERE inline void vectors(const char* from, char* to, uint32_t lead, uint32_t n, Op op,
                                 Turn turn) {
  constexpr unsigned kAhead = Op::kAhead;
  each<Aligned<F>, Aligned<T>>(from, to, 0, lead, op, turn);
  const auto* source =
      as_aligned(reinterpret_cast<const Pack<F, kLanes>*>(from + lead * sizeof(F)));
  auto* target = as_aligned(reinterpret_cast<Pack<T, kLanes>*>(to + lead * sizeof(T)));
  const uint32_t whole = (n - lead) / kLanes;
  uint32_t i = turn.thread;
  for (; i + (kAhead - 1) * turn.threads < whole; i += kAhead * turn.threads) {
    Pack<F, kLanes> in[kAhead];
    for (unsigned k = 0; k < kAhead; ++k) in[k] = source[i + k * turn.threads];
    for (unsigned k = 0; k < kAhead; ++k) target[i + k * turn.threads] = op.all(in[k]);
  }
  for (; i < whole; i += turn.threads) {
    const Pack<F, kLanes> in = source[i];
    target[i] = op.all(in);
  }
  each<Aligned<F>, Aligned<T>>(from, to, lead + whole * kLanes, n, op, turn);
}

// An operation on one element, on several.
template <typename F, typename T, typename Op>
struct Lanewise {
  static constexpr unsigned kAhead = Op::kAhead;
  Op op;
  HVD_ANYWHERE T operator()(F bits) const { return op(bits); }
  template <unsigned kLanes>
  HVD_ANYWHERE Pack<T, kLanes> all(const Pack<F, kLanes>& in) const {
    Pack<T, kLanes> out;
    for (unsigned k = 0; k < kLanes; ++k) out.lane[k] = op(in.lane[k]);
    return out;
  }
};

struct Same {
  static constexpr unsigned kAhead = 4;
  template <typename T>
  HVD_ANYWHERE T operator()(T bits) const {
    return bits;
  }
  template <typename V>
  HVD_ANYWHERE V all(const V& in) const {
    return in;
  }
};

template <typename From, typename To>
struct Chunk {
  using F = BitsOf<From>;
  using T = BitsOf<To>;
  static constexpr unsigned kWider = sizeof(F) > sizeof(T) ? sizeof(F) : sizeof(T);
  static constexpr unsigned kFit = 16 / kWider;
  static constexpr unsigned kMost = Change<From, To>::kMostLanes;
  static constexpr unsigned kLanes = kFit < kMost ? kFit : kMost;

  HVD_ANYWHERE static void move(const char* from, char* to, uint32_t n,
                                const PackArguments& arguments, Turn turn) {
    const Lanewise<F, T, Change<From, To>> op{Change<From, To>(arguments)};
    if (!is_aligned<F, 1>(from) || !is_aligned<T, 1>(to)) {
      return each<Unaligned<F>, Unaligned<T>>(from, to, 0, n, op, turn);
    }
    const auto past = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(to) / sizeof(T));
    const uint32_t lead = (0 - past) % kLanes;
    if (lead >= n || !is_aligned<F, kLanes>(from + lead * sizeof(F))) {
      return each<Aligned<F>, Aligned<T>>(from, to, 0, n, op, turn);
    }
    vectors<F, T, kLanes>(from, to, lead, n, op, turn);
  }
};

template <>
struct Chunk<Bytes, Bytes> {
  // As wide as addresses that differ by so much allow.
  HVD_ANYWHERE static void move(const char* from, char* to, uint32_t n, const PackArguments&,
                                Turn turn) {
    const uintptr_t apart = reinterpret_cast<uintptr_t>(from) ^ reinterpret_cast<uintptr_t>(to);
    if (apart % 16 == 0) return words<uint32_t, 4>(from, to, n, turn);
    if (apart % 8 == 0) return words<uint32_t, 2>(from, to, n, turn);
    if (apart % 4 == 0) return words<uint32_t, 1>(from, to, n, turn);
    if (apart % 2 == 0) return words<uint16_t, 1>(from, to, n, turn);
    words<uint8_t, 1>(from, to, n, turn);
  }

  template <typename Word, unsigned kWords>
  HVD_ANYWHERE static void words(const char* from, char* to, uint32_t n, Turn turn) {
    constexpr uint32_t kBytes = sizeof(Word) * kWords;
    using Byte = Aligned<uint8_t>;
    const uint32_t lead = (0 - static_cast<uint32_t>(reinterpret_cast<uintptr_t>(to))) % kBytes;
    if (lead >= n) return each<Byte, Byte>(from, to, 0, n, Same(), turn);
    const uint32_t whole = (n - lead) / kBytes;
    each<Byte, Byte>(from, to, 0, lead, Same(), turn);
    vectors<Word, Word, kWords>(from + lead, to + lead, 0, whole * kWords, Same(), turn);
    each<Byte, Byte>(from, to, lead + whole * kBytes, n, Same(), turn);
  }
};

// ---- A kernel ----

// The piece that has the chunk.
HVD_ANYWHERE inline uint32_t piece_of(const PackArguments& arguments, uint32_t chunk) {
  uint32_t first = 0;
  uint32_t last = arguments.pieces;
  while (last - first > 1) {
    const uint32_t middle = (first + last) / 2;
    (arguments.piece[middle].first_chunk <= chunk ? first : last) = middle;
  }
  return first;
}

template <typename From, typename To>
HVD_ANYWHERE inline void pack_body(const PackArguments& arguments, uint32_t block, uint32_t blocks,
                                   Turn turn) {
  for (uint32_t chunk = block; chunk < arguments.chunks; chunk += blocks) {
    const PackPiece& piece = arguments.piece[piece_of(arguments, chunk)];
    const uint32_t begin = (chunk - piece.first_chunk) * arguments.chunk;
    const uint32_t left = piece.count - begin;
    const uint32_t n = left < arguments.chunk ? left : arguments.chunk;
    const char* from = static_cast<const char*>(piece.from) + size_t{begin} * sizeof(BitsOf<From>);
    char* to = static_cast<char*>(piece.to) + size_t{begin} * sizeof(BitsOf<To>);
    Chunk<From, To>::move(from, to, n, arguments, turn);
  }
}

}  // namespace
}  // namespace hvd
