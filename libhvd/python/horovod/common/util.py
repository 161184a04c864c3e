# SPDX-License-Identifier: Apache-2.0
"""Small things that programs written for Horovod import from here."""

import os
import warnings
from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, Optional, Sequence

from horovod.common.exceptions import HorovodVersionMismatchError, get_version_mismatch_message

__all__ = [
    "ccl_built", "check_extension", "check_installed_version", "cuda_built", "ddl_built", "env", "extension_available",
    "get_average_backwards_compatibility_fun", "gloo_built", "gpu_available", "is_iterable",
    "is_version_greater_equal_than", "mpi_built", "nccl_built", "num_rank_is_power_2", "rocm_built", "split_list",
    "HorovodVersionMismatchError", "get_version_mismatch_message",
]

EXTENSIONS = ["torch"]


def is_iterable(x: Any) -> bool:
    """Can x be iterated over?"""
    try:
        iter(x)
    except TypeError:
        return False
    return True


def split_list(items: Sequence[Any], parts: int) -> List[Sequence[Any]]:
    """Cuts a list into consecutive parts whose lengths differ by one at most, the longer ones first.

    Args:
        items: the list.
        parts: how many parts, at least 1; parts are empty if there are fewer items.
    """
    least, longer = divmod(len(items), parts)
    ends = [least * (i + 1) + min(i + 1, longer) for i in range(parts)]
    return [items[start:end] for start, end in zip([0] + ends, ends)]


def num_rank_is_power_2(num_rank: int) -> bool:
    """Is the number of ranks a power of two? (Adasum here works with any number.)"""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


@contextmanager
def env(**kwargs: Optional[str]) -> Iterator[None]:
    """Within the context, environment variables have these values; None leaves a variable as it is."""
    wanted = {name: value for name, value in kwargs.items() if value is not None}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def get_average_backwards_compatibility_fun(reduce_ops: Any) -> Callable[[Optional[int], Optional[bool]], int]:
    """A function of (op, average) that tells the reduction that is meant.

    ``average`` is how programs said it before there was ``op``: alone it is accepted with a DeprecationWarning.

    Args:
        reduce_ops: anything with attributes ``Average`` and ``Sum``.

    Raises (the function): ValueError if both are given.
    """
    def which(op: Optional[int], average: Optional[bool]) -> int:
        if average is None:
            return reduce_ops.Average if op is None else op
        if op is not None:
            raise ValueError("op and average are both given; leave out average, which op has replaced")
        warnings.warn("the parameter average is deprecated; say op=hvd.Average or op=hvd.Sum", DeprecationWarning,
                      stacklevel=3)
        return reduce_ops.Average if average else reduce_ops.Sum

    return which


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Is version "1.13.1+cpu" at least "1.13"? Both are numbers with dots; what follows them does not count."""
    return _numbers(ver) >= _numbers(target)


def _numbers(version: str) -> List[int]:
    numbers = []
    for part in version.split("+")[0].split("."):
        digits = part[:len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return numbers


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: str) -> None:
    """Raises ImportError unless the package for a framework is there.

    Args:
        ext_name: its name: "horovod.torch".
        ext_env_var, pkg_path, args: not used; nothing is compiled.
    """
    if not extension_available(ext_name.rpartition(".")[2]):
        raise ImportError(f'{ext_name} is not part of this release; there is {", ".join(EXTENSIONS)}')


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Can horovod.<ext_base_name> be imported here? "torch" can, where PyTorch is.

    Args:
        ext_base_name: "torch", "tensorflow" or "mxnet".
        verbose: also print the answer.
    """
    from importlib.util import find_spec
    found = ext_base_name in EXTENSIONS and find_spec(ext_base_name) is not None
    if verbose:
        print(f'horovod.{ext_base_name} is {"" if found else "not "}available')
    return found


def check_installed_version(name: str, version: str, exception: Optional[Exception] = None) -> None:
    """Does nothing: no extension is compiled, so none can be of another version than the framework."""


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Does the package for a framework work on GPUs here? This release works on host memory: False."""
    return False


def _built(name: str) -> bool:
    from horovod.common.basics import HorovodBasics
    return bool(getattr(HorovodBasics(), name)())


def mpi_built(verbose: bool = False) -> bool:
    """Was libhvd built with MPI, which it uses between nodes?"""
    return _built("mpi_built")


def gloo_built(verbose: bool = False) -> bool:
    """Was libhvd built with Gloo? False: it has transports of its own."""
    return _built("gloo_built")


def nccl_built(verbose: bool = False) -> bool:
    """Was libhvd built with NCCL? False in this release."""
    return _built("nccl_built")


def ddl_built(verbose: bool = False) -> bool:
    """Was libhvd built with IBM's DDL? False."""
    return _built("ddl_built")


def ccl_built(verbose: bool = False) -> bool:
    """Was libhvd built with oneCCL? False."""
    return _built("ccl_built")


def cuda_built(verbose: bool = False) -> bool:
    """Was libhvd built with CUDA? False in this release."""
    return _built("cuda_built")


def rocm_built(verbose: bool = False) -> bool:
    """Was libhvd built with ROCm? False."""
    return _built("rocm_built")
