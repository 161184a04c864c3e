// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/gpu/run.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "tests/fakes/gpu/reduce.h"

namespace fake_gpu {
namespace {

const char* name_of(const Descriptor& descriptor) {
  Operation operation = {};
  operation.kind = static_cast<Kind>(descriptor.kind);
  return operation.name();
}

std::string text_of(const Descriptor& d) {
  return std::string(name_of(d)) + " count " + std::to_string(d.count) + " type " +
         std::to_string(d.type) + " op " + std::to_string(d.op) + " root " + std::to_string(d.root);
}

// One collective operation of this rank.
class Collective {
 public:
  Collective(const Operation& operation, std::uint64_t number)
      : operation_(operation),
        comm_(*operation.comm),
        number_(number),
        size_(size_of_type(operation.type)),
        ranks_(static_cast<size_t>(comm_.ranks())),
        in_(memory().engine_view(reinterpret_cast<std::uintptr_t>(operation.in))),
        out_(memory().engine_view(reinterpret_cast<std::uintptr_t>(operation.out))) {}

  // False: aborted.
  bool run() {
    if (!agree()) return false;
    const size_t step = kSlotBytes / size_ / (operation_.kind == Kind::kReduceScatter ? ranks_ : 1);
    for (size_t first = 0; first < operation_.count; first += step) {
      const size_t count = std::min(step, operation_.count - first);
      give(first, count, step);
      if (!barrier()) return false;
      take(first, count, step);
      if (!barrier()) return false;
    }
    return true;
  }

 private:
  bool barrier() { return comm_.barrier(kDeviceWork, operation_.name(), number_); }

  bool agree() {
    Descriptor& mine = comm_.segment().plate(comm_.rank()).doing;
    mine = {};
    mine.number = number_;
    mine.count = operation_.count;
    mine.kind = static_cast<int>(operation_.kind);
    mine.type = operation_.type;
    mine.op = operation_.op;
    mine.root = operation_.root;
    if (!barrier()) return false;
    for (int i = 0; i < comm_.ranks(); ++i) {
      const Descriptor& other = comm_.segment().plate(i).doing;
      if (memcmp(&other, &mine, sizeof mine) == 0) continue;
      violation("mismatch", "launch %llu of %s is %s here, and %s on rank %d",
                static_cast<unsigned long long>(number_), comm_.name().c_str(),
                text_of(mine).c_str(), text_of(other).c_str(), i);
    }
    return barrier();
  }

  // Elements [first, +count) of what this rank gives, into its slot; of a reduce-scatter, of every
  // rank's block.
  void give(size_t first, size_t count, size_t step) {
    char* slot = comm_.segment().slot(comm_.rank());
    if (operation_.kind == Kind::kReduceScatter) {
      for (size_t rank = 0; rank < ranks_; ++rank) {
        memcpy(slot + rank * step * size_, in_ + (rank * operation_.count + first) * size_,
               count * size_);
      }
    } else if (operation_.in_bytes() > 0) {
      memcpy(slot, in_ + first * size_, count * size_);
    }
  }

  void take(size_t first, size_t count, size_t step) {
    if (operation_.out_bytes() == 0) return;
    const size_t block = operation_.kind == Kind::kReduceScatter
                             ? static_cast<size_t>(comm_.rank()) * step * size_
                             : 0;
    std::vector<const char*> slots;
    for (int i = 0; i < comm_.ranks(); ++i) slots.push_back(comm_.segment().slot(i) + block);
    switch (operation_.kind) {
      case Kind::kBroadcast:
        memcpy(out_ + first * size_, slots[static_cast<size_t>(operation_.root)], count * size_);
        break;
      case Kind::kAllGather:
        for (size_t rank = 0; rank < ranks_; ++rank) {
          memcpy(out_ + (rank * operation_.count + first) * size_, slots[rank], count * size_);
        }
        break;
      default:
        reduce(operation_.type, operation_.op, slots, count, out_ + first * size_);
    }
  }

