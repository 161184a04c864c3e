# SPDX-License-Identifier: Apache-2.0
"""Gradients on their way: which parameters are watched, what has been submitted, and what comes back.

A Gradients belongs to one DistributedOptimizer. It hooks the parameters, so that a gradient (or a group of them, when
the last is there) is submitted in backward, while others are still computed; settle() submits what is missing and
waits. The hooks run in autograd's threads, at one time for one parameter; settle() is not called while backward runs.
"""

import weakref
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch

from horovod.common.process_sets import ProcessSet
from horovod.common.util import split_list
from horovod.torch import _operations
from horovod.torch._async import Average, sparse_allreduce_async

Parameter = torch.Tensor
Groups = Optional[Any]  # None, a number, or a list of lists of parameters


class Reduction(NamedTuple):
    """How gradients are reduced."""

    compression: Any
    op: int
    predivide: float
    sparse_as_dense: bool
    process_set: ProcessSet

    def factors(self) -> Tuple[float, float]:
        """Prescale and postscale. The library divides averages by the number of members besides."""
        return (1 / self.predivide, self.predivide) if self.op == Average else (1.0, 1.0)


class _Sent(NamedTuple):
    """[handle]: of the operation, or a callable for a sparse one. [contexts]: of the compression, one for each."""

    handle: Any
    parameters: Sequence[Parameter]
    contexts: Sequence[Any]


