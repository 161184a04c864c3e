# SPDX-License-Identifier: Apache-2.0
"""The table of prototypes against hvd.h, and how the library is found. Needs no other rank."""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from horovod.common import _library

ROOT = Path(os.environ.get("HVD_ROOT", Path(__file__).resolve().parents[2]))
HEADER = (ROOT / "libhvd" / "hvd.h").read_text()

C_TYPES = {
    "int": ctypes.c_int, "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "double": ctypes.c_double,
    "hvd_handle": ctypes.c_int64, "const char *": ctypes.c_char_p, "void *": ctypes.c_void_p,
    "const hvd_tensor *": ctypes.POINTER(_library.Tensor), "hvd_tensor *": ctypes.POINTER(_library.Tensor),
    "const int32_t *": ctypes.POINTER(ctypes.c_int32), "int32_t *": ctypes.POINTER(ctypes.c_int32),
    "const int64_t *": ctypes.POINTER(ctypes.c_int64), "int64_t *": ctypes.POINTER(ctypes.c_int64),
    "void *const *": ctypes.POINTER(ctypes.c_void_p), "hvd_handle *": ctypes.POINTER(ctypes.c_int64),
}


def declarations():
    code = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)
    for result, name, arguments in re.findall(r"HVD_API\s+([\w ]+?\s?\*?)\s*(hvd_\w+)\(([^)]*)\);", code):
        names = [] if arguments.strip() == "void" else [
            re.sub(r"\s+", " ", re.sub(r"\w+$", "", argument.strip())).strip() for argument in arguments.split(",")]
        yield name, C_TYPES[result.strip()], [C_TYPES[argument] for argument in names]


def test_every_function_of_the_header_has_its_prototype():
    found = {name: (result, arguments) for name, result, arguments in declarations()}
    assert len(found) > 40
    assert found == _library.PROTOTYPES


def test_the_numbers_of_types_reductions_and_codes_are_those_of_the_header():
    code = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)
    numbers = {name: int(value) for name, value in re.findall(r"HVD_(\w+) = (\d+)", code)}
    for name, number in _library.TYPES.items():
        assert numbers[name.upper()] == number
    for name in ("AVERAGE", "SUM", "ADASUM", "MIN", "MAX", "PRODUCT", "OK"):
        assert numbers[name] == getattr(_library, name)
    for name in ("INVALID", "STATE", "MISMATCH", "PEER_LOST", "SHUT_DOWN", "TIMEOUT", "SYSTEM", "INTERNAL", "STALLED"):
        assert numbers[f"ERR_{name}"] == getattr(_library, name)


def test_a_library_that_is_not_there_is_an_import_error_that_says_what_to_do():
    environment = {**os.environ, "HVD_LIBRARY": "/nowhere/libhvd.so"}
    done = subprocess.run([sys.executable, "-c", "import horovod.common.basics"], env=environment, capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "ImportError: libhvd.so cannot be loaded: /nowhere/libhvd.so: cannot open" in done.stderr
    assert "HVD_LIBRARY" in done.stderr


def test_a_library_of_another_version_is_an_import_error():
    with pytest.raises(ImportError, match="has no hvd_version: library and Python package are of different versions"):
        _library._with_prototypes(ctypes.CDLL(None), "other.so")
