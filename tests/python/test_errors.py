# SPDX-License-Identifier: Apache-2.0
"""Errors: wrong arguments are a ValueError at the call, ranks that disagree a HorovodInternalError at synchronize."""

import os
import signal
import threading
import time

import pytest
import torch


@pytest.mark.parametrize("tensor, text", [
    ([1.0, 2.0], "a torch.Tensor is needed, not list"),
    (torch.zeros(2, dtype=torch.complex64), "type complex64 are not supported; there are uint8, int8"),
    (torch.zeros(2, 2).to_sparse(), "layout is sparse_coo, which is not dense; use sparse_allreduce_async"),
    (torch.zeros(2, device="meta"), "the tensor is on meta, and this release works on host memory"),
    (torch.zeros([1] * 17), "17 dimensions, more than 16"),
], ids=["list", "complex", "sparse", "device", "dimensions"])
def test_tensors_that_cannot_be_sent_say_why(hvd, tensor, text):
    for function in (hvd.allreduce, hvd.allreduce_, hvd.allgather, hvd.reducescatter, hvd.alltoall,
                     lambda t: hvd.broadcast(t, 0), lambda t: hvd.grouped_allreduce([t]),
                     lambda t: hvd.grouped_allgather([t]), hvd.allreduce_async):
        with pytest.raises(ValueError, match=text):
            function(tensor)


@pytest.mark.parametrize("function", ["allreduce_", "allreduce_async_", "broadcast_", "grouped_allreduce_"])
def test_in_place_needs_contiguous_tensors(hvd, function):
    tensor = torch.zeros(3, 4).t()
    arguments = {"broadcast_": (tensor, 0), "grouped_allreduce_": ([tensor],)}.get(function, (tensor,))
    with pytest.raises(ValueError, match="not contiguous, so nothing can be done in place; use the function without"):
        getattr(hvd, function)(*arguments)


@pytest.mark.parametrize("call, text", [
    (lambda hvd: hvd.allreduce(torch.ones(1), average=True, op=hvd.Sum), "op and average are both given"),
    (lambda hvd: hvd.allreduce(torch.ones(1), op=17), "op is 17, none of hvd_op"),
    (lambda hvd: hvd.allreduce(torch.ones(1), op="sum"), "it is one of hvd.Average"),
    (lambda hvd: hvd.allreduce(torch.ones(1), name=3), "the name of an operation is a string, not int"),
    (lambda hvd: hvd.allreduce(torch.ones(1, dtype=torch.int32), op=hvd.Adasum),
     "adasum is for floating types, not for int32"),
    (lambda hvd: hvd.allreduce(torch.ones(1, dtype=torch.bool), op=hvd.Average), "there is no average of bool"),
    (lambda hvd: hvd.grouped_allreduce(torch.ones(1)), "takes a list of tensors, not Tensor"),
    (lambda hvd: hvd.grouped_allreduce([]), "at least one tensor"),
    (lambda hvd: hvd.allgather(torch.tensor(1.0)),
     "allgather works on the rows of a tensor, and this one has no dimension"),
    (lambda hvd: hvd.reducescatter(torch.tensor(1.0)), "one dimension or more"),
    (lambda hvd: hvd.reducescatter(torch.ones(2), op=hvd.Adasum), "reducescatter has no adasum"),
    (lambda hvd: hvd.broadcast(torch.ones(1), 1000), "the root is 1000, no member of process set 0"),
    (lambda hvd: hvd.broadcast(torch.ones(1), "zero"), "root_rank is 'zero'"),
    (lambda hvd: hvd.alltoall(torch.ones(3), [1] * (hvd.size() + 1)), "it needs one for each"),
    (lambda hvd: hvd.alltoall(torch.ones(3), torch.ones(hvd.size())), "type int32 or int64"),
    (lambda hvd: hvd.alltoall(torch.ones(3), "ab"), "splits is a list or tensor of integers"),
    (lambda hvd: hvd.alltoall(torch.ones(3), [7] * hvd.size()), "is 7, not from 0 to the 3 rows there are"),
    (lambda hvd: hvd.alltoall(torch.ones(3), [-1] * hvd.size()), "is -1, not from 0 to the 3 rows"),
    (lambda hvd: hvd.allreduce(torch.ones(1), process_set=hvd.ProcessSet([0])), "has not been added"),
    (lambda hvd: hvd.sparse_allreduce_async(torch.ones(1), "s", hvd.Sum), "layout sparse_coo"),
    (lambda hvd: hvd.sparse_allreduce_async(torch.ones(1).to_sparse(), "s", hvd.Max), "averaged and summed"),
    (lambda hvd: hvd.ProcessSet(3), "made of a list of ranks, not of int"),
    (lambda hvd: hvd.ProcessSet(["a"]), "'a' is none"),
    (lambda hvd: hvd.ProcessSet([1, 1]), "duplicates"),
    (lambda hvd: hvd.add_process_set([]), "has no ranks"),
    (lambda hvd: hvd.add_process_set([0, 1000]), "1000 is not a rank from 0 to"),
    (lambda hvd: hvd.broadcast_parameters(3, 0), "a dict of tensors"),
    (lambda hvd: hvd.broadcast_parameters({"a": 3}, 0), '"a" is no tensor, but of type int'),
    (lambda hvd: hvd.init(process_sets="static"), 'it is a list of process sets, or "dynamic"'),
    (lambda hvd: hvd.init(comm="world"), "comm is a list of ranks here, not str"),
    (lambda hvd: hvd.init(comm=[77]), "comm has to name all"),
    (lambda hvd: hvd.poll(10 ** 12), "no operation with the handle"),
])
def test_wrong_arguments_are_a_value_error_that_says_what_is_wrong(hvd, call, text):
    with pytest.raises(ValueError, match=text):
        call(hvd)


