# SPDX-License-Identifier: Apache-2.0
"""What Python costs: a training step's gradients, one call, and a rank that waits. Run by tests/python/bench.

Rank 0 prints one JSON object: {"tensors", "step_us", "c_call_us", "python_call_us", "blocked_percent"}. Times are
medians over rounds of the slowest rank's.
"""

import argparse
import ctypes
import json
import statistics
import threading
import time

import torch
import horovod.torch as hvd
from horovod.common._library import SUM, TYPES, Tensor, lib


def resnet50_gradients():
    """float32 tensors in the sizes of ResNet-50's parameters, the last layer first; the names of their order."""
    sizes = [3 * 64 * 49, 64, 64]
    inputs = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            sizes += [inputs * width, width, width, width * width * 9, width, width, width * width * 4, width * 4,
                      width * 4]
            if block == 0:
                sizes += [inputs * width * 4, width * 4, width * 4]
            inputs = width * 4
    sizes += [2048 * 1000, 1000]
    return [(f"step.{i}", torch.ones(count)) for i, count in reversed(list(enumerate(sizes)))]


def slowest(seconds):
    return hvd.allreduce(torch.tensor(seconds, dtype=torch.float64), op=hvd.Max, name="slowest").item()


def timed(step):
    hvd.barrier()
    start = time.perf_counter()
    step()
    return slowest(time.perf_counter() - start) * 1e6


def step_us(steps):
    """A step: every gradient is submitted, then all are waited for."""
    gradients = resnet50_gradients()

    def step():
        for handle in [hvd.allreduce_async_(gradient, op=hvd.Average, name=name) for name, gradient in gradients]:
            hvd.synchronize(handle)

    return len(gradients), [timed(step) for _ in range(steps)]


def call_us(rounds, calls):
    """What a rank does in submit and synchronize, from Python and from C: nothing else is in flight."""
    tensor = torch.ones(64)
    shape = (ctypes.c_int64 * 1)(64)
    described = Tensor(tensor.data_ptr(), shape, 1, TYPES["float32"], 0)
    names = [f"call.{i}" for i in range(calls)]
    c_names = [name.encode() for name in names]

    def from_c():
        handle = ctypes.c_int64()
        for name in c_names:
            lib.hvd_allreduce_async(name, described, tensor.data_ptr(), SUM, 1.0, 1.0, 0, handle)
            lib.hvd_wait(handle.value, 1000)

    def from_python():
        for name in names:
            hvd.allreduce_(tensor, op=hvd.Sum, name=name)

    times = {from_c: [], from_python: []}
    for _ in range(rounds):
        for function, found in times.items():
            tensor.fill_(0)
            found.append(timed(function) / calls)
    return [statistics.median(found) for found in times.values()]


def blocked_percent(seconds):
    """CPU time of rank 0 while it is blocked in synchronize for a rank that comes later."""
    late = hvd.size() - 1
    timer = threading.Event()
    if hvd.rank() == late:
        timer.wait(seconds)
    wall, used = time.monotonic(), time.process_time()
    hvd.allreduce(torch.ones(4), name="blocked")
    wall, used = time.monotonic() - wall, time.process_time() - used
    percent = 100 * used / wall if hvd.rank() != late else 0.0
    return slowest(percent)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=5, help="how long a rank is blocked")
    options = parser.parse_args()
    hvd.init()
    torch.set_num_threads(1)
    tensors, steps = step_us(options.steps + 2)
    c_call, python_call = call_us(9, 200)
    found = {"tensors": tensors, "step_us": statistics.median(steps[2:]), "c_call_us": c_call,
             "python_call_us": python_call, "blocked_percent": blocked_percent(options.seconds)}
    if hvd.rank() == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
