// SPDX-License-Identifier: Apache-2.0
//
// How the tensors of a batch are laid out in blocks: decided alike by the root, which numbers the
// blocks, and by every rank that runs the batch. Pure.
//
// A batch is one or several runs. A run is a concatenation of tensors of one type; what is only
// moved, not computed with, is bytes whatever its type.
#pragma once

#include <cstdint>
#include <vector>

#include "libhvd/control/description.h"

namespace hvd {

struct Run {
  DataType type = DataType::kUint8;
  size_t elements = 0;  // of `type`; as far as they are known when the batch is scheduled
  uint64_t first_block = 0;
  uint64_t end_block = 0;
  // Tensors of the batch, by their number in the order of tickets and, of a group, of members.
  std::vector<size_t> tensors;
};

// False if a batch of such operations learns how much it moves only when it runs, so that
// kUnknownBlocks are set aside for it.
bool size_known(const Description& description);

// The runs of a batch, in order. All descriptions are of one kind and one op.
std::vector<Run> plan_runs(const std::vector<const Description*>& batch, uint64_t first_block,
                           uint64_t block_bytes);

}  // namespace hvd