  const Operation& operation_;
  Comm& comm_;
  std::uint64_t number_;
  size_t size_, ranks_;
  const char* in_;
  char* out_;
};

// A send or a receive on its way.
struct Transfer {
  const Operation* operation;
  size_t bytes, done = 0;
  bool finished = false;
  bool sends() const { return operation->kind == Kind::kSend; }
};

// The next piece of a message, if the mail is free. True: something moved. A send ends when it was
// received: NCCL may end it earlier, but nobody can count on that.
bool send_piece(Transfer& transfer, Mail& mail) {
  if (mail.written != mail.read) return false;
  if (transfer.done == transfer.bytes) {
    transfer.finished = true;
    return true;
  }
  const auto from = memory().engine_view(reinterpret_cast<std::uintptr_t>(transfer.operation->in));
  const size_t bytes = std::min(kMailBytes, transfer.bytes - transfer.done);
  memcpy(mail.data, from + transfer.done, bytes);
  mail.message_bytes = transfer.bytes;
  mail.type = transfer.operation->type;
  mail.piece_bytes = static_cast<std::uint32_t>(bytes);
  ++mail.written;
  transfer.done += bytes;
  return true;
}

bool receive_piece(Transfer& transfer, Mail& mail) {
  if (mail.written == mail.read) return false;
  const Operation& operation = *transfer.operation;
  if (mail.message_bytes != transfer.bytes || mail.type != operation.type) {
    violation("mismatch",
              "rank %d receives %zu bytes of type %d from rank %d, which sends %llu of type %d",
              operation.comm->rank(), transfer.bytes, operation.type, operation.root,
              static_cast<unsigned long long>(mail.message_bytes), mail.type);
  }
  memcpy(memory().engine_view(reinterpret_cast<std::uintptr_t>(operation.out)) + transfer.done,
         mail.data, mail.piece_bytes);
  transfer.done += mail.piece_bytes;
  transfer.finished = transfer.done == transfer.bytes;
  ++mail.read;
  return true;
}

// All that can move; messages between the same two ranks one after the other. True: all have
// arrived.
bool move(std::vector<Transfer>& transfers, Comm& comm) {
  bool moved = false, finished = true;
  for (size_t i = 0; i < transfers.size(); ++i) {
    Transfer& transfer = transfers[i];
    const bool waits = std::any_of(
        transfers.begin(), transfers.begin() + static_cast<long>(i), [&](const Transfer& earlier) {
          return !earlier.finished && earlier.sends() == transfer.sends() &&
                 earlier.operation->root == transfer.operation->root;
        });
    if (!transfer.finished && !waits) {
      const int peer = transfer.operation->root;
      const bool sends = transfer.sends();
      Mail& mail =
          sends ? comm.segment().mail(comm.rank(), peer) : comm.segment().mail(peer, comm.rank());
      if (sends ? send_piece(transfer, mail) : receive_piece(transfer, mail)) moved = true;
    }
    finished = finished && transfer.finished;
  }
  if (moved) comm.segment().ring();
  return finished;
}

bool run_transfers(const std::vector<Operation>& operations, std::uint64_t number) {
  std::vector<Transfer> transfers;
  for (const Operation& each : operations) {
    if (each.pairs() && each.count > 0) {
      transfers.push_back(Transfer{&each, each.count * size_of_type(each.type)});
    }
  }
  if (transfers.empty()) return true;
  Comm& comm = *operations[0].comm;
  return comm.wait([&] { return move(transfers, comm); }, kDeviceWork, "ncclSend or ncclRecv",
                   number);
}

}  // namespace

void run(const std::vector<Operation>& operations, std::uint64_t number) {
  if (!run_transfers(operations, number)) return;
  for (const Operation& each : operations) {
    if (!each.pairs() && !Collective(each, number).run()) return;
  }
}

}  // namespace fake_gpu
