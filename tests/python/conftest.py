# SPDX-License-Identifier: Apache-2.0
"""Every rank runs the whole suite, under mpirun: the tests are the same program on all ranks.

Rank 0 prints TAP (with pytest's own output off: -p no:terminal); what fails is shown by the rank where it fails. The
first failure ends the rank (-x), and so the job: ranks that are no longer in step cannot be tested.
"""

import os
import sys

import pytest

RANK = int(os.environ.get("PMIX_RANK", "0"))
_count = {"tests": 0}


def pytest_configure(config):
    config.option.maxfail = 1
    config.option.tbstyle = "short"
    config.option.verbose = 0  # of the terminal, which is off; how assertions are told asks for it


def pytest_runtest_logreport(report):
    if report.when != "call" and report.passed:
        return
    if report.failed:
        _tell(report.longreprtext)
    if RANK == 0 and (report.when == "call" or report.failed or report.skipped):
        _count["tests"] += 1
        reason = f" # skip {report.longrepr[2]}" if report.skipped else ""
        name = report.nodeid.split("::", 1)[1].replace("_", " ").replace("test ", "", 1)
        print(f'{"not ok" if report.failed else "ok"} {_count["tests"]} python: {name}{reason}', flush=True)


def _tell(text):
    os.write(1, "".join(f"# rank {RANK}: {line}\n" for line in text.splitlines()).encode())


def pytest_collectreport(report):
    if report.failed:
        _tell(report.longreprtext)


def pytest_internalerror(excrepr):
    _tell(str(excrepr))


def pytest_sessionfinish(session, exitstatus):
    hvd = sys.modules.get("horovod.torch")
    if hvd is not None and hvd.is_initialized() and exitstatus == 0:
        hvd.barrier()
    if RANK == 0:
        print(f'1..{_count["tests"]}', flush=True)


@pytest.fixture(scope="session")
def hvd():
    """horovod.torch, initialised."""
    import horovod.torch
    horovod.torch.init()
    return horovod.torch


@pytest.fixture
def rank(hvd):
    return hvd.rank()


@pytest.fixture
def size(hvd):
    return hvd.size()
