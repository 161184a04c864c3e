// SPDX-License-Identifier: Apache-2.0
//
// What one launch of a pack kernel is told, by value: the layout is the host compiler's and nvcc's.
// pack.h fills it, pack_body.h reads it. It stays under the 4 KB of parameters that every driver
// takes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hvd {

constexpr uint32_t kMostPackPieces = 160;
constexpr unsigned kPackThreads = 256;  // of a block

struct PackPiece {
  const void* from;
  void* to;
  uint32_t count;        // elements; at least 1
  uint32_t first_chunk;  // chunks of the pieces before this one
};

struct PackArguments {
  uint32_t pieces;
  uint32_t chunks;  // of all pieces
  uint32_t chunk;   // elements of each but the last of a piece
  uint32_t unused;
  double factor;  // floating types: multiply / divide
  double multiply;
  int64_t divide;
  PackPiece piece[kMostPackPieces];
};

static_assert(sizeof(PackPiece) == 24 && sizeof(PackArguments) == 3880, "nvcc's layout is ours");

}  // namespace hvd
