# SPDX-License-Identifier: Apache-2.0
"""The asynchronous operations, as programs call them: they return handles for poll() and synchronize().

What all of them share:

* ``name`` pairs the operation across ranks, whatever the order in which they submit. None: the how many-eth unnamed one
  of this kind it is.
* A name that is in flight already, a tensor on another device than the host, of another layout or of a type that is not
  supported, a process set that this rank is no member of: ValueError at the call. Ranks that disagree about type, shape
  or arguments, and ranks that are lost: HorovodInternalError at synchronize().
* The tensor must not be written to until the operation is done (nor read, of those in place), and is kept until then.
  One that is not contiguous is copied first; in place that is a ValueError.
* ``process_set``: the members do the operation among themselves.
"""

from typing import Callable, Optional, Sequence, Union

import torch

from horovod.common.basics import HorovodBasics
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import get_average_backwards_compatibility_fun
from horovod.torch import _operations

Average = HorovodBasics.Average
Sum = HorovodBasics.Sum
Adasum = HorovodBasics.Adasum
Min = HorovodBasics.Min
Max = HorovodBasics.Max
Product = HorovodBasics.Product

handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(HorovodBasics)


def allreduce_async(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
                    op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                    process_set: ProcessSet = global_process_set) -> int:
    """Starts to reduce a tensor over the ranks.

    Args:
        tensor: the same type and shape on all ranks.
        average: deprecated; say op.
        op: Average (if None), Sum, Min, Max, Product, or Adasum (floating types). Averages of integers are truncated.
        prescale_factor: what the input is multiplied by first; the same on all ranks.
        postscale_factor: what the result is multiplied by.

    Returns:
        A handle; its result is a new tensor of this type and shape, bitwise the same on all ranks.

    Raises:
        ValueError: op and average are both given, and what the module tells.
    """
    op = handle_average_backwards_compatibility(op, average)
    return _operations.allreduce(tensor, False, name, op, prescale_factor, postscale_factor, process_set)


def allreduce_async_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
                     op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                     process_set: ProcessSet = global_process_set) -> int:
    """allreduce_async() in place: the handle's result is the (contiguous) tensor itself."""
    op = handle_average_backwards_compatibility(op, average)
    return _operations.allreduce(tensor, True, name, op, prescale_factor, postscale_factor, process_set)


