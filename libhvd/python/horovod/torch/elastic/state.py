# SPDX-License-Identifier: Apache-2.0
"""TorchState: models, optimizers, samplers and plain objects, saved in memory and synchronised from rank 0."""

import copy
from typing import Any, Dict, Optional

import torch

from horovod.common.elastic import ObjectState
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.functions import allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters
from horovod.torch.mpi_ops import rank


class StateHandler:
    """How a value with a state_dict is saved, restored and synchronised.

    Args:
        value: the model, optimizer or sampler.
    """

    def __init__(self, value: Any) -> None:
        self.value = value
        self._saved = copy.deepcopy(value.state_dict())

    def save(self) -> None:
        """Copies the state."""
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        """Loads the state that was copied last."""
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self) -> None:
        """Gives all ranks the state of rank 0, and saves it. Collective."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Another value from here on."""
        self.value = value
        self.save()


class ModelStateHandler(StateHandler):
    """Of a torch.nn.Module."""

    def sync(self) -> None:
        """Broadcasts parameters and buffers."""
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class OptimizerStateHandler(StateHandler):
    """Of a torch.optim.Optimizer."""

    def sync(self) -> None:
        """Broadcasts state and options."""
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


class SamplerStateHandler(StateHandler):
    """Of an ElasticSampler."""

    def sync(self) -> None:
        """All ranks get rank 0's epoch, and what any rank has processed."""
        states = allgather_object(self.value.state_dict())
        processed = set().union(*(state["processed_indices"] for state in states))
        self.value.load_state_dict({"epoch": states[0]["epoch"], "processed_indices": processed})
        self.save()


_HANDLERS = [(torch.nn.Module, ModelStateHandler), (torch.optim.Optimizer, OptimizerStateHandler),
             (ElasticSampler, SamplerStateHandler)]


def _handler(value: Any) -> Optional[StateHandler]:
    return next((handler(value) for kind, handler in _HANDLERS if isinstance(value, kind)), None)


class TorchState(ObjectState):
    """The state of a training with PyTorch. Its values are attributes.

    Args:
        model: a torch.nn.Module, or None.
        optimizer: a torch.optim.Optimizer, or None.
        kwargs: more of them, ElasticSamplers, and plain objects: TorchState(model, optimizer, epoch=0,
            sampler=sampler).
    """

    def __init__(self, model: Optional[torch.nn.Module] = None, optimizer: Optional[torch.optim.Optimizer] = None,
                 **kwargs: Any) -> None:
        values = {name: value for name, value in (("model", model), ("optimizer", optimizer)) if value is not None}
        values.update(kwargs)
        handlers: Dict[str, StateHandler] = {}
        for name, value in values.items():
            handler = _handler(value)
            if handler is not None:
                handlers[name] = handler
        super().__setattr__("_handlers", handlers)
        for name, handler in handlers.items():
            super().__setattr__(name, handler.value)
        plain = {name: value for name, value in values.items() if name not in handlers}
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **plain)

    def save(self) -> None:
        """Copies everything in memory."""
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        """Goes back to what was saved last."""
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        """Gives all ranks the state of rank 0. Collective."""
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def __setattr__(self, name: str, value: Any) -> None:
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is not None:
            handler.set_value(value)
        super().__setattr__(name, value)
