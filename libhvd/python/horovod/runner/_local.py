# SPDX-License-Identifier: Apache-2.0
"""Ranks on this machine, outside of Slurm: Open MPI's mpirun, as horovodrun and horovod.run() call it."""

import os
from typing import List, Mapping

_NODE_NAME = os.uname().nodename
_NAMES = {"localhost", "127.0.0.1", "::1", _NODE_NAME, _NODE_NAME.split(".")[0]}

NO_MPIRUN = "there is no mpirun to start ranks with; install Open MPI, or use srun --horovod"


def is_this_machine(host: str) -> bool:
    """Whether a host, as a user names it, is this one."""
    return host in _NAMES


def is_rank(environment: Mapping[str, str]) -> bool:
    """Whether a process with this environment is a rank of a job already."""
    return "PMIX_RANK" in environment or "OMPI_COMM_WORLD_RANK" in environment


def command(mpirun: str, count: int) -> List[str]:
    """mpirun up to the program. Ranks have threads of their own, so they are not bound to one core each."""
    return [mpirun, "--oversubscribe", "--bind-to", "none", "-n", str(count)]


def python_path(environment: Mapping[str, str], package: str) -> str:
    """PYTHONPATH with the folder of the package in front."""
    others = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path and path != package]
    return os.pathsep.join([package, *others])
