# SPDX-License-Identifier: Apache-2.0
"""When to save and end: all ranks are told at the same step. A process that has got a signal has got it for good, so
this is one test."""

import os
import signal

import pytest
import torch


@pytest.fixture
def handlers():
    """Handlers of the program's own; what has come is in the list. The defaults are there again afterwards."""
    came = []
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, lambda number, frame: came.append(number))
    yield came
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def test_a_signal_to_one_rank_stops_all_ranks_at_that_step_and_its_own_handler_runs(hvd, rank, size, handlers):
    steps = 0
    while not hvd.should_stop():
        steps += 1
        assert torch.equal(hvd.allreduce(torch.tensor([1]), op=hvd.Sum), torch.tensor([size]))
        if steps == 3 and rank == size - 1:
            os.kill(os.getpid(), signal.SIGUSR1)
    assert steps == 3
    assert hvd.should_stop() is True
    assert handlers == ([signal.SIGUSR1] if rank == size - 1 else [])
