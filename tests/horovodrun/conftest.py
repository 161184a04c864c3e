# SPDX-License-Identifier: Apache-2.0
"""Tests of horovodrun without Slurm and without ranks. Prints TAP (with pytest's own output off: -p no:terminal).

They import the package that is installed below HVD_PREFIX (build/prefix), or the one at HVD_PYTHONPATH.
"""

import os
import sys
from pathlib import Path

import pytest

PREFIX = Path(os.environ.get("HVD_PREFIX", Path(__file__).parents[2] / "build" / "prefix"))
sys.path.insert(0, os.environ.get("HVD_PYTHONPATH", str(PREFIX / "lib" / "horovod" / "python")))
sys.dont_write_bytecode = True
_count = {"tests": 0}


def pytest_configure(config):
    config.option.tbstyle = "short"
    config.option.verbose = 0  # of the terminal, which is off; how assertions are told asks for it


def pytest_runtest_logreport(report):
    if report.when == "call" or not report.passed:
        _count["tests"] += 1
        name = report.nodeid.split("::", 1)[1].replace("_", " ").replace("test ", "", 1).replace("#", "")
        print(f'{"not ok" if report.failed else "ok"} {_count["tests"]} horovodrun: {name}')
    if report.failed:
        _comment(report.longreprtext)


def pytest_collectreport(report):
    if report.failed:
        _comment(report.longreprtext)


def _comment(text):
    print("".join(f"# {line}\n" for line in text.splitlines()), end="")


def pytest_sessionfinish():
    print(f'1..{_count["tests"]}', flush=True)


@pytest.fixture
def prefix():
    """Where everything is installed."""
    return PREFIX
