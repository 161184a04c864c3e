# SPDX-License-Identifier: Apache-2.0
"""Process sets: some of the job's ranks, which do operations of their own.

A ProcessSet is made by the program and gets its id when it is added, by init() or add_process_set(), on all ranks
alike. The library knows which sets there are; what is kept here is which objects stand for them, so that removing a set
and shutting down can take the id from every one of them.
"""

import ctypes
from typing import Any, Dict, List, Optional, Sequence, Union

from horovod.common import _library
from horovod.common._library import lib


class ProcessSet:
    """Some of the job's ranks.

    Args:
        ranks_or_comm: distinct ranks, in any order. MPI communicators are not accepted.

    Attributes:
        ranks: the ranks, ascending; None after the set has been removed.
        process_set_id: the id, the same on all ranks; None while the set is not added.

    Raises:
        ValueError: something else than ranks.
    """

    process_set_id: Optional[int] = None
    ranks: Optional[List[int]] = None
    mpi_comm: Any = None

    def __init__(self, ranks_or_comm: Sequence[int]) -> None:
        try:
            ranks = list(ranks_or_comm)
        except TypeError:
            raise ValueError(f"a process set is made of a list of ranks, not of {type(ranks_or_comm).__name__}; of an "
                             "MPI communicator say which ranks it has") from None
        for rank in ranks:
            if isinstance(rank, bool) or not hasattr(rank, "__index__"):
                raise ValueError(f"a process set is made of a list of ranks; {rank!r} is none")
        self.ranks = sorted(int(rank) for rank in ranks)
        if len(set(self.ranks)) != len(self.ranks):
            raise ValueError(f"a process set has each rank once; there are duplicates in {self.ranks}")

    def size(self) -> Optional[int]:
        """Number of ranks in the set; None if it is not added."""
        if self.process_set_id is None:
            return None
        return _known(lib.hvd_process_set_size(self.process_set_id))

    def rank(self) -> Optional[int]:
        """This rank's place among the members, from 0; None if the set is not added.

        Raises:
            ValueError: this rank is no member.
        """
        if self.process_set_id is None:
            return None
        return _known(lib.hvd_process_set_rank(self.process_set_id))

    def included(self) -> Optional[bool]:
        """Is this rank a member? None if the set is not added."""
        if self.process_set_id is None:
            return None
        if self.process_set_id == 0:
            return True
        return lib.hvd_process_set_rank(self.process_set_id) >= 0

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"


def _known(number: int) -> int:
    if number < 0:
        raise _library.error(_library.INVALID if lib.hvd_is_initialized() else _library.STATE)
    return number


global_process_set = ProcessSet([])
global_process_set.process_set_id = 0

# id -> the objects that stand for the set. Changed by init, shutdown, adding and removing only.
_objects: Dict[int, List[ProcessSet]] = {0: [global_process_set]}


def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Adds a process set. All ranks of the job call it with the same ranks, members or not; waits for them.

    Args:
        process_set: a ProcessSet that is not added yet, or a list of ranks.

    Returns:
        The set; a new one if a list was given.

    Raises:
        ValueError: not initialised, a rank that there is none of, or a set that there is already.
        HorovodInternalError: ranks disagree, or one is lost.
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.process_set_id is not None:
        raise ValueError(f"{process_set} has been added already")
    if not process_set.ranks:
        raise ValueError("a process set that has been removed, or has no ranks, cannot be added; make a new one of a "
                         "list of ranks")
    for known in process_set_ids():
        if process_set_ranks(known) == process_set.ranks:
            raise ValueError(f"a process set with the ranks {process_set.ranks} has been added already; its id is "
                             f"{known}")
    ranks = (ctypes.c_int32 * len(process_set.ranks))(*process_set.ranks)
    number, handle = ctypes.c_int32(), ctypes.c_int64()
    _library.check(lib.hvd_add_process_set_async(ranks, len(ranks), ctypes.byref(number), ctypes.byref(handle)))
    wait_keeping(handle.value, number)
    process_set.process_set_id = number.value
    _objects.setdefault(number.value, []).append(process_set)
    return process_set


# What an interrupted wait leaves behind: numbers that the library will still write.
_kept: List[Any] = []


def wait_keeping(handle: int, number: Any = None) -> None:
    """Waits for an operation that writes to `number`, which lives until it is done."""
    try:
        _library.wait_checked(handle)
    except _library.HorovodInternalError:
        raise
    except BaseException:
        _kept.append(number)
        raise


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a process set; the objects that stand for it lose id and ranks. All ranks of the job call it; waits for
    them. Operations of the set that are in flight fail.

    Returns:
        Whether it has been removed; False for the global set, and for one that is not added.

    Raises:
        HorovodInternalError: ranks disagree, or one is lost.
    """
    number = process_set.process_set_id
    if number is None or number == 0:
        return False
    handle = ctypes.c_int64()
    _library.check(lib.hvd_remove_process_set_async(number, ctypes.byref(handle)))
    wait_keeping(handle.value)
    for known in _objects.pop(number, [process_set]):
        known.process_set_id = None
        known.ranks = None
    return True


def process_set_ids() -> List[int]:
    """The ids of all sets, ascending; 0, the global one, is always there."""
    return _listed(lib.hvd_process_sets)


def process_set_ranks(process_set_id: int) -> List[int]:
    """The members of the set with this id, ascending.

    Raises:
        ValueError: there is no such set, or not initialised.
    """
    return _listed(lambda numbers, capacity: lib.hvd_process_set_ranks(process_set_id, numbers, capacity))


def _listed(ask: Any) -> List[int]:
    count = _known(ask(None, 0))
    while True:
        numbers = (ctypes.c_int32 * count)()
        now = _known(ask(numbers, count))
        if now <= count:
            return list(numbers[:now])
        count = now


def process_set_by_id(process_set_id: int) -> ProcessSet:
    """An object that stands for the set with this id.

    Raises:
        ValueError: none does.
    """
    if not _objects.get(process_set_id):
        raise ValueError(f"there is no process set with the id {process_set_id}; there are {sorted(_objects)}")
    return _objects[process_set_id][0]


def process_sets() -> List[ProcessSet]:
    """One object for each set, in the order of ids."""
    return [_objects[number][0] for number in sorted(_objects)]


def started(process_sets_to_add: Sequence[Union[ProcessSet, Sequence[int]]]) -> None:
    """For init(): the global set learns its ranks; adds those that are not there yet."""
    global_process_set.ranks = process_set_ranks(0)
    for process_set in process_sets_to_add:
        if isinstance(process_set, ProcessSet) and process_set.process_set_id is not None:
            continue
        ranks = process_set.ranks if isinstance(process_set, ProcessSet) else sorted(process_set)
        number = next((known for known in process_set_ids() if process_set_ranks(known) == ranks), None)
        if number is None:
            add_process_set(process_set)
        elif isinstance(process_set, ProcessSet):
            process_set.process_set_id = number
            _objects.setdefault(number, []).append(process_set)


def stopped() -> None:
    """For shutdown(): the sets are gone; their ranks stay, so that the objects can be given to the next init()."""
    for process_set in [known for objects in _objects.values() for known in objects]:
        process_set.process_set_id = None
    _objects.clear()
    _objects[0] = [global_process_set]
    global_process_set.process_set_id = 0
    global_process_set.ranks = []
