# SPDX-License-Identifier: Apache-2.0
"""Operations in flight: submitting, polling and waiting, on lists of tensors.

Everything that libhvd reads or writes is kept here until the operation is done, whatever becomes of the caller's own
references: also after an interrupted wait, and at the interpreter's end. Functions may be called from any thread.
"""

import ctypes
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

import torch

from horovod.common import _library
from horovod.common._library import lib
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import ProcessSet
from horovod.torch._tensors import as_input, as_output, describe, results


class _InFlight(NamedTuple):
    """[kept]: everything that the library may touch. [finish]: makes the result, of the handle."""

    kept: Any
    finish: Callable[[int], Any]


_in_flight: Dict[int, _InFlight] = {}
# The interpreter takes modules apart while operations may still run: nothing in here is ever to be freed by that.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_in_flight))


def _name(name: Optional[str]) -> Optional[bytes]:
    if name is None:
        return None
    if not isinstance(name, str):
        raise ValueError(f"the name of an operation is a string, not {type(name).__name__}")
    return name.encode()


def set_id(process_set: ProcessSet) -> int:
    """The id of a process set; ValueError if it has none."""
    number = getattr(process_set, "process_set_id", None)
    if number is None:
        raise ValueError(f"{process_set} has not been added, or has been removed; hvd.add_process_set() adds it")
    return number


def _several(tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    if isinstance(tensors, torch.Tensor) or not isinstance(tensors, (list, tuple)):
        raise ValueError(f"a grouped operation takes a list of tensors, not {type(tensors).__name__}")
    if not tensors:
        raise ValueError("a grouped operation takes at least one tensor")
    return list(tensors)


def _described(tensors: Sequence[torch.Tensor]) -> ctypes.Array:
    return (_library.Tensor * len(tensors))(*(describe(tensor) for tensor in tensors))


def _submitted(code: int, handle: ctypes.c_int64, kept: Any, finish: Callable[[int], Any]) -> int:
    if code != _library.OK:
        raise _library.error(code)
    _in_flight[handle.value] = _InFlight(kept, finish)
    return handle.value


def _op(op: Any) -> int:
    if isinstance(op, bool) or not isinstance(op, int):
        raise ValueError(f"op is {op!r}; it is one of hvd.Average, Sum, Adasum, Min, Max and Product")
    return op


def _one(submit: Callable[..., int], tensor: torch.Tensor, output: torch.Tensor, name: Optional[str],
         *arguments: Any) -> int:
    handle = ctypes.c_int64()
    code = submit(_name(name), _library.Tensor(*describe(tensor)), output.data_ptr(), *arguments, handle)
    return _submitted(code, handle, (tensor, output), lambda _: output)


def _group(submit: Callable[..., int], tensors: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor],
           name: Optional[str], *arguments: Any) -> int:
    handle = ctypes.c_int64()
    count = len(tensors)
    pointers = (ctypes.c_void_p * count)(*(output.data_ptr() for output in outputs))
    code = submit(_name(name), count, _described(tensors), pointers, *arguments, handle)
    outputs = list(outputs)
    return _submitted(code, handle, (tensors, outputs), lambda _: outputs)


def _like(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype)


def allreduce(tensor: torch.Tensor, in_place: bool, name: Optional[str], op: int, prescale: float, postscale: float,
              process_set: ProcessSet) -> int:
    """Submits an allreduce; its result is the tensor itself or a new one."""
    tensor = as_output(tensor) if in_place else as_input(tensor)
    output = tensor if in_place else _like(tensor)
    return _one(lib.hvd_allreduce_async, tensor, output, name, _op(op), float(prescale), float(postscale),
                set_id(process_set))


def grouped_allreduce(tensors: Sequence[torch.Tensor], in_place: bool, name: Optional[str], op: int, prescale: float,
                      postscale: float, process_set: ProcessSet) -> int:
    """Submits a group of allreduces; its result is a list."""
    tensors = [(as_output if in_place else as_input)(tensor) for tensor in _several(tensors)]
    outputs = tensors if in_place else [_like(tensor) for tensor in tensors]
    return _group(lib.hvd_grouped_allreduce_async, tensors, outputs, name, _op(op), float(prescale),
                  float(postscale), set_id(process_set))


def broadcast(tensor: torch.Tensor, in_place: bool, root_rank: int, name: Optional[str],
              process_set: ProcessSet) -> int:
    """Submits a broadcast; its result is the tensor itself or a new one."""
    tensor = as_output(tensor) if in_place else as_input(tensor)
    output = tensor if in_place else _like(tensor)
    if isinstance(root_rank, bool) or not hasattr(root_rank, "__index__"):
        raise ValueError(f"root_rank is {root_rank!r}; it is the number of a rank")
    return _one(lib.hvd_broadcast_async, tensor, output, name, int(root_rank), set_id(process_set))


def _share(tensor: torch.Tensor, process_set: ProcessSet) -> torch.Tensor:
    number = set_id(process_set)
    if tensor.dim() == 0:
        raise ValueError("a reducescatter needs a tensor with one dimension or more; this one has none")
    rows = lib.hvd_reducescatter_rows(tensor.shape[0], number)
    if rows < 0:
        raise _library.error(_library.INVALID if lib.hvd_is_initialized() else _library.STATE)
    return torch.empty((rows, *tensor.shape[1:]), dtype=tensor.dtype)


