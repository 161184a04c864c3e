#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank written in Python, on libhvd.so alone (HVD_LIBRARY), for the lifecycle tests.

usage: lifecycle.py interrupt | workers | spawn | exit STATUS. "The one" is rank 1.
"""

import ctypes
import multiprocessing
import os
import sys

HOST = 0
FLOAT32 = 7
TIMEOUT = 6


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("shape", ctypes.c_void_p), ("ndim", ctypes.c_int32),
                ("type", ctypes.c_int32), ("device", ctypes.c_int32)]


def library():
    hvd = ctypes.CDLL(os.environ["HVD_LIBRARY"])
    hvd.hvd_last_error.restype = ctypes.c_char_p
    hvd.hvd_wait.argtypes = [ctypes.c_int64, ctypes.c_int64]
    return hvd


def say(*words):
    # One write: ranks share the pipe.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def submit(hvd, name):
    number = ctypes.c_float(1)
    tensor = Tensor(ctypes.addressof(number), None, 0, FLOAT32, HOST)
    handle = ctypes.c_int64()
    code = hvd.hvd_allreduce_async(name.encode(), ctypes.byref(tensor), ctypes.byref(number), 1,
                                   ctypes.c_double(1), ctypes.c_double(1), 0, ctypes.byref(handle))
    if code != 0:
        raise RuntimeError(hvd.hvd_last_error().decode())
    return handle, number


def wait(hvd, handle):
    """As the Python package will wait: signal handlers run between the slices."""
    while True:
        code = hvd.hvd_wait(handle, 100)
        if code != TIMEOUT:
            return code


def total(hvd, name):
    handle, number = submit(hvd, name)
    if wait(hvd, handle) != 0:
        raise RuntimeError(hvd.hvd_last_error().decode())
    return number.value


def told(hvd, rank, call, code):
    say("rank", rank, call + ":", code, hvd.hvd_last_error().decode())


def init_in_child():
    hvd = library()
    told(hvd, os.environ["PMIX_RANK"], "child's init", hvd.hvd_init())


def interrupt(hvd, rank):
    if rank != 1:
        return leave(hvd, rank, 0)
    handle, number = submit(hvd, "of %d" % rank)
    say("waiting", rank, os.getpid())
    try:
        told(hvd, rank, "wait", wait(hvd, handle))
    except KeyboardInterrupt:
        say("rank", rank, "KeyboardInterrupt, shutdown", hvd.hvd_shutdown())
    assert number.value == 1
    return None


def workers(hvd, rank):
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            told(hvd, rank, "worker's sum", hvd.hvd_barrier(0))
            sys.exit(0)
        children.append(child)
    say("rank", rank, "sum", total(hvd, "beside the workers"))
    say("rank", rank, "workers", [os.waitpid(child, 0)[1] for child in children])
    say("rank", rank, "sum", total(hvd, "after the workers"))


def spawn(hvd, rank):
    child = multiprocessing.get_context("spawn").Process(target=init_in_child)
    child.start()
    child.join()
    say("rank", rank, "sum", total(hvd, "after the child"))


def leave(hvd, rank, status):
    if rank == 1:
        sys.exit(status)
    handle, number = submit(hvd, "without rank 1")
    told(hvd, rank, "wait", wait(hvd, handle))
    assert number.value == 1


def main():
    hvd = library()
    if hvd.hvd_init() != 0:
        sys.exit(hvd.hvd_last_error().decode())
    rank = hvd.hvd_rank()
    if sys.argv[1] == "exit":
        leave(hvd, rank, int(sys.argv[2]))
    else:
        {"interrupt": interrupt, "workers": workers, "spawn": spawn}[sys.argv[1]](hvd, rank)


if __name__ == "__main__":
    main()
