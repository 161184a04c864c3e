# SPDX-License-Identifier: Apache-2.0
"""Tensors of PyTorch as libhvd sees them, and results of libhvd as tensors; nothing is copied either way.

describe() reads pointers: whoever calls it keeps the tensor until the operation is done. result() makes tensors of
memory that belongs to a handle; the handle is released when the last of them, and of their views, is gone.
"""

import ctypes
import os
import weakref
from typing import List, Tuple

import torch

from horovod.common import _library
from horovod.common._library import lib

_NUMBERS = {getattr(torch, name): number for name, number in _library.TYPES.items() if hasattr(torch, name)}
_DTYPES = {number: dtype for dtype, number in _NUMBERS.items()}
_MOST_DIMENSIONS = 16
_SHAPES = [ctypes.c_int64 * dimensions for dimensions in range(_MOST_DIMENSIONS + 1)]
_WRITABLE = 0x200  # PyBUF_WRITE

_view_of_memory = ctypes.pythonapi.PyMemoryView_FromMemory
_view_of_memory.restype = ctypes.py_object
_view_of_memory.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]


def describe(tensor: torch.Tensor) -> Tuple[int, ctypes.Array, int, int, int]:
    """What an hvd_tensor of this contiguous tensor holds: data, shape, ndim, type, device."""
    shape = tensor.shape
    return tensor.data_ptr(), _SHAPES[len(shape)](*shape), len(shape), _NUMBERS[tensor.dtype], 0


def check(tensor: torch.Tensor) -> None:
    """Raises ValueError, which says what to do, unless libhvd can work on the tensor (once it is contiguous)."""
    if (isinstance(tensor, torch.Tensor) and tensor.dtype in _NUMBERS and tensor.layout == torch.strided
            and tensor.device.type == "cpu" and tensor.dim() <= _MOST_DIMENSIONS):
        return
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"a torch.Tensor is needed, not {type(tensor).__name__}")
    if tensor.layout != torch.strided:
        raise ValueError(f"the tensor's layout is {_short(tensor.layout)}, which is not dense; use "
                         "sparse_allreduce_async(), or give tensor.to_dense()")
    if tensor.device.type != "cpu":
        raise ValueError(f"the tensor is on {tensor.device}, and this release works on host memory; give tensor.cpu()")
    if tensor.dim() > _MOST_DIMENSIONS:
        raise ValueError(f"the tensor has {tensor.dim()} dimensions, more than {_MOST_DIMENSIONS}; give a reshaped one")
    raise ValueError(f"tensors of type {_short(tensor.dtype)} are not supported; there are "
                     f'{", ".join(_short(dtype) for dtype in _NUMBERS)}')


def _short(thing: object) -> str:
    return str(thing).replace("torch.", "")


def as_input(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a contiguous copy if it is not contiguous. ValueError if libhvd cannot work on it."""
    check(tensor)
    if tensor.is_contiguous() and not tensor.is_neg():
        return tensor
    return tensor.detach().resolve_neg().contiguous()


def as_output(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself. ValueError if libhvd cannot write to it as it is."""
    check(tensor)
    if not tensor.is_contiguous() or tensor.is_neg():
        raise ValueError(f"the tensor of shape {list(tensor.shape)} and strides {list(tensor.stride())} is not "
                         "contiguous, so nothing can be done in place; use the function without the underscore, or "
                         "give tensor.contiguous()")
    return tensor


class _Memory:
    """A finished handle with results; released when nothing refers to it any more."""

    __slots__ = ("handle", "process")

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.process = os.getpid()

    def __del__(self, release=lib.hvd_release, getpid=os.getpid) -> None:
        # A forked child has the tensors, but not the runtime.
        if getpid() == self.process:
            release(self.handle)


# The memory of results that are in use: id of the view -> (weak reference to the view, memory).
_in_use = {}
# The interpreter takes modules apart while tensors may still be read: not to be freed by that.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_in_use))


def _wrap(memory: _Memory, described: _library.Tensor) -> torch.Tensor:
    shape = described.shape[:described.ndim]
    dtype = _DTYPES[described.type]
    count = 1
    for dimension in shape:
        count *= dimension
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    size = count * torch.empty((), dtype=dtype).element_size()
    view = _view_of_memory(described.data, size, _WRITABLE)
    key = id(view)
    _in_use[key] = (weakref.ref(view, lambda _: _in_use.pop(key, None)), memory)
    # The tensor's storage refers to the view for as long as it lives.
    return torch.frombuffer(view, dtype=dtype).view(shape)


def results(handle: int, count: int) -> List[torch.Tensor]:
    """The tensors that a finished allgather or alltoall has made; [handle] belongs to them from here on."""
    memory = _Memory(handle)
    described = _library.Tensor()
    tensors = []
    for index in range(count):
        _library.check(lib.hvd_result(handle, index, ctypes.byref(described)))
        tensors.append(_wrap(memory, described))
    return tensors
