# SPDX-License-Identifier: Apache-2.0
"""Elastic training with PyTorch: ``@hvd.elastic.run`` around a function of a TorchState. What it can do here is told in
horovod.common.elastic."""

from typing import Any, Callable

from horovod.common.elastic import ObjectState, State, run_fn
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.state import TorchState
from horovod.torch.mpi_ops import init, shutdown

__all__ = ["ElasticSampler", "ObjectState", "State", "TorchState", "run"]


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a training function of (state, ...): it is called again, from the last commit, after operations have
    failed across ranks.

    Raises (the function): HorovodInternalError if the job cannot be joined again, because a rank is lost.
    """
    def reset() -> None:
        shutdown()
        init()

    return run_fn(func, reset)
