# SPDX-License-Identifier: Apache-2.0
"""Who am I, and what can the library do: init, shutdown, ranks, sizes, timeline, and what was built in.

HorovodBasics has no state of its own: all frameworks of a process share one runtime, which is the library's.
"""

import ctypes
import os
from typing import Any, Callable, Optional, Sequence, Union

from horovod.common import _library, process_sets as _process_sets
from horovod.common._library import lib
from horovod.common.process_sets import ProcessSet

_MPI_THREAD_MULTIPLE = 3


def _number(value: int) -> int:
    if value < 0:
        raise _library.not_initialized()
    return value


class HorovodBasics:
    """The functions that are the same for every framework.

    Args:
        pkg_path, args: not used; programs written for Horovod pass where its extension is.
    """

    Average = _library.AVERAGE
    Sum = _library.SUM
    Adasum = _library.ADASUM
    Min = _library.MIN
    Max = _library.MAX
    Product = _library.PRODUCT

    def __init__(self, pkg_path: Optional[str] = None, *args: str) -> None:
        self.MPI_LIB_CTYPES = lib

    def init(self, comm: Optional[Sequence[int]] = None,
             process_sets: Optional[Union[str, Sequence[Union[ProcessSet, Sequence[int]]]]] = None) -> None:
        """Joins the job. Collective: waits for all ranks, HOROVOD_START_TIMEOUT at most. Does nothing if initialised,
        but for sets that are not added yet.

        Args:
            comm: None, or the list of all ranks; for some of them use process sets.
            process_sets: ProcessSets or lists of ranks to add, the same on all ranks; "dynamic" is accepted: sets can
                always be added later.

        Raises:
            ValueError: a bad argument or a bad HOROVOD_* variable.
            HorovodInternalError: a rank did not come, or launcher and ranks disagree; the text says who.
        """
        sets = self._sets(process_sets)
        if comm is not None and not isinstance(comm, (list, tuple, range)):
            raise ValueError(f"comm is a list of ranks here, not {type(comm).__name__}; without it all ranks take "
                             "part, and for some of them there are process sets")
        _library.check(lib.hvd_init())
        if comm and sorted(comm) != list(range(lib.hvd_size())):
            raise ValueError(f"comm has to name all {lib.hvd_size()} ranks of the job; for some of them use "
                             "hvd.init(process_sets=[...])")
        _process_sets.started(sets)

    @staticmethod
    def _sets(process_sets: Any) -> Sequence[Union[ProcessSet, Sequence[int]]]:
        if process_sets is None:
            return []
        if isinstance(process_sets, str):
            if process_sets.lower() != "dynamic":
                raise ValueError(f'process_sets is "{process_sets}"; it is a list of process sets, or "dynamic"')
            return []
        if isinstance(process_sets, ProcessSet):
            return [process_sets]
        return list(process_sets)

    def shutdown(self) -> None:
        """Leaves the job; operations in flight fail. init() may be called again. Does nothing if not initialised.

        Raises:
            HorovodInternalError: rank 0 did not answer.
        """
        _process_sets.stopped()
        _library.check(lib.hvd_shutdown())

    def is_initialized(self) -> bool:
        """True between init() and shutdown()."""
        return bool(lib.hvd_is_initialized())

    def should_stop(self) -> bool:
        """Is it time to save a checkpoint and end? The same answer on all ranks, at the same step. Not in Horovod.

        True once any rank has got SIGUSR1 or SIGTERM, by which Slurm announces a time limit (--signal), a requeue,
        preemption and scancel, or once the job ends within HOROVOD_STOP_MARGIN (60 s). All ranks have to call it
        equally often, as once a step; it costs an allreduce of one number, so call it every few steps if they are short.
        Rank 0 may ask squeue when the job ends, which takes a moment, in the first call and shortly before the end.

        From a rank's first call on these signals do not end the process. A handler that signal.signal() has set before
        is called, too; one that is set later replaces the library's. Workers of a torch DataLoader still end by SIGTERM.

        Raises:
            ValueError: not initialised, or this rank has joined.
            HorovodInternalError: a rank is lost.
        """
        stop, handle = ctypes.c_int32(), ctypes.c_int64()
        _library.check(lib.hvd_should_stop_async(ctypes.byref(stop), ctypes.byref(handle)))
        _process_sets.wait_keeping(handle.value, stop)
        return stop.value != 0

    def start_timeline(self, file_path: Union[str, "os.PathLike[str]"], mark_cycles: bool = False) -> None:
        """Writes a timeline of the operations from here on, for chrome://tracing and Perfetto; replaces one that is
        being written. All ranks may call it.

        Args:
            file_path: where to; %r is the rank, %h the host, %j the job, %s the step. Without %r rank 0 alone writes.
            mark_cycles: also mark each batch that is scheduled.

        Raises:
            ValueError: not initialised.
            HorovodInternalError: the file cannot be opened.
        """
        _library.check(lib.hvd_start_timeline(os.fsencode(file_path), int(mark_cycles)))

    def stop_timeline(self) -> None:
        """Ends the timeline; its file is complete then."""
        _library.check(lib.hvd_stop_timeline())

    def size(self) -> int:
        """Number of ranks of the job. ValueError if not initialised, as for all that follow."""
        return _number(lib.hvd_size())

    def rank(self) -> int:
        """This process's rank, from 0."""
        return _number(lib.hvd_rank())

    def local_size(self) -> int:
        """Number of ranks on this node."""
        return _number(lib.hvd_local_size())

    def local_rank(self) -> int:
        """This rank's place on its node, from 0: which of the node's GPUs it uses."""
        return _number(lib.hvd_local_rank())

    def cross_size(self) -> int:
        """Number of nodes that have this local rank."""
        return _number(lib.hvd_cross_size())

    def cross_rank(self) -> int:
        """This node's place among those that have this local rank."""
        return _number(lib.hvd_cross_rank())

    def is_homogeneous(self) -> bool:
        """Have all nodes the same number of ranks?"""
        return bool(_number(lib.hvd_is_homogeneous()))

    def process_set_included(self, process_set_id: int = 0) -> bool:
        """Is this rank a member of the set with this id? ValueError if there is none."""
        _process_sets.process_set_ranks(process_set_id)
        return lib.hvd_process_set_rank(process_set_id) >= 0

    def mpi_built(self) -> bool:
        """Was the library built with MPI, which it uses between nodes?"""
        return _mpi("MPI_Initialized") is not None

    def mpi_enabled(self) -> bool:
        """Is MPI in use in this process: started by the library (several nodes) or by the program?"""
        return self.is_initialized() and _mpi_is_up()

    def mpi_threads_supported(self) -> bool:
        """May the program use MPI (mpi4py) from its own threads besides? True also where the library has not started
        MPI: then the program chooses the level.

        Raises:
            ValueError: not initialised, or built without MPI.
        """
        if not self.is_initialized():
            raise _library.not_initialized()
        if not self.mpi_built():
            raise ValueError("libhvd was built without MPI")
        if not _mpi_is_up():
            return True
        level = ctypes.c_int()
        _mpi("MPI_Query_thread")(ctypes.byref(level))
        return level.value >= _MPI_THREAD_MULTIPLE

    def gloo_built(self) -> bool:
        """False: the library has transports of its own."""
        return False

    def gloo_enabled(self) -> bool:
        """False: there is no Gloo in it."""
        return False

    def nccl_built(self) -> int:
        """The version of NCCL that the library was built with; 0, none, in this release, which works on host memory."""
        return 0

    def ddl_built(self) -> bool:
        """False: no IBM DDL."""
        return False

    def ccl_built(self) -> bool:
        """False: no oneCCL."""
        return False

    def cuda_built(self) -> bool:
        """False in this release, which works on host memory."""
        return False

    def rocm_built(self) -> bool:
        """False: no ROCm."""
        return False


def _mpi(name: str) -> Optional[Callable[..., int]]:
    # Found in the library's own dependencies, so this is the MPI that it would use.
    return getattr(lib, name, None)


def _mpi_is_up() -> bool:
    initialized, finalized = _mpi("MPI_Initialized"), _mpi("MPI_Finalized")
    if initialized is None or finalized is None:
        return False
    up, down = ctypes.c_int(), ctypes.c_int()
    initialized(ctypes.byref(up))
    finalized(ctypes.byref(down))
    return bool(up.value) and not down.value
