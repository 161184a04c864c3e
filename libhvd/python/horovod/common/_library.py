# SPDX-License-Identifier: Apache-2.0
"""libhvd.so as Python sees it: where it is, what its functions take, and how one waits for it.

PROTOTYPES is hvd.h in ctypes, one row a function; a test compares the two. Nothing here knows of tensors of a
framework. A function called through ctypes does not hold the GIL. Memory that the library has been given has to live
until the operation is done: whoever submits keeps it.
"""

import ctypes
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from horovod.common.exceptions import HorovodInternalError

# Status codes of hvd.h.
OK, INVALID, STATE, MISMATCH, PEER_LOST, SHUT_DOWN, TIMEOUT, SYSTEM, INTERNAL, STALLED = range(10)

# Reductions of hvd.h.
AVERAGE, SUM, ADASUM, MIN, MAX, PRODUCT = range(6)

# Element types of hvd.h, by the names that frameworks have for them.
TYPES = {
    "uint8": 0, "int8": 1, "uint16": 2, "int16": 3, "int32": 4, "int64": 5,
    "float16": 6, "float32": 7, "float64": 8, "bool": 9, "bfloat16": 10,
}

# A waiting thread comes back to Python so often: signal handlers run there.
WAIT_SLICE_MS = 100

SONAME = "libhvd.so.0"


class Tensor(ctypes.Structure):
    """hvd_tensor: data, shape, ndim, type, device (0: host memory)."""

    _fields_ = [("data", c_void_p), ("shape", POINTER(c_int64)), ("ndim", c_int32), ("type", c_int32),
                ("device", c_int32)]


_tensors = POINTER(Tensor)
_numbers = POINTER(c_int32)
_sizes = POINTER(c_int64)
_pointers = POINTER(c_void_p)
_handle = POINTER(c_int64)
_scaled = [c_int, c_double, c_double, c_int32]  # op, prescale, postscale, process_set

# name -> (what it returns, what it takes)
PROTOTYPES: Dict[str, Tuple[type, List[type]]] = {
    "hvd_version": (c_char_p, []),
    "hvd_init": (c_int, []),
    "hvd_shutdown": (c_int, []),
    "hvd_is_initialized": (c_int, []),
    "hvd_rank": (c_int, []),
    "hvd_size": (c_int, []),
    "hvd_local_rank": (c_int, []),
    "hvd_local_size": (c_int, []),
    "hvd_cross_rank": (c_int, []),
    "hvd_cross_size": (c_int, []),
    "hvd_is_homogeneous": (c_int, []),
    "hvd_add_process_set": (c_int, [_numbers, c_int32, _numbers]),
    "hvd_add_process_set_async": (c_int, [_numbers, c_int32, _numbers, _handle]),
    "hvd_remove_process_set": (c_int, [c_int32]),
    "hvd_remove_process_set_async": (c_int, [c_int32, _handle]),
    "hvd_process_sets": (c_int, [_numbers, c_int32]),
    "hvd_process_set_ranks": (c_int, [c_int32, _numbers, c_int32]),
    "hvd_process_set_rank": (c_int, [c_int32]),
    "hvd_process_set_size": (c_int, [c_int32]),
    "hvd_allreduce_async": (c_int, [c_char_p, _tensors, c_void_p, *_scaled, _handle]),
    "hvd_grouped_allreduce_async": (c_int, [c_char_p, c_int32, _tensors, _pointers, *_scaled, _handle]),
    "hvd_allgather_async": (c_int, [c_char_p, _tensors, c_int32, _handle]),
    "hvd_grouped_allgather_async": (c_int, [c_char_p, c_int32, _tensors, c_int32, _handle]),
    "hvd_broadcast_async": (c_int, [c_char_p, _tensors, c_void_p, c_int, c_int32, _handle]),
    "hvd_alltoall_async": (c_int, [c_char_p, _tensors, _sizes, _sizes, c_int32, _handle]),
    "hvd_reducescatter_async": (c_int, [c_char_p, _tensors, c_void_p, *_scaled, _handle]),
    "hvd_grouped_reducescatter_async": (c_int, [c_char_p, c_int32, _tensors, _pointers, *_scaled, _handle]),
    "hvd_reducescatter_rows": (c_int64, [c_int64, c_int32]),
    "hvd_barrier_async": (c_int, [c_int32, _handle]),
    "hvd_join_async": (c_int, [c_int32, _numbers, _handle]),
    "hvd_allreduce": (c_int, [c_char_p, _tensors, c_void_p, *_scaled]),
    "hvd_grouped_allreduce": (c_int, [c_char_p, c_int32, _tensors, _pointers, *_scaled]),
    "hvd_allgather": (c_int, [c_char_p, _tensors, c_int32, _handle]),
    "hvd_grouped_allgather": (c_int, [c_char_p, c_int32, _tensors, c_int32, _handle]),
    "hvd_broadcast": (c_int, [c_char_p, _tensors, c_void_p, c_int, c_int32]),
    "hvd_alltoall": (c_int, [c_char_p, _tensors, _sizes, _sizes, c_int32, _handle]),
    "hvd_reducescatter": (c_int, [c_char_p, _tensors, c_void_p, *_scaled]),
    "hvd_grouped_reducescatter": (c_int, [c_char_p, c_int32, _tensors, _pointers, *_scaled]),
    "hvd_barrier": (c_int, [c_int32]),
    "hvd_join": (c_int, [c_int32, _numbers]),
    "hvd_should_stop_async": (c_int, [_numbers, _handle]),
    "hvd_should_stop": (c_int, [_numbers]),
    "hvd_poll": (c_int, [c_int64]),
    "hvd_wait": (c_int, [c_int64, c_int64]),
    "hvd_result": (c_int, [c_int64, c_int32, _tensors]),
    "hvd_release": (c_int, [c_int64]),
    "hvd_error": (c_char_p, [c_int64]),
    "hvd_start_timeline": (c_int, [c_char_p, c_int]),
    "hvd_stop_timeline": (c_int, []),
    "hvd_last_error": (c_char_p, []),
}