def test_a_name_in_flight_is_refused_and_usable_afterwards(hvd, rank, size):
    if size == 1:
        pytest.skip("one rank")
    if rank == 0:
        handle = hvd.allreduce_async(torch.ones(1), name="twice")
        with pytest.raises(ValueError, match="twice"):
            hvd.allreduce_async(torch.ones(1), name="twice")
    hvd.barrier()
    if rank != 0:
        handle = hvd.allreduce_async(torch.ones(1), name="twice")
    assert hvd.synchronize(handle).item() == 1
    assert hvd.allreduce(torch.ones(1), name="twice").item() == 1


@pytest.mark.parametrize("of", [
    lambda hvd, r: hvd.allreduce_async(torch.ones(2 + r), name="differ"),
    lambda hvd, r: hvd.allreduce_async(torch.ones(2, dtype=torch.int32 if r else torch.float32), name="differ"),
    lambda hvd, r: hvd.allreduce_async(torch.ones(2), name="differ", op=hvd.Sum if r else hvd.Min),
    lambda hvd, r: hvd.allreduce_async(torch.ones(2), name="differ", prescale_factor=1.0 + r),
    lambda hvd, r: hvd.broadcast_async(torch.ones(2), r, name="differ"),
    lambda hvd, r: hvd.allgather_async(torch.ones(2, 2 + r), name="differ"),
    lambda hvd, r: (hvd.allreduce_async if r else hvd.allgather_async)(torch.ones(2), name="differ"),
    lambda hvd, r: hvd.grouped_allreduce_async([torch.ones(2)] * (1 + r), name="differ"),
], ids=["shape", "type", "op", "scale", "root", "columns", "kind", "count"])
def test_ranks_that_disagree_get_an_error_with_the_ranks_and_the_job_goes_on(hvd, rank, size, of):
    if size == 1:
        pytest.skip("one rank")
    handle = of(hvd, int(rank == 1))
    with pytest.raises(hvd.HorovodInternalError, match="differ") as caught:
        hvd.synchronize(handle)
    assert isinstance(caught.value, RuntimeError) and "rank 1" in str(caught.value)
    assert hvd.allreduce(torch.ones(1), name="differ", op=hvd.Sum).item() == size


def test_before_init_everything_says_so(hvd):
    hvd.shutdown()
    for call in (hvd.rank, hvd.size, hvd.local_rank, hvd.local_size, hvd.cross_rank, hvd.cross_size, hvd.is_homogeneous,
                 hvd.mpi_threads_supported, hvd.barrier, hvd.join, hvd.should_stop,
                 lambda: hvd.allreduce(torch.ones(1)),
                 lambda: hvd.alltoall(torch.ones(1)), lambda: hvd.reducescatter(torch.ones(1)),
                 lambda: hvd.add_process_set([0])):
        with pytest.raises(ValueError, match="call hvd.init"):
            call()
    hvd.init()


def test_operations_in_flight_fail_at_shutdown(hvd, rank, size):
    if size == 1:
        pytest.skip("one rank")
    hvd.barrier()
    handle = hvd.allreduce_async(torch.ones(3), name="never") if rank == 0 else None
    hvd.shutdown()
    if rank == 0:
        with pytest.raises(hvd.HorovodInternalError, match="shut"):
            hvd.synchronize(handle)
    hvd.init()


def test_signal_handlers_run_while_a_rank_waits(hvd, rank, size):
    if size == 1:
        pytest.skip("one rank")

    class Interrupted(Exception):
        pass

    def handler(*_):
        raise Interrupted

    if rank == 0:
        handle = hvd.allreduce_async(torch.ones(1), name="interrupted", op=hvd.Sum)
        before = signal.signal(signal.SIGUSR1, handler)
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        with pytest.raises(Interrupted):
            hvd.synchronize(handle)
        signal.signal(signal.SIGUSR1, before)
    hvd.barrier()
    if rank != 0:
        handle = hvd.allreduce_async(torch.ones(1), name="interrupted", op=hvd.Sum)
    assert hvd.synchronize(handle).item() == size


def test_a_waiting_thread_holds_neither_the_gil_nor_a_core(hvd, rank, size):
    if size == 1:
        pytest.skip("one rank")
    done = threading.Event()
    used = []

    def wait():
        start = time.thread_time()
        assert hvd.allreduce(torch.ones(1), name="slept", op=hvd.Sum).item() == size
        used.append(time.thread_time() - start)
        done.set()

    if rank == 0:
        thread = threading.Thread(target=wait)
        thread.start()
        # Python goes on here while the thread waits: 20 slices long.
        assert not done.wait(2)
    hvd.barrier()
    if rank != 0:
        assert hvd.allreduce(torch.ones(1), name="slept", op=hvd.Sum).item() == size
    else:
        thread.join()
        assert used[0] < 0.04 + 0.02 * 2
