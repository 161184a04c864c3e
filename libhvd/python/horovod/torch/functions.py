# SPDX-License-Identifier: Apache-2.0
"""What is built of the operations: parameters, optimizer states and Python objects, from one rank to all or from all.

Objects are pickled; with cloudpickle if it is there, so that functions and local classes can be sent as well. All ranks
call these functions in the same order, or with names.
"""

import io
import pickle
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple, Union

import torch

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.basics import HorovodBasics
from horovod.torch import _operations
from horovod.torch._operations import synchronize

try:
    import cloudpickle as _pickler
except ImportError:
    _pickler = pickle

_basics = HorovodBasics()


def broadcast_parameters(params: Union[Dict[str, torch.Tensor], Iterable[Any]], root_rank: int,
                         process_set: ProcessSet = global_process_set) -> None:
    """Overwrites parameters with those of one rank; waits.

    Args:
        params: ``model.state_dict()``, ``model.named_parameters()`` or ``model.parameters()``: a dict of tensors, or
            tensors or pairs (name, tensor); the same names, types and shapes on all ranks.
        root_rank: whose parameters all get.
        process_set: the ranks that take part.

    Raises:
        ValueError: something else than tensors.
        HorovodInternalError: ranks disagree, or one is lost.
    """
    if isinstance(params, dict):
        pairs = sorted(params.items(), key=lambda pair: str(pair[0]))
    elif isinstance(params, (str, torch.Tensor)) or not hasattr(params, "__iter__"):
        raise ValueError(f"params is a dict of tensors, or a list of tensors or of pairs (name, tensor), not "
                         f"{type(params).__name__}")
    else:
        pairs = [param if isinstance(param, tuple) else (None, param) for param in params]
    for name, tensor in pairs:
        if tensor is not None and not isinstance(tensor, torch.Tensor):
            raise ValueError(f'"{name}" is no tensor, but of type {type(tensor).__name__}; use hvd.broadcast_object()')
    _broadcast_all([(None if name is None else str(name), tensor) for name, tensor in pairs if tensor is not None],
                   root_rank, process_set)


def _broadcast_all(pairs: List[Tuple[Optional[str], torch.Tensor]], root_rank: int, process_set: ProcessSet) -> None:
    """Broadcasts in place, all at once; a tensor that is not contiguous by way of a copy."""
    handles, copies = [], []
    for name, tensor in pairs:
        target = tensor.detach()
        if not target.is_contiguous():
            target = target.contiguous()
            copies.append((tensor, target))
        handles.append(_operations.broadcast(target, True, root_rank, name, process_set))
    _wait_for_all(handles)
    with torch.no_grad():
        for tensor, copy in copies:
            tensor.copy_(copy)


def _wait_for_all(handles: List[int]) -> None:
    """Waits for every handle, also if one failed, so that no name stays taken; raises the first error."""
    first = None
    for handle in handles:
        try:
            synchronize(handle)
        except RuntimeError as error:
            first = first or error
    if first is not None:
        raise first


class _TensorLike(NamedTuple):
    """Stands for a tensor in a structure that is pickled."""

    shape: Tuple[int, ...]
    dtype: torch.dtype


def _replaced(value: Any, kind: type, replace: Any) -> Any:
    """The same nesting of dicts, lists and tuples, with what is of a kind replaced."""
    if isinstance(value, kind):
        return replace(value)
    if isinstance(value, dict):
        return {key: _replaced(item, kind, replace) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_replaced(item, kind, replace) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int, model: Any = None,
                              process_set: ProcessSet = global_process_set) -> None:
    """Overwrites an optimizer's state, and the options of its parameter groups, with those of one rank; waits.

    Tensors are sent as tensors, everything else comes back as it was: an int is an int. A rank that has no state yet
    gets it; no step is made to create it.

    Args:
        optimizer: of any class, with the same parameters on all ranks.
        root_rank: whose state all get.
        model: not used.
        process_set: the ranks that take part.

    Raises:
        ValueError: the optimizer has tensors that cannot be sent.
        HorovodInternalError: ranks disagree, or one is lost.
    """
    state = optimizer.state_dict()
    tensors: List[torch.Tensor] = []

    def describe(tensor: torch.Tensor) -> _TensorLike:
        tensors.append(tensor)
        return _TensorLike(tuple(tensor.shape), tensor.dtype)

    root = _basics.rank() == root_rank
    described = _replaced(state, torch.Tensor, describe) if root else None
    described = broadcast_object(described, root_rank, "broadcast_optimizer_state", process_set)

    def make(like: _TensorLike) -> torch.Tensor:
        tensors.append(torch.empty(like.shape, dtype=like.dtype))
        return tensors[-1]

    if not root:
        state = _replaced(described, _TensorLike, make)
    _broadcast_all([(f"broadcast_optimizer_state.{number}", tensor) for number, tensor in enumerate(tensors)],
                   root_rank, process_set)
    if not root:
        optimizer.load_state_dict(state)


def _pickled(obj: Any) -> torch.Tensor:
    stream = io.BytesIO()
    _pickler.dump(obj, stream)
    return torch.frombuffer(bytearray(stream.getvalue()), dtype=torch.uint8)


def _unpickled(tensor: torch.Tensor) -> Any:
    return pickle.loads(tensor.numpy().tobytes())


def broadcast_object(obj: Any, root_rank: int = 0, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Any:
    """Sends a Python object from one rank to all; waits.

    Args:
        obj: what can be pickled; counts on the root alone.
        root_rank: whose object all get.
        name: pairs the call across ranks; None: the how many-eth unnamed broadcasts they are.
        process_set: the ranks that take part.

    Returns:
        On the root obj itself, on the others a copy.

    Raises:
        HorovodInternalError: ranks disagree, or one is lost.
    """
    root = _basics.rank() == root_rank
    content = _pickled(obj) if root else None
    size = torch.tensor([len(content) if root else 0])
    synchronize(_operations.broadcast(size, True, root_rank, name and f"{name}.size", process_set))
    if not root:
        content = torch.empty(int(size), dtype=torch.uint8)
    synchronize(_operations.broadcast(content, True, root_rank, name and f"{name}.content", process_set))
    return obj if root else _unpickled(content)


def allgather_object(obj: Any, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> List[Any]:
    """Gathers a Python object of each rank; waits.

    Args:
        obj: what can be pickled.
        name: pairs the call across ranks; None: the how many-eth unnamed gathers they are.
        process_set: the ranks that take part.

    Returns:
        The members' objects, in the order of ranks; all are copies.

    Raises:
        HorovodInternalError: ranks disagree, or one is lost.
    """
    content = _pickled(obj)
    sizes = synchronize(_operations.allgather(torch.tensor([len(content)]), name and f"{name}.size", process_set))
    everything = synchronize(_operations.allgather(content, name and f"{name}.content", process_set))
    return [_unpickled(part) for part in everything.split(sizes.tolist())]
