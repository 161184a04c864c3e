# SPDX-License-Identifier: Apache-2.0
"""What the environment says about a rank, for programs that ask before hvd.init()."""

import os
import re
from typing import Tuple

LOG_LEVEL_STR = ["FATAL", "ERROR", "WARNING", "INFO", "DEBUG", "TRACE"]

# Not to be handed on to ranks: shell functions, and what belongs to one process.
IGNORE_REGEXES = {"BASH_FUNC_.*", "OLDPWD"}

_RANKS_AND_SIZES = [
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
]


def is_exportable(name: str) -> bool:
    """Is this an environment variable that is handed on to ranks?"""
    return not any(re.fullmatch(regex, name) for regex in IGNORE_REGEXES)


def get_env_rank_and_size() -> Tuple[int, int]:
    """This process's rank and the number of ranks, as the launcher has put them into the environment; (0, 1) if it has
    not. After hvd.init() ask hvd.rank() and hvd.size()."""
    for rank, size in _RANKS_AND_SIZES:
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1