class Gradients:
    """See above.

    Args:
        names: of all parameters.
        reduction: how they are reduced.
        passes: backward passes before a gradient is submitted.
        groups: a number of groups, or lists of parameters.
    """

    def __init__(self, names: Dict[Parameter, str], reduction: Reduction, passes: int, groups: Groups) -> None:
        self.names = names
        self.reduction = reduction
        self.passes = passes
        self._left: Dict[Parameter, int] = {}  # passes that are still to come, of each parameter that is watched
        self._sent: List[_Sent] = []
        self._submitted: Set[Parameter] = set()
        self._sparse: Set[Parameter] = set()
        self._hooks: List[Any] = []
        self._group_of: Dict[Parameter, Tuple[Parameter, ...]] = {}
        self._ready: Dict[Tuple[Parameter, ...], int] = {}
        self._form_groups(groups)

    def _form_groups(self, groups: Groups) -> None:
        if isinstance(groups, int):
            learning = [parameter for parameter in self.names if parameter.requires_grad]
            groups = split_list(learning, groups) if groups else []
        for members in groups or []:
            group = tuple(members)
            for parameter in group:
                self._group_of[parameter] = group

    def watch(self, parameters: Sequence[Parameter]) -> None:
        """Hooks those that need a gradient and are not hooked yet."""
        for parameter in parameters:
            if parameter.requires_grad and parameter not in self._left:
                self._left[parameter] = self.passes
                self._hook(parameter)

    def _hook(self, parameter: Parameter) -> None:
        # The parameter refers to the hook: were it to refer to this object, both would live for ever.
        to_self = weakref.ref(self)

        def ready(*_: Any) -> None:
            self_ = to_self()
            if self_ is not None:
                self_._on_gradient(parameter)

        if hasattr(parameter, "register_post_accumulate_grad_hook"):
            self._hooks.append(parameter.register_post_accumulate_grad_hook(ready))
            return
        # Before torch 2.1: the node that accumulates the gradient. It lives as long as somebody refers to it.
        with torch.enable_grad():
            accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
        accumulator.register_hook(ready)
        self._hooks.append(accumulator)

    def set_passes(self, passes: int) -> None:
        """From now on a gradient is submitted after so many backward passes."""
        self.passes = passes
        self.start_over()

    def start_over(self) -> None:
        """Forgets what has been counted; what is in flight is left to itself."""
        self._sent.clear()
        self._submitted.clear()
        self._ready.clear()
        for parameter in self._left:
            self._left[parameter] = self.passes

    @property
    def in_flight(self) -> bool:
        """Is anything submitted that settle() has not waited for?"""
        return bool(self._sent)

    def _on_gradient(self, parameter: Parameter) -> None:
        if self._left[parameter] <= 0:
            raise AssertionError(
                f'the gradient of "{self._name(parameter)}" was computed more than {self.passes} times before step(); '
                "give backward_passes_per_step=... to accumulate gradients over several backward passes")
        if parameter.grad.requires_grad:
            raise AssertionError(f'the gradient of "{self._name(parameter)}" needs a gradient itself '
                                 "(create_graph=True), which cannot be reduced in backward")
        self._left[parameter] -= 1
        if self._left[parameter] == 0:
            self._submit_with_group(parameter)

    def _submit_with_group(self, parameter: Parameter) -> None:
        group = self._group_of.get(parameter)
        if group is None:
            self._submit(parameter)
            return
        self._ready[group] = self._ready.get(group, 0) + 1
        if self._ready[group] == sum(member in self._left for member in group):
            self._submit_group(group)

    def _name(self, parameter: Parameter) -> Optional[str]:
        return self.names.get(parameter)

    def _dense(self, parameter: Parameter) -> torch.Tensor:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        if parameter.grad.is_sparse:
            parameter.grad = parameter.grad.to_dense()
        return parameter.grad

    def _compressed(self, parameter: Parameter) -> Tuple[torch.Tensor, Any]:
        with torch.no_grad():
            tensor, context = self.reduction.compression.compress(self._dense(parameter))
            return tensor.contiguous(), context

    def _submit(self, parameter: Parameter) -> None:
        if parameter.grad is None and parameter in self._sparse:
            parameter.grad = torch.zeros_like(parameter, layout=torch.sparse_coo)
        if parameter.grad is not None and parameter.grad.is_sparse and not self.reduction.sparse_as_dense:
            self._submit_sparse(parameter)
            return
        tensor, context = self._compressed(parameter)
        handle = _operations.allreduce(tensor, True, self._name(parameter), self.reduction.op,
                                       *self.reduction.factors(), self.reduction.process_set)
        self._note(_Sent(handle, [parameter], [context]))

    def _submit_sparse(self, parameter: Parameter) -> None:
        self._sparse.add(parameter)
        tensor, context = self.reduction.compression.compress(parameter.grad)
        handle = sparse_allreduce_async(tensor, self._name(parameter), self.reduction.op, self.reduction.process_set)
        self._note(_Sent(handle, [parameter], [context]))

    def _submit_group(self, group: Tuple[Parameter, ...]) -> None:
        members = [member for member in group if member in self._left]
        for member in members:
            if member.grad is not None and member.grad.is_sparse and not self.reduction.sparse_as_dense:
                raise ValueError(f'the gradient of "{self._name(member)}" is sparse, which cannot be reduced in a '
                                 "group; give sparse_as_dense=True, or leave the parameter out of the groups")
        tensors, contexts = zip(*(self._compressed(member) for member in members))
        handle = _operations.grouped_allreduce(tensors, True, self._name(members[0]), self.reduction.op,
                                               *self.reduction.factors(), self.reduction.process_set)
        self._note(_Sent(handle, members, contexts))

    def _note(self, sent: _Sent) -> None:
        self._sent.append(sent)
        self._submitted.update(sent.parameters)

    def settle(self) -> None:
        """Submits what backward has not, waits for everything, and leaves reduced gradients in the parameters.

        A parameter without a gradient puts in zeros: another rank may have one.

        Raises:
            HorovodInternalError: the first that failed; all have been waited for.
        """
        for parameter in list(self._left):
            if parameter not in self._submitted and (parameter.requires_grad or parameter.grad is not None):
                group = self._group_of.get(parameter)
                self._submit(parameter) if group is None else self._submit_group(group)
        first = None
        for sent in self._sent:
            try:
                self._take(sent, _operations.synchronize(sent.handle))
            except RuntimeError as error:
                first = first or error
        self.start_over()
        if first is not None:
            raise first

    def _take(self, sent: _Sent, outputs: Any) -> None:
        if len(sent.parameters) == 1 and not isinstance(outputs, list):
            outputs = [outputs]
        with torch.no_grad():
            for parameter, output, context in zip(sent.parameters, outputs, sent.contexts):
                reduced = self.reduction.compression.decompress(output, context)
                if reduced.is_sparse:
                    parameter.grad = reduced
                elif reduced is not parameter.grad:
                    parameter.grad.copy_(reduced)
