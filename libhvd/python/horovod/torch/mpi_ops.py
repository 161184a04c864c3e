# SPDX-License-Identifier: Apache-2.0
"""The operations, under the name that programs written for Horovod import them by.

The asynchronous ones are in _async.py, those that wait and have gradients in _autograd.py.
"""

from horovod.common.basics import HorovodBasics as _HorovodBasics
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from horovod.torch._async import (
    Adasum, Average, Max, Min, Product, Sum,
    allgather_async, allreduce_async, allreduce_async_, alltoall_async, barrier, broadcast_async, broadcast_async_,
    grouped_allgather_async, grouped_allreduce_async, grouped_allreduce_async_, grouped_reducescatter_async,
    handle_average_backwards_compatibility, join, reducescatter_async, sparse_allreduce_async,
)
from horovod.torch._autograd import (
    HorovodAllgather, HorovodAllreduce, HorovodAlltoall, HorovodBroadcast, HorovodGroupedAllgather,
    HorovodGroupedAllreduce, HorovodGroupedReducescatter, HorovodReducescatter,
    allgather, allreduce, allreduce_, alltoall, broadcast, broadcast_, grouped_allgather, grouped_allreduce,
    grouped_allreduce_, grouped_reducescatter, reducescatter,
)
from horovod.torch._operations import poll, synchronize

_basics = _HorovodBasics()

init = _basics.init
shutdown = _basics.shutdown
is_initialized = _basics.is_initialized
should_stop = _basics.should_stop
start_timeline = _basics.start_timeline
stop_timeline = _basics.stop_timeline
size = _basics.size
rank = _basics.rank
local_size = _basics.local_size
local_rank = _basics.local_rank
cross_size = _basics.cross_size
cross_rank = _basics.cross_rank
is_homogeneous = _basics.is_homogeneous
mpi_threads_supported = _basics.mpi_threads_supported
mpi_enabled = _basics.mpi_enabled
mpi_built = _basics.mpi_built
gloo_enabled = _basics.gloo_enabled
gloo_built = _basics.gloo_built
nccl_built = _basics.nccl_built
ddl_built = _basics.ddl_built
ccl_built = _basics.ccl_built
cuda_built = _basics.cuda_built
rocm_built = _basics.rocm_built

__all__ = [name for name in dir() if not name.startswith("_")]
