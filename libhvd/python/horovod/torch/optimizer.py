# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: an optimizer that reduces gradients over the ranks before it steps.

What it returns is of a class made for the occasion, which inherits from the user's optimizer's class and shares that
object's parameter groups and state. Gradients are _gradients.py's business; here is what an optimizer looks like.
"""

import os
import warnings
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

import torch

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.torch import _operations
from horovod.torch._async import Adasum, Average
from horovod.torch._gradients import Gradients, Reduction
from horovod.torch.compression import Compression

NamedParameters = Optional[Iterable[Tuple[str, torch.Tensor]]]


def _names(optimizer: torch.optim.Optimizer, named_parameters: NamedParameters) -> Dict[torch.Tensor, str]:
    """The names of all parameters, in the order of the groups. ValueError if one has none, or a name is used twice."""
    own = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if named_parameters is None:
        return {parameter: f"allreduce.noname.{number}" for number, parameter in enumerate(own)}
    pairs = list(named_parameters)
    if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise ValueError("named_parameters is a sequence of pairs (name, parameter), as model.named_parameters() makes "
                         "it")
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(f'names in named_parameters have to be unique; these are there twice: {", ".join(twice)}')
    given = {parameter: name for name, parameter in pairs}
    unnamed = sum(parameter not in given for parameter in own)
    if unnamed:
        raise ValueError(f"named_parameters has no name for {unnamed} of the optimizer's {len(own)} parameters; give "
                         "those of all models whose parameters it has")
    return {parameter: given[parameter] for parameter in own}


class _DistributedOptimizer(torch.optim.Optimizer):
    """Mixed into the user's class: reduces gradients, then steps."""

    def _start(self, names: Dict[torch.Tensor, str], reduction: Reduction, passes: int, groups: Any) -> None:
        self._parameter_names = names
        self._compression = reduction.compression
        self.op = reduction.op
        self.gradient_predivide_factor = reduction.predivide
        self.sparse_as_dense = reduction.sparse_as_dense
        self.process_set = reduction.process_set
        self.backward_passes_per_step = passes
        self._synchronized = False
        self._should_synchronize = True
        self._gradients = Gradients(names, reduction, passes, groups)
        self._watch()

    def _alone(self) -> bool:
        if os.environ.get("HOROVOD_ELASTIC") == "1":
            return False
        return not self.process_set.included() or self.process_set.size() == 1

    def _watch(self) -> None:
        if not self._alone():
            self._gradients.watch([parameter for group in self.param_groups for parameter in group["params"]])

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Gradients of so many backward passes are added up on this rank before they are reduced."""
        self.backward_passes_per_step = _at_least_one(passes)
        self._gradients.set_passes(passes)

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """As of the optimizer; starts to count backward passes anew."""
        self._gradients.start_over()
        self._synchronized = False
        self._should_synchronize = True
        super().load_state_dict(state_dict)

    def synchronize(self) -> None:
        """Waits until all gradients are reduced, to clip or look at them before step(); call step() within
        skip_synchronize() then. Parameters that need a gradient and have none put in zeros.

        Raises:
            HorovodInternalError: ranks disagree, or one is lost.
        """
        if not self._alone():
            self._watch()
            self._gradients.settle()
        self._synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within the context step() does not reduce gradients: synchronize() has been called."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Optional[Callable[[], Any]] = None, *args: Any, **kwargs: Any) -> Any:
        """Reduces the gradients and makes the optimizer's step; with a closure, reduces after it.

        Returns:
            What the optimizer's step() returns. Raises as synchronize() does.
        """
        if not self._should_synchronize:
            self._synchronized = False
            return super().step(*(() if closure is None else (closure,)), *args, **kwargs)
        if self._synchronized:
            warnings.warn("step() reduces gradients again that synchronize() has reduced, which takes time and "
                          "averages what has been changed since; call step() within optimizer.skip_synchronize()")
        if closure is None:
            self.synchronize()
            self._synchronized = False
            return super().step(*args, **kwargs)

        def closure_and_synchronize() -> Any:
            with torch.enable_grad():
                loss = closure()
            self.synchronize()
            self._synchronized = False
            return loss

        return super().step(closure_and_synchronize, *args, **kwargs)

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """As of the optimizer. AssertionError between backward() and step() or synchronize(): gradients are in use."""
        if self._gradients.in_flight:
            raise AssertionError("zero_grad() was called after backward(), while gradients are being reduced; call "
                                 "step() or synchronize() first")
        super().zero_grad(*args, **kwargs)


class _DistributedAdasumOptimizer(torch.optim.Optimizer):
    """Mixed into the user's class: steps with this rank's gradients, and combines what the steps changed by Adasum."""

    def _start(self, names: Dict[torch.Tensor, str], reduction: Reduction, passes: int, groups: Any) -> None:
        self._parameter_names = names
        self._compression = reduction.compression
        self.process_set = reduction.process_set
        self.op = Adasum
        self.backward_passes_per_step = passes

    def set_backward_passes_per_step(self, passes: int) -> None:
        """step() is called after so many backward passes; their gradients have been added up."""
        self.backward_passes_per_step = _at_least_one(passes)

    def synchronize(self) -> None:
        """Does nothing: step() combines changes, not gradients."""

    def skip_synchronize(self) -> None:
        """AssertionError: what is combined is what step() changes."""
        raise AssertionError("skip_synchronize() cannot be used with Adasum, which combines what step() changes")

    def step(self, closure: Optional[Callable[[], Any]] = None, *args: Any, **kwargs: Any) -> Any:
        """Makes the optimizer's step and combines all ranks' changes of the parameters.

        Returns:
            What the optimizer's step() returns.

        Raises:
            HorovodInternalError: ranks disagree, or one is lost.
        """
        watched = [parameter for group in self.param_groups for parameter in group["params"] if parameter.requires_grad]
        before = [parameter.detach().clone(memory_format=torch.contiguous_format) for parameter in watched]
        result = super().step(*(() if closure is None else (closure,)), *args, **kwargs)
        with torch.no_grad():
            sent = [self._send(parameter, start) for parameter, start in zip(watched, before)]
            for parameter, start, (handle, context) in zip(watched, before, sent):
                change = self._compression.decompress(_operations.synchronize(handle), context)
                parameter.copy_(start.add_(change))
        return result

    def _send(self, parameter: torch.Tensor, start: torch.Tensor) -> Tuple[int, Any]:
        change, context = self._compression.compress((parameter - start).contiguous())
        return _operations.allreduce(change, True, self._parameter_names.get(parameter), Adasum, 1.0, 1.0,
                                     self.process_set), context


def _at_least_one(passes: Any) -> int:
    if isinstance(passes, bool) or not isinstance(passes, int) or passes < 1:
        raise ValueError(f"backward_passes_per_step is {passes!r}; it is a number, at least 1")
    return passes


def _checked_groups(groups: Any, own: Sequence[torch.Tensor]) -> Union[None, int, List[List[torch.Tensor]]]:
    if groups is None:
        return None
    if isinstance(groups, int) and not isinstance(groups, bool) and groups >= 0:
        return groups
    if not isinstance(groups, (list, tuple)) or not all(isinstance(group, (list, tuple)) for group in groups):
        raise ValueError("groups is a number, at least 0, or a list of lists of parameters")
    known, seen = set(own), set()
    for parameter in (parameter for group in groups for parameter in group):
        if not isinstance(parameter, torch.Tensor) or parameter not in known:
            raise ValueError("groups has something in it that is no parameter of the optimizer")
        if parameter in seen:
            raise ValueError("groups has a parameter twice")
        seen.add(parameter)
    return [list(group) for group in groups if group]


def DistributedOptimizer(optimizer: torch.optim.Optimizer, named_parameters: NamedParameters = None,
                         compression: Any = Compression.none, backward_passes_per_step: int = 1, op: int = Average,
                         gradient_predivide_factor: float = 1.0, num_groups: int = 0, groups: Any = None,
                         sparse_as_dense: bool = False, process_set: ProcessSet = global_process_set
                         ) -> torch.optim.Optimizer:
    """An optimizer that averages gradients over the ranks, and starts to do so while backward() still runs.

    Args:
        optimizer: any but torch.optim.LBFGS. Use only what is returned from here on.
        named_parameters: ``model.named_parameters()``: names that pair gradients across ranks. None: by position.
        compression: one of hvd.Compression: how gradients are sent.
        backward_passes_per_step: so many backward passes add to the gradients before they are reduced.
        op: Average, Sum, Min, Max or Product of gradients; Adasum combines what the steps change instead.
        gradient_predivide_factor: with Average: divide by it before summing, and by (members / it) after.
        num_groups: deprecated; say groups.
        groups: None; or a number of groups of about as many gradients each; or a list of lists of parameters. The
            gradients of a group are reduced together, when the last is there.
        sparse_as_dense: make sparse gradients dense, instead of gathering their entries.
        process_set: the ranks that take part; others step with their own gradients.

    Returns:
        An optimizer whose class inherits from the given one's, with methods synchronize(), skip_synchronize() and
        set_backward_passes_per_step() besides. step() raises HorovodInternalError if ranks disagree or one is lost.

    Raises:
        ValueError: wrong arguments.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("torch.optim.LBFGS cannot be distributed: it evaluates the closure as often as this rank's "
                         "loss asks for, and ranks have to do the same backward passes; use another optimizer")
    if isinstance(optimizer, (_DistributedOptimizer, _DistributedAdasumOptimizer)):
        raise ValueError("the optimizer is a DistributedOptimizer already")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor can be used with op=hvd.Average alone")
    if num_groups:
        warnings.warn("the parameter num_groups is deprecated; say groups=...", DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    passes = _at_least_one(backward_passes_per_step)
    names = _names(optimizer, named_parameters)
    groups = _checked_groups(groups, list(names))
    # One rank alone has nothing to combine, and its step needs no detour.
    mixed_in = _DistributedAdasumOptimizer if op == Adasum and process_set.size() != 1 else _DistributedOptimizer
    cls = type(type(optimizer).__name__, (mixed_in, type(optimizer)), {"__module__": __name__})
    distributed = cls.__new__(cls)
    # "step": a learning rate scheduler's wrapper, which would step the other object.
    distributed.__dict__.update({key: value for key, value in optimizer.__dict__.items() if key != "step"})
    reduction = Reduction(compression, op, float(gradient_predivide_factor), sparse_as_dense, process_set)
    distributed._start(names, reduction, passes, groups)
    return distributed