def reducescatter(tensor: torch.Tensor, name: Optional[str], op: int, prescale: float, postscale: float,
                  process_set: ProcessSet) -> int:
    """Submits a reducescatter; its result is a new tensor of this rank's rows."""
    tensor = as_input(tensor)
    return _one(lib.hvd_reducescatter_async, tensor, _share(tensor, process_set), name, _op(op), float(prescale),
                float(postscale), set_id(process_set))


def grouped_reducescatter(tensors: Sequence[torch.Tensor], name: Optional[str], op: int, prescale: float,
                          postscale: float, process_set: ProcessSet) -> int:
    """Submits a group of reducescatters; its result is a list."""
    tensors = [as_input(tensor) for tensor in _several(tensors)]
    outputs = [_share(tensor, process_set) for tensor in tensors]
    return _group(lib.hvd_grouped_reducescatter_async, tensors, outputs, name, _op(op), float(prescale),
                  float(postscale), set_id(process_set))


def allgather(tensor: torch.Tensor, name: Optional[str], process_set: ProcessSet) -> int:
    """Submits an allgather; its result is a new tensor."""
    tensor = as_input(tensor)
    handle = ctypes.c_int64()
    code = lib.hvd_allgather_async(_name(name), _library.Tensor(*describe(tensor)), set_id(process_set), handle)
    return _submitted(code, handle, tensor, lambda done: results(done, 1)[0])


def grouped_allgather(tensors: Sequence[torch.Tensor], name: Optional[str], process_set: ProcessSet) -> int:
    """Submits a group of allgathers; its result is a list."""
    tensors = [as_input(tensor) for tensor in _several(tensors)]
    handle = ctypes.c_int64()
    code = lib.hvd_grouped_allgather_async(_name(name), len(tensors), _described(tensors), set_id(process_set), handle)
    return _submitted(code, handle, tensors, lambda done: results(done, len(tensors)))


def _splits(splits: Any, members: int) -> torch.Tensor:
    if not isinstance(splits, torch.Tensor):
        try:
            splits = torch.tensor(splits, dtype=torch.int32)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"splits is a list or tensor of integers: {error}") from None
    if splits.dim() != 1 or splits.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"splits is a list or one-dimensional tensor of type int32 or int64, not one of type "
                         f"{str(splits.dtype)[6:]} and {splits.dim()} dimensions")
    if len(splits) != members:
        raise ValueError(f"splits has {len(splits)} entries for {members} ranks; it needs one for each")
    return splits


def alltoall(tensor: torch.Tensor, splits: Union[None, torch.Tensor, Sequence[int]], name: Optional[str],
             process_set: ProcessSet) -> int:
    """Submits an alltoall; its result is (a new tensor, the numbers of rows received as a tensor like splits)."""
    tensor = as_input(tensor)
    number = set_id(process_set)
    members = lib.hvd_process_set_size(number)
    if members < 0:
        raise _library.error(_library.INVALID if lib.hvd_is_initialized() else _library.STATE)
    rows, like = None, torch.empty(0, dtype=torch.int32)
    if splits is not None:
        like = _splits(splits, members)
        rows = (ctypes.c_int64 * members)(*like.tolist())
    received = (ctypes.c_int64 * members)()
    handle = ctypes.c_int64()
    code = lib.hvd_alltoall_async(_name(name), _library.Tensor(*describe(tensor)), rows, received, number, handle)

    def finish(done: int) -> Any:
        return results(done, 1)[0], torch.tensor(received[:], dtype=like.dtype, device=like.device)

    return _submitted(code, handle, (tensor, received), finish)


def barrier(process_set: ProcessSet) -> int:
    """Submits a barrier; its result is None."""
    handle = ctypes.c_int64()
    return _submitted(lib.hvd_barrier_async(set_id(process_set), handle), handle, None, lambda _: None)


def join(device: int) -> int:
    """Submits a join; its result is the rank that joined last."""
    last = ctypes.c_int32()
    handle = ctypes.c_int64()
    return _submitted(lib.hvd_join_async(int(device), last, handle), handle, last, lambda _: last.value)


def poll(handle: int) -> bool:
    """Is the operation done? Then synchronize() returns at once.

    Args:
        handle: what an ``…_async`` function has returned.

    Raises:
        ValueError: there is no such operation, or synchronize() has been called for it.
    """
    state = lib.hvd_poll(handle) if isinstance(handle, int) else -1
    if state < 0:
        raise ValueError(f"there is no operation with the handle {handle}, or synchronize() was called for it")
    return state == 1


def synchronize(handle: int) -> Any:
    """Waits until an operation is done. The thread sleeps without the GIL; signal handlers run (Ctrl-C ends the wait,
    not the operation).

    Args:
        handle: what an ``…_async`` function has returned (of sparse_allreduce_async, the callable).

    Returns:
        The operation's result: a tensor; of groups a list of tensors; of alltoall_async (tensor, received splits). None
        if there is no such operation, or if synchronize() has been called for it.

    Raises:
        HorovodInternalError: it failed; the text says which ranks and why.
    """
    if callable(handle):
        return handle()
    operation = _in_flight.get(handle)
    if operation is None:
        return None
    code = _library.wait(handle)
    _in_flight.pop(handle, None)
    if code != _library.OK:
        raise HorovodInternalError(_library.last_error())
    return operation.finish(handle)
