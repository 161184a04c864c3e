# SPDX-License-Identifier: Apache-2.0
"""Elastic training, as far as a job of unchanged size goes: states that are committed, restored and synchronised.

run_fn() calls a training function; when an operation fails across ranks it restores the state of the last commit,
leaves and joins the job again, and calls the function anew. A rank that is lost does not come back in this release:
joining again then fails, and so does the program. Nobody adds hosts here; on_hosts_updated() is for programs that know
of some.
"""

import copy
import functools
from typing import Any, Callable, Dict, List

from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt


class State:
    """What training needs to go on: subclasses say what it is.

    Args:
        bcast_object: (object) -> rank 0's object.
        get_rank: () -> this rank.
        kwargs: not used here.
    """

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any) -> None:
        self._bcast_object = bcast_object
        self._get_rank = get_rank
        self._updates: List[Any] = []
        self._reset_callbacks: List[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: List[Callable[[], None]]) -> None:
        """Functions to call after the job has been joined again: to set learning rates by its size, say."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Called when the job has been joined again."""
        self._updates.clear()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: Any, update_res: Any) -> None:
        """Notes that the hosts have changed; the next commit() or check_host_updates() says so."""
        self._updates.append((timestamp, update_res))

    def commit(self) -> None:
        """Saves the state, and checks whether hosts have changed.

        Raises:
            HostsUpdatedInterrupt: they have.
        """
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt if on_hosts_updated() has been called on this rank."""
        if self._updates:
            self._updates.clear()
            raise HostsUpdatedInterrupt()

    def save(self) -> None:
        """Saves the state in memory."""
        raise NotImplementedError

    def restore(self) -> None:
        """Goes back to what save() has saved last."""
        raise NotImplementedError

    def sync(self) -> None:
        """Gives all ranks the state of rank 0. Collective."""
        raise NotImplementedError

    def reset(self) -> None:
        """Called before the reset callbacks; does nothing."""


class ObjectState(State):
    """A state of plain Python objects, which are attributes.

    Args:
        bcast_object, get_rank: as for State.
        kwargs: the attributes and their values: ObjectState(..., epoch=0, batch=0).
    """

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any) -> None:
        super().__init__(bcast_object, get_rank)
        self._saved_state: Dict[str, Any] = copy.deepcopy(kwargs)
        self._take(kwargs)

    def save(self) -> None:
        """Copies the attributes' values."""
        self._saved_state = {name: copy.deepcopy(getattr(self, name)) for name in self._saved_state}

    def restore(self) -> None:
        """Gives the attributes the values that were copied last."""
        self._take(self._saved_state)

    def sync(self) -> None:
        """Gives all ranks the values that rank 0 has saved."""
        if self._saved_state:
            self._saved_state = self._bcast_object(self._saved_state)
            self._take(self._saved_state)

    def _take(self, values: Dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(self, name, copy.deepcopy(value))


def run_fn(func: Callable[..., Any], reset: Callable[[], None]) -> Callable[..., Any]:
    """A function of (state, ...) that calls func until it returns.

    Args:
        func: the training function; its first argument is a State, from which it goes on.
        reset: leaves the job and joins it again.

    Raises (the function): what reset() raises, and what func raises but HorovodInternalError and HostsUpdatedInterrupt.
    """
    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        again, synchronize = False, True
        while True:
            if again:
                reset()
                state.on_reset()
            if synchronize:
                state.sync()
            try:
                return func(state, *args, **kwargs)
            except HorovodInternalError:
                state.restore()
                synchronize = True
            except HostsUpdatedInterrupt as interrupt:
                synchronize = not interrupt.skip_sync
            again = True

    return wrapper
