# SPDX-License-Identifier: Apache-2.0
"""The operations that wait, and their gradients.

Gradients are Horovod's, so that programs train alike. With L the average of the ranks' losses, or of what they have
before hooks average it:

* allreduce: the gradients are allreduced with the same op and factors.
* allgather: the average of the gradients, of it the rows that came from this rank.
* broadcast: the average of the gradients on the root, zeros elsewhere.
* alltoall: the gradients go back to where the rows came from.
* reducescatter: the gradients are gathered; times the number of members if op is Sum.

Backward runs collective operations without names, so all ranks have to do the same backward passes in the same order.
All of it can be differentiated again.
"""

from typing import Any, List, Optional, Sequence, Tuple, Union

import torch
from torch.autograd import Function

from horovod.common.basics import HorovodBasics
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.torch import _async, _operations
from horovod.torch._async import Average, Sum, handle_average_backwards_compatibility
from horovod.torch._operations import synchronize
from horovod.torch.compression import Compression

_basics = HorovodBasics()


class HorovodAllreduce(Function):
    """allreduce of one tensor."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: Optional[str], op: int, prescale: float, postscale: float,
                process_set: ProcessSet) -> torch.Tensor:
        """Arguments as for _operations.allreduce()."""
        ctx.rest = (op, prescale, postscale, process_set)
        return synchronize(_operations.allreduce(tensor, False, name, op, prescale, postscale, process_set))

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        """The allreduced gradient."""
        return HorovodAllreduce.apply(grad, None, *ctx.rest), None, None, None, None, None


class HorovodGroupedAllreduce(Function):
    """allreduce of several tensors."""

    @staticmethod
    def forward(ctx: Any, name: Optional[str], op: int, prescale: float, postscale: float, process_set: ProcessSet,
                *tensors: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        """Arguments as for _operations.grouped_allreduce()."""
        ctx.rest = (op, prescale, postscale, process_set)
        return tuple(synchronize(
            _operations.grouped_allreduce(tensors, False, name, op, prescale, postscale, process_set)))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        """The allreduced gradients."""
        return (None, None, None, None, None, *HorovodGroupedAllreduce.apply(None, *ctx.rest, *grads))


def _own_rows(grads: Sequence[torch.Tensor], rows: Sequence[int], process_set: ProcessSet) -> List[torch.Tensor]:
    """Of each gathered tensor the rows that came from this rank, which has put in so many."""
    counts = synchronize(_operations.allgather(torch.tensor([list(rows)]), None, process_set))
    first = counts[:process_set.rank()].sum(dim=0).tolist()
    return [grad.narrow(0, start, count) for grad, start, count in zip(grads, first, rows)]


class HorovodAllgather(Function):
    """allgather of one tensor."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: Optional[str], process_set: ProcessSet) -> torch.Tensor:
        """Arguments as for _operations.allgather()."""
        handle = _operations.allgather(tensor, name, process_set)
        ctx.rows, ctx.process_set = tensor.shape[0], process_set
        return synchronize(handle)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        """This rank's rows of the averaged gradient."""
        averaged = HorovodAllreduce.apply(grad, None, Average, 1.0, 1.0, ctx.process_set)
        return _own_rows([averaged], [ctx.rows], ctx.process_set)[0], None, None