def grouped_allreduce_async(tensors: Sequence[torch.Tensor], average: Optional[bool] = None,
                            name: Optional[str] = None, op: Optional[int] = None, prescale_factor: float = 1.0,
                            postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> int:
    """Starts to reduce a group of tensors, of which none is reduced before all ranks have submitted the group.

    Args:
        tensors: a list, of any types and shapes; the same number, types and shapes on all ranks. The rest as for
            allreduce_async().

    Returns:
        A handle; its result is a list of new tensors.
    """
    op = handle_average_backwards_compatibility(op, average)
    return _operations.grouped_allreduce(tensors, False, name, op, prescale_factor, postscale_factor, process_set)


def grouped_allreduce_async_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None,
                             name: Optional[str] = None, op: Optional[int] = None, prescale_factor: float = 1.0,
                             postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> int:
    """grouped_allreduce_async() in place: the handle's result is a list of the (contiguous) tensors themselves."""
    op = handle_average_backwards_compatibility(op, average)
    return _operations.grouped_allreduce(tensors, True, name, op, prescale_factor, postscale_factor, process_set)


def sparse_allreduce_async(tensor: torch.Tensor, name: Optional[str], op: int,
                           process_set: ProcessSet = global_process_set) -> Callable[[], torch.Tensor]:
    """Starts to reduce a sparse tensor: indices and values of all ranks are gathered.

    Args:
        tensor: of layout sparse_coo, of the same shape on all ranks; any number of entries, in any order.
        op: Average or Sum.

    Returns:
        A callable that waits and returns the sum or average as a sparse tensor of this shape, not coalesced.

    Raises:
        ValueError: the tensor is not sparse, or another op.
    """
    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.sparse_coo:
        raise ValueError("sparse_allreduce_async() takes a tensor of layout sparse_coo; use allreduce_async() for "
                         "others")
    if op not in (Average, Sum):
        raise ValueError("sparse tensors can be averaged and summed; op has to be hvd.Average or hvd.Sum")
    entries = tensor._indices().t().contiguous()
    indices_handle = allgather_async(entries, None if name is None else f"{name}.indices", process_set)
    values_handle = allgather_async(tensor._values(), None if name is None else f"{name}.values", process_set)
    shape = tensor.size()

    def wait() -> torch.Tensor:
        indices = _operations.synchronize(indices_handle)
        values = _operations.synchronize(values_handle)
        if op == Average:
            values = values / process_set.size()
        return torch.sparse_coo_tensor(indices.t(), values, shape)

    return wait


def allgather_async(tensor: torch.Tensor, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> int:
    """Starts to put the tensors of all ranks together along the first dimension, in the order of ranks.

    Args:
        tensor: one dimension or more; all but the first the same on all ranks.

    Returns:
        A handle; its result is a new tensor.
    """
    return _operations.allgather(tensor, name, process_set)


def grouped_allgather_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                            process_set: ProcessSet = global_process_set) -> int:
    """Starts to gather a group of tensors, of which none is gathered before all ranks have submitted the group.

    Args:
        tensors: a list, the same number on all ranks; each as for allgather_async().

    Returns:
        A handle; its result is a list of new tensors.
    """
    return _operations.grouped_allgather(tensors, name, process_set)


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> int:
    """Starts to copy one rank's tensor to all.

    Args:
        tensor: the same type and shape on all ranks; the values count on the root alone.
        root_rank: a rank of the job, and a member of the process set.

    Returns:
        A handle; its result is a new tensor.
    """
    return _operations.broadcast(tensor, False, root_rank, name, process_set)


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> int:
    """broadcast_async() in place: the handle's result is the (contiguous) tensor itself."""
    return _operations.broadcast(tensor, True, root_rank, name, process_set)


def alltoall_async(tensor: torch.Tensor, splits: Union[None, torch.Tensor, Sequence[int]] = None,
                   name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> int:
    """Starts to send rows of a tensor to each rank, and to put together what comes, in the order of ranks.

    Args:
        tensor: one dimension or more; all but the first the same on all ranks.
        splits: how many rows go to each member; they add up to the rows there are. None: the same number to each.

    Returns:
        A handle; its result is (a new tensor, the numbers of rows that came from each: int32, or splits' type).

    Raises:
        ValueError: splits of a wrong number, sum or type, and what the module tells.
    """
    return _operations.alltoall(tensor, splits, name, process_set)


def reducescatter_async(tensor: torch.Tensor, name: Optional[str] = None, op: int = Average,
                        process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                        postscale_factor: float = 1.0) -> int:
    """Starts to reduce a tensor over the ranks and give each its share of the rows.

    Args:
        tensor: one dimension or more, the same type and shape on all ranks. The first (rows % members) ranks get one
            row more.
        op: Average, Sum, Min, Max or Product.
        prescale_factor, postscale_factor: as for allreduce_async().

    Returns:
        A handle; its result is a new tensor of this rank's rows.
    """
    return _operations.reducescatter(tensor, name, op, prescale_factor, postscale_factor, process_set)


def grouped_reducescatter_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None, op: int = Average,
                                process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                                postscale_factor: float = 1.0) -> int:
    """Starts to reduce and scatter a group of tensors, of which none is reduced before all ranks have submitted it.

    Args:
        tensors: a list, the same number, types and shapes on all ranks. The rest as for reducescatter_async().

    Returns:
        A handle; its result is a list of new tensors.
    """
    return _operations.grouped_reducescatter(tensors, name, op, prescale_factor, postscale_factor, process_set)


def join(device: int = -1) -> int:
    """Says that this rank has no more data, and waits until all ranks have said so. Until then it counts as putting
    zeros into every allreduce of the global set that the others submit; other operations that need it fail.

    Args:
        device: not used with host memory; any number.

    Returns:
        The rank that was the last to join, the same on all ranks.

    Raises:
        ValueError: not initialised, or this rank has joined already.
        HorovodInternalError: a rank is lost.
    """
    return _operations.synchronize(_operations.join(device))


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Waits until all members have called it; other operations may be in flight.

    Raises:
        ValueError: not initialised, or this rank is no member.
        HorovodInternalError: a rank is lost.
    """
    _operations.synchronize(_operations.barrier(process_set))
