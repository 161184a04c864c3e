# SPDX-License-Identifier: Apache-2.0
"""Threads, as programs and test suites written for Horovod start them."""

import queue
import threading
import traceback
from typing import Any, Callable, Dict, List, Optional, Sequence


def in_thread(target: Callable[..., Any], args: Sequence[Any] = (), name: Optional[str] = None, daemon: bool = True,
              silent: bool = False) -> threading.Thread:
    """Starts a thread.

    Args:
        target, args: what it runs; args is a tuple or list.
        name: the thread's name; None: target's.
        daemon: the process may end while it runs.
        silent: swallow what target raises, instead of having it printed.

    Returns:
        The running thread.

    Raises:
        ValueError: args is no tuple or list.
    """
    if not isinstance(args, (tuple, list)):
        raise ValueError(f"args is a tuple or list, not {type(args).__name__}; of one argument say (argument,)")

    def quietly(*arguments: Any) -> None:
        try:
            target(*arguments)
        except Exception:  # pylint: disable=broad-except
            pass

    thread = threading.Thread(target=quietly if silent else target, args=tuple(args),
                              name=name or getattr(target, "__name__", None), daemon=daemon)
    thread.start()
    return thread


def on_event(event: threading.Event, func: Callable[..., Any], args: Sequence[Any] = (),
             stop: Optional[threading.Event] = None, check_stop_interval_s: float = 1.0, daemon: bool = True,
             silent: bool = False) -> threading.Thread:
    """Starts a thread that calls a function when an event is set, unless another event says stop before.

    Args:
        event: what is waited for.
        func, args: what is called then.
        stop: ends the waiting without a call.
        check_stop_interval_s: how often stop is looked at, in seconds.
        daemon, silent: as for in_thread().

    Returns:
        The running thread.

    Raises:
        ValueError: event is None, or args is no tuple or list.
    """
    if event is None:
        raise ValueError("an event is needed")
    if not isinstance(args, (tuple, list)):
        raise ValueError(f"args is a tuple or list, not {type(args).__name__}; of one argument say (argument,)")

    def wait_and_call() -> None:
        if stop is None:
            event.wait()
        else:
            while not stop.is_set() and not event.wait(timeout=check_stop_interval_s):
                pass
        if event.is_set() and not (stop is not None and stop.is_set()):
            func(*args)

    return in_thread(wait_and_call, name=getattr(func, "__name__", None), daemon=daemon, silent=silent)


def execute_function_multithreaded(fn: Callable[..., Any], args_list: Sequence[Sequence[Any]],
                                   block_until_all_done: bool = True,
                                   max_concurrent_executions: int = 1000) -> Optional[Dict[int, Any]]:
    """Calls a function once for each entry of a list, in threads.

    Args:
        fn: the function.
        args_list: the arguments of each call.
        block_until_all_done: wait for all calls.
        max_concurrent_executions: how many threads there are at most.

    Returns:
        index of the call -> its result, without those that raised (their traceback is printed); None if not waiting.
    """
    work: "queue.Queue[int]" = queue.Queue()
    for index in range(len(args_list)):
        work.put(index)
    results: Dict[int, Any] = {}

    def run() -> None:
        while True:
            try:
                index = work.get_nowait()
            except queue.Empty:
                return
            try:
                results[index] = fn(*args_list[index])
            except Exception:  # pylint: disable=broad-except
                traceback.print_exc()

    threads: List[threading.Thread] = [
        in_thread(run, daemon=not block_until_all_done)
        for _ in range(min(max_concurrent_executions, len(args_list)))
    ]
    if not block_until_all_done:
        return None
    for thread in threads:
        thread.join()
    return results