class HorovodGroupedAllgather(Function):
    """allgather of several tensors."""

    @staticmethod
    def forward(ctx: Any, name: Optional[str], process_set: ProcessSet,
                *tensors: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        """Arguments as for _operations.grouped_allgather()."""
        handle = _operations.grouped_allgather(tensors, name, process_set)
        ctx.rows, ctx.process_set = [tensor.shape[0] for tensor in tensors], process_set
        return tuple(synchronize(handle))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        """This rank's rows of the averaged gradients."""
        averaged = HorovodGroupedAllreduce.apply(None, Average, 1.0, 1.0, ctx.process_set, *grads)
        return (None, None, *_own_rows(averaged, ctx.rows, ctx.process_set))


class HorovodBroadcast(Function):
    """broadcast of one tensor."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root_rank: int, name: Optional[str],
                process_set: ProcessSet) -> torch.Tensor:
        """Arguments as for _operations.broadcast()."""
        ctx.root_rank, ctx.process_set = root_rank, process_set
        return synchronize(_operations.broadcast(tensor, False, root_rank, name, process_set))

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        """The averaged gradient on the root, zeros elsewhere."""
        averaged = HorovodAllreduce.apply(grad, None, Average, 1.0, 1.0, ctx.process_set)
        return (averaged if _basics.rank() == ctx.root_rank else averaged * 0), None, None, None


class HorovodAlltoall(Function):
    """alltoall of one tensor; gives the numbers of received rows, too."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, splits: Union[None, torch.Tensor, Sequence[int]], name: Optional[str],
                process_set: ProcessSet) -> Tuple[torch.Tensor, torch.Tensor]:
        """Arguments as for _operations.alltoall()."""
        output, received = synchronize(_operations.alltoall(tensor, splits, name, process_set))
        ctx.received, ctx.process_set = received, process_set
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, _: Any) -> Tuple[Optional[torch.Tensor], ...]:
        """The gradients of the rows that this rank has sent."""
        return HorovodAlltoall.apply(grad, ctx.received, None, ctx.process_set)[0], None, None, None


class HorovodReducescatter(Function):
    """reducescatter of one tensor."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: Optional[str], op: int, prescale: float, postscale: float,
                process_set: ProcessSet) -> torch.Tensor:
        """Arguments as for _operations.reducescatter()."""
        ctx.factor = _reducescatter_factor(op, prescale, postscale, process_set)
        ctx.process_set = process_set
        return synchronize(_operations.reducescatter(tensor, name, op, prescale, postscale, process_set))

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        """The gathered gradients."""
        return HorovodAllgather.apply(grad * ctx.factor, None, ctx.process_set), None, None, None, None, None


class HorovodGroupedReducescatter(Function):
    """reducescatter of several tensors."""

    @staticmethod
    def forward(ctx: Any, name: Optional[str], op: int, prescale: float, postscale: float, process_set: ProcessSet,
                *tensors: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        """Arguments as for _operations.grouped_reducescatter()."""
        ctx.factor = _reducescatter_factor(op, prescale, postscale, process_set)
        ctx.process_set = process_set
        return tuple(synchronize(
            _operations.grouped_reducescatter(tensors, name, op, prescale, postscale, process_set)))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        """The gathered gradients."""
        scaled = [grad * ctx.factor for grad in grads]
        return (None, None, None, None, None, *HorovodGroupedAllgather.apply(None, ctx.process_set, *scaled))


def _reducescatter_factor(op: int, prescale: float, postscale: float, process_set: ProcessSet) -> float:
    return prescale * postscale * (process_set.size() or 1 if op == Sum else 1)


def allreduce(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
              compression: Any = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Reduces a tensor over the ranks, and waits. Differentiable.

    Args:
        tensor: the same type and shape on all ranks.
        average: deprecated; say op.
        name: pairs the operation across ranks.
        compression: one of hvd.Compression: what is sent.
        op: Average (if None), Sum, Min, Max, Product, or Adasum (floating types).
        prescale_factor, postscale_factor: what input and result are multiplied by.
        process_set: the ranks that take part.

    Returns:
        A new tensor of the same type and shape.

    Raises:
        ValueError: wrong arguments.
        HorovodInternalError: ranks disagree, or one is lost.
    """
    op = handle_average_backwards_compatibility(op, average)
    compressed, context = compression.compress(tensor) if isinstance(tensor, torch.Tensor) else (tensor, None)
    reduced = HorovodAllreduce.apply(compressed, name, op, prescale_factor, postscale_factor, process_set)
    return compression.decompress(reduced, context)


def allreduce_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
               op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """allreduce() in place, without gradient; returns the tensor, which has to be contiguous."""
    op = handle_average_backwards_compatibility(op, average)
    return synchronize(_operations.allreduce(tensor, True, name, op, prescale_factor, postscale_factor, process_set))


