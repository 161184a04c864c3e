# SPDX-License-Identifier: Apache-2.0
"""Distributed training with PyTorch: ``import horovod.torch as hvd``.

Every rank submits named tensors in any order; an operation runs when all ranks have submitted its name. Tensors are
passed by pointer, on host memory in this release. Wrong arguments are a ValueError at the call; what fails across ranks
is a HorovodInternalError at synchronize().
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise ImportError(f"horovod.torch needs PyTorch 1.13 or later in this Python: {_error}") from _error

from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from horovod.common.util import check_extension
from horovod.torch.compression import Compression
from horovod.torch.functions import (
    allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters,
)
from horovod.torch.mpi_ops import (
    Adasum, Average, Max, Min, Product, Sum,
    allgather, allgather_async, grouped_allgather, grouped_allgather_async,
    allreduce, allreduce_, allreduce_async, allreduce_async_,
    grouped_allreduce, grouped_allreduce_, grouped_allreduce_async, grouped_allreduce_async_, sparse_allreduce_async,
    alltoall, alltoall_async,
    barrier, join, poll, synchronize,
    broadcast, broadcast_, broadcast_async, broadcast_async_,
    reducescatter, reducescatter_async, grouped_reducescatter, grouped_reducescatter_async,
    init, is_homogeneous, is_initialized, should_stop, shutdown, start_timeline, stop_timeline,
    cross_rank, cross_size, local_rank, local_size, rank, size,
    ccl_built, cuda_built, ddl_built, gloo_built, gloo_enabled, mpi_built, mpi_enabled, mpi_threads_supported,
    nccl_built, rocm_built,
)
from horovod.torch import elastic
from horovod.torch.optimizer import DistributedOptimizer
from horovod.torch.sync_batch_norm import SyncBatchNorm

__all__ = [name for name in dir() if not name.startswith("_")]
