# SPDX-License-Identifier: Apache-2.0
"""horovod.run(): a function on several ranks of this machine, for programs and notebooks outside a job.

The function goes to the ranks, and results come back, pickled in a temporary folder; the ranks are started by Open
MPI's mpirun. Inside a job there are ranks already: srun --horovod starts them.
"""

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

from horovod.runner import _local

try:
    import cloudpickle as _pickler
except ImportError:
    _pickler = pickle


def run(func: Callable[..., Any], args: Sequence[Any] = (), kwargs: Optional[Dict[str, Any]] = None,
        np: Optional[int] = None, num_proc: Optional[int] = None, hosts: Optional[str] = None,
        env: Optional[Dict[str, str]] = None, executable: Optional[str] = None, verbose: Any = None,
        use_gloo: Optional[bool] = None, use_mpi: Optional[bool] = None, mpi_args: Optional[str] = None,
        start_timeout: Optional[int] = None) -> List[Any]:
    """Runs a function on several ranks of this machine.

    Args:
        func, args, kwargs: what every rank calls; pickled. Without cloudpickle, functions of a notebook cannot be sent,
            and the program is imported by the ranks to find its own: it calls run() below if __name__ == "__main__".
        np, num_proc: number of ranks; 1 if neither is given.
        hosts: None, or this machine: "localhost:4".
        env: environment variables of the ranks besides this process's.
        executable: the Python to run; None: this one.
        verbose: print the command.
        use_gloo, use_mpi, mpi_args: not needed, and ignored.
        start_timeout: seconds that the ranks have to find each other.

    Returns:
        What func returned on each rank, in the order of ranks.

    Raises:
        ValueError: wrong arguments.
        RuntimeError: inside a Slurm job or a rank (use srun --horovod there), there is no mpirun, or a rank failed.
    """
    count = np if num_proc is None else num_proc
    count = 1 if count is None else count
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"np is {count!r}; it is the number of ranks, at least 1")
    for host in (entry.split(":")[0] for entry in (hosts or "localhost").split(",")):
        if not _local.is_this_machine(host):
            raise ValueError(f'"{host}" is another machine; horovod.run() starts ranks on this one. For several '
                             "machines start the program with srun --horovod")
    _refuse_inside_a_job()
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        raise RuntimeError(_local.NO_MPIRUN)
    with tempfile.TemporaryDirectory(prefix="horovod-run-") as folder:
        Path(folder, "main").write_text(str(getattr(sys.modules["__main__"], "__file__", "")), encoding="utf-8")
        Path(folder, "call").write_bytes(_pickler.dumps((func, tuple(args), dict(kwargs or {}))))
        command = [*_local.command(mpirun, count), executable or sys.executable, "-m", "horovod.runner._task", folder]
        if verbose:
            print(" ".join(command), file=sys.stderr)
        status = subprocess.run(command, env=_environment(env, start_timeout), check=False).returncode
        if status != 0:
            raise RuntimeError(f"mpirun ended with status {status}; what the ranks have to say is above")
        return [pickle.loads(Path(folder, str(rank)).read_bytes()) for rank in range(count)]


def _refuse_inside_a_job() -> None:
    if _local.is_rank(os.environ):
        raise RuntimeError("this process is a rank of a job already, so horovod.run() cannot start others; call "
                           "hvd.init() and the function")
    if "SLURM_JOB_ID" in os.environ:
        raise RuntimeError("inside a Slurm job ranks are started by srun: srun --horovod python program.py")


def _environment(extra: Optional[Dict[str, str]], start_timeout: Optional[int]) -> Dict[str, str]:
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [package, os.getcwd(), *sys.path]))
    settings = {} if start_timeout is None else {"HOROVOD_START_TIMEOUT": str(start_timeout)}
    return {**os.environ, "PYTHONPATH": path, **settings, **(extra or {})}