def grouped_allreduce(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                      compression: Any = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0,
                      process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """Reduces a group of tensors over the ranks, all or none, and waits. Differentiable.

    Args:
        tensors: a list, the same number, types and shapes on all ranks. The rest as for allreduce().

    Returns:
        A list of new tensors. Raises as allreduce() does.
    """
    op = handle_average_backwards_compatibility(op, average)
    compressed, contexts = zip(*(compression.compress(tensor) for tensor in _operations._several(tensors)))
    reduced = HorovodGroupedAllreduce.apply(name, op, prescale_factor, postscale_factor, process_set, *compressed)
    return [compression.decompress(tensor, context) for tensor, context in zip(reduced, contexts)]


def grouped_allreduce_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                       op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """grouped_allreduce() in place, without gradient; returns the tensors, which have to be contiguous."""
    op = handle_average_backwards_compatibility(op, average)
    return synchronize(
        _operations.grouped_allreduce(tensors, True, name, op, prescale_factor, postscale_factor, process_set))


def allgather(tensor: torch.Tensor, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Puts the tensors of all ranks together along the first dimension, and waits. Differentiable.

    Args:
        tensor: one dimension or more; all but the first the same on all ranks.
        name, process_set: as for allreduce().

    Returns:
        A new tensor, the same on all ranks. Raises as allreduce() does.
    """
    return HorovodAllgather.apply(tensor, name, process_set)


def grouped_allgather(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                      process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """Gathers a group of tensors, all or none, and waits. Differentiable.

    Args:
        tensors: a list, the same number on all ranks; each as for allgather().

    Returns:
        A list of new tensors. Raises as allreduce() does.
    """
    return list(HorovodGroupedAllgather.apply(name, process_set, *_operations._several(tensors)))


def broadcast(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Copies one rank's tensor to all, and waits. Differentiable.

    Args:
        tensor: the same type and shape on all ranks; the values count on the root alone.
        root_rank: a rank of the job, and a member of the process set.
        name, process_set: as for allreduce().

    Returns:
        A new tensor. Raises as allreduce() does.
    """
    return HorovodBroadcast.apply(tensor, root_rank, name, process_set)


def broadcast_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """broadcast() in place, without gradient; returns the tensor, which has to be contiguous."""
    return synchronize(_async.broadcast_async_(tensor, root_rank, name, process_set))


def alltoall(tensor: torch.Tensor, splits: Union[None, torch.Tensor, Sequence[int]] = None,
             name: Optional[str] = None, process_set: ProcessSet = global_process_set
             ) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    """Sends rows of a tensor to each rank, puts together what comes in the order of ranks, and waits. Differentiable.

    Args:
        tensor: one dimension or more; all but the first the same on all ranks.
        splits: how many rows go to each member; they add up to the rows there are. None: the same number to each.
        name, process_set: as for allreduce().

    Returns:
        A new tensor; if splits are given (tensor, the numbers of rows that came from each: int32, or splits' type).
        Raises as allreduce() does.
    """
    output, received = HorovodAlltoall.apply(tensor, splits, name, process_set)
    return output if splits is None else (output, received)


def reducescatter(tensor: torch.Tensor, name: Optional[str] = None, compression: Any = Compression.none,
                  op: int = Average, process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> torch.Tensor:
    """Reduces a tensor over the ranks, gives each its share of the rows, and waits. Differentiable.

    Args:
        tensor: one dimension or more, the same type and shape on all ranks. The first (rows % members) ranks get one
            row more.
        op: Average, Sum, Min, Max or Product.
        name, compression, process_set, prescale_factor, postscale_factor: as for allreduce().

    Returns:
        A new tensor. Raises as allreduce() does.
    """
    compressed, context = compression.compress(tensor) if isinstance(tensor, torch.Tensor) else (tensor, None)
    reduced = HorovodReducescatter.apply(compressed, name, op, prescale_factor, postscale_factor, process_set)
    return compression.decompress(reduced, context)


def grouped_reducescatter(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                          compression: Any = Compression.none, op: int = Average,
                          process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> List[torch.Tensor]:
    """Reduces and scatters a group of tensors, all or none, and waits. Differentiable.

    Args:
        tensors: a list, the same number, types and shapes on all ranks. The rest as for reducescatter().

    Returns:
        A list of new tensors. Raises as allreduce() does.
    """
    compressed, contexts = zip(*(compression.compress(tensor) for tensor in _operations._several(tensors)))
    reduced = HorovodGroupedReducescatter.apply(name, op, prescale_factor, postscale_factor, process_set, *compressed)
    return [compression.decompress(tensor, context) for tensor, context in zip(reduced, contexts)]
