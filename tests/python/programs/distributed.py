# SPDX-License-Identifier: Apache-2.0
"""A script for torch.distributed as torchrun starts it: python3 distributed.py [--horovod].

Sums over all ranks and a step of DistributedDataParallel; with --horovod, horovod in the same program agrees.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def check_sum(rank, size):
    """all_reduce of [rank, 1]: [2] float."""
    numbers = torch.tensor([float(rank), 1.0])
    dist.all_reduce(numbers)
    assert numbers.tolist() == [size * (size - 1) / 2, size], numbers


def check_gradients(rank, size):
    """The gradient of a weight of 1 element is the mean over ranks that have each the picture [rank]."""
    model = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
    model(torch.tensor([[float(rank)]])).sum().backward()
    gradient = model.module.weight.grad.item()
    assert gradient == (size - 1) / 2, gradient


def check_horovod(rank, size):
    import horovod.torch as hvd
    hvd.init()
    assert (hvd.rank(), hvd.size(), hvd.local_rank()) == (rank, size, int(os.environ["LOCAL_RANK"]))
    assert hvd.allreduce(torch.tensor([float(rank)]), op=hvd.Sum).item() == size * (size - 1) / 2
    hvd.shutdown()


def main():
    dist.init_process_group("gloo", init_method="env://")
    rank, size = dist.get_rank(), dist.get_world_size()
    check_sum(rank, size)
    check_gradients(rank, size)
    if "--horovod" in sys.argv:
        check_horovod(rank, size)
    place = "local {LOCAL_RANK}/{LOCAL_WORLD_SIZE} node {NODE_RANK} by {MASTER_ADDR}".format_map(os.environ)
    print(f"rank {rank}/{size} {place}: sums are right", flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