def candidates() -> List[str]:
    """Where libhvd.so may be, best first: HVD_LIBRARY alone if it is set; beside the installed package, that is
    two folders above $(libdir)/horovod/python; where the dynamic loader looks."""
    named = os.environ.get("HVD_LIBRARY")
    if named:
        return [named]
    above = Path(__file__).resolve().parents
    beside = [str(above[4] / SONAME)] if len(above) > 4 else []
    return [path for path in beside if os.path.exists(path)] + [SONAME]


def load() -> ctypes.CDLL:
    """Loads the library and tells ctypes its functions.

    Raises:
        ImportError: there is none, or it is not of this package's version; the text says where it was looked for.
    """
    reasons = []
    for path in candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            reasons.append(str(error))
            continue
        return _with_prototypes(library, path)
    raise ImportError(f'libhvd.so cannot be loaded: {"; ".join(reasons)}. Install the package together with the '
                      'library, or say where the library is in HVD_LIBRARY')


def _with_prototypes(library: ctypes.CDLL, path: str) -> ctypes.CDLL:
    for name, (result, arguments) in PROTOTYPES.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f'"{path}" has no {name}: library and Python package are of different versions. '
                              'Install both from one build') from None
        function.restype = result
        function.argtypes = arguments
    return library


lib = load()


def last_error() -> str:
    """The text of the last call's error in this thread."""
    return lib.hvd_last_error().decode(errors="replace")


def error(code: int, text: Optional[str] = None) -> Exception:
    """The exception for a status code: ValueError for a wrong argument or a missing init(), else
    HorovodInternalError."""
    if code == STATE and not lib.hvd_is_initialized():
        return not_initialized()
    text = last_error() if text is None else text
    return ValueError(text) if code == INVALID else HorovodInternalError(text)


def not_initialized() -> ValueError:
    """What is raised by everything that needs init() first."""
    return ValueError("horovod has not been initialized; call hvd.init() first")


def check(code: int) -> None:
    """Raises error(code), unless code is OK."""
    if code != OK:
        raise error(code)


def wait(handle: int) -> int:
    """Sleeps until an operation is done; its status code. Python's signal handlers run meanwhile, and what they raise
    leaves the operation in flight."""
    code = lib.hvd_wait(handle, WAIT_SLICE_MS)
    while code == TIMEOUT:
        code = lib.hvd_wait(handle, WAIT_SLICE_MS)
    return code


def wait_checked(handle: int) -> None:
    """wait(), and HorovodInternalError if the operation failed."""
    code = wait(handle)
    if code != OK:
        raise HorovodInternalError(last_error())
