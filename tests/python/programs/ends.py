# SPDX-License-Identifier: Apache-2.0
"""How a training script ends, and what interrupts it: python3 ends.py raise | catch | signals."""

import signal
import sys
import time

import torch
import horovod.torch as hvd


def load(batch):
    if hvd.rank() == 1:
        raise KeyError(f"no image {batch}")
    return torch.ones(4)


def train_step(batch):
    return hvd.allreduce(load(batch), name=f"step.{batch}")


def die():
    """Rank 1 meets an exception that nobody catches."""
    hvd.allreduce(torch.ones(4), name="before")
    train_step(7)
    print(f"rank {hvd.rank()} goes on")


def catch():
    """The others catch what comes of it, and end in order."""
    try:
        die()
    except hvd.HorovodInternalError as error:
        print(f"rank {hvd.rank()} caught: {error}", flush=True)


def wait_for_what_nobody_else_submits():
    hvd.synchronize(hvd.allreduce_async(torch.ones(4), name=f"only.{hvd.rank()}"))


def signals():
    """Handlers run while a rank is blocked in synchronize; Ctrl-C ends the wait."""
    begun = {}

    def handle(number, _):
        begun[number] = time.monotonic()
        print(f"rank {hvd.rank()} handles {signal.Signals(number).name}", flush=True)

    signal.signal(signal.SIGUSR1, handle)
    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print(f"rank {hvd.rank()} waits", flush=True)
    try:
        wait_for_what_nobody_else_submits()
    except KeyboardInterrupt:
        print(f"rank {hvd.rank()} is interrupted after {len(begun)} signals", flush=True)


hvd.init()
{"raise": die, "catch": catch, "signals": signals}[sys.argv[1]]()
