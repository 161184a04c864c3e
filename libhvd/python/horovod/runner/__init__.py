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

from horovod.runner import _flags, _hosts, _local

try:
    import cloudpickle as _pickler
except ImportError:
    _pickler = pickle


def run(func: Callable[..., Any], args: Sequence[Any] = (), kwargs: Optional[Dict[str, Any]] = None,
        num_proc: Optional[int] = None, min_num_proc: Optional[int] = None, max_num_proc: Optional[int] = None,
        slots: Optional[int] = None, reset_limit: Optional[int] = None, cooldown_range: Any = None,
        hosts: Optional[str] = None, hostfile: Optional[str] = None, host_discovery_script: Optional[str] = None,
        start_timeout: Optional[int] = None, ssh_port: Optional[int] = None, ssh_identity_file: Optional[str] = None,
        disable_cache: Optional[bool] = None, output_filename: Optional[str] = None, verbose: Any = None,
        use_gloo: Optional[bool] = None, use_mpi: Optional[bool] = None, mpi_args: Optional[str] = None,
        network_interface: Optional[str] = None, network_interfaces: Optional[str] = None,
        executable: Optional[str] = None, np: Optional[int] = None, min_np: Optional[int] = None,
        max_np: Optional[int] = None, *, env: Optional[Dict[str, str]] = None) -> List[Any]:
    """Runs a function on several ranks of this machine. Arguments are in Horovod's order.

    Args:
        func, args, kwargs: what every rank calls; pickled. Without cloudpickle, functions of a notebook cannot be sent,
            and the program is imported by the ranks to find its own: it calls run() below if __name__ == "__main__".
        num_proc, np: number of ranks; 1 if neither is given.
        hosts, hostfile: None, or this machine: "localhost:4"; the name of a file with lines "localhost slots=4".
        start_timeout: seconds that the ranks have to find each other.
        disable_cache: remember no tensor names between steps.
        output_filename: a folder for what the ranks print (mpirun makes a file for each).
        verbose: print the command.
        executable: the Python to run; None: this one.
        env: environment variables of the ranks besides this process's.
        min_num_proc, max_num_proc, min_np, max_np, slots, reset_limit, cooldown_range, host_discovery_script: of a job
            whose size changes; refused.
        use_gloo, use_mpi, mpi_args, network_interface, network_interfaces, ssh_port, ssh_identity_file: not needed, and
            ignored.

    Returns:
        What func returned on each rank, in the order of ranks.

    Raises:
        ValueError: wrong arguments.
        RuntimeError: inside a Slurm job or a rank (use srun --horovod there), there is no mpirun, or a rank failed.
    """
    elastic = {"min_num_proc": min_num_proc, "max_num_proc": max_num_proc, "min_np": min_np, "max_np": max_np,
               "slots": slots, "reset_limit": reset_limit, "cooldown_range": cooldown_range,
               "host_discovery_script": host_discovery_script}
    for name, value in elastic.items():
        if value is not None:
            raise ValueError(f"{name} is for jobs whose size changes, and this release has jobs of one size; leave it "
                             "out, and see horovod.torch.elastic for training that goes on after an error")
    count = np if num_proc is None else num_proc
    count = 1 if count is None else count
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"num_proc is {count!r}; it is the number of ranks, at least 1")
    for host in _named_hosts(hosts, hostfile):
        if not _local.is_this_machine(host):
            raise ValueError(f'"{host}" is another machine; horovod.run() starts ranks on this one. For several '
                             "machines start the program with srun --horovod")
    settings = {} if start_timeout is None else {"HOROVOD_START_TIMEOUT": str(start_timeout)}
    if disable_cache:
        settings["HOROVOD_CACHE_CAPACITY"] = "0"
    options = [] if output_filename is None else ["--output-filename", os.path.abspath(output_filename)]
    _refuse_inside_a_job()
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        raise RuntimeError(_local.NO_MPIRUN)
    with tempfile.TemporaryDirectory(prefix="horovod-run-") as folder:
        Path(folder, "main").write_text(str(getattr(sys.modules["__main__"], "__file__", "")), encoding="utf-8")
        Path(folder, "call").write_bytes(_pickler.dumps((func, tuple(args), dict(kwargs or {}))))
        command = [*_local.command(mpirun, count), *options, executable or sys.executable, "-m",
                   "horovod.runner._task", folder]
        if verbose:
            print(" ".join(command), file=sys.stderr)
        status = subprocess.run(command, env=_environment({**settings, **(env or {})}), check=False).returncode
        if status != 0:
            raise RuntimeError(f"mpirun ended with status {status}; what the ranks have to say is above")
        return [pickle.loads(Path(folder, str(rank)).read_bytes()) for rank in range(count)]


def _refuse_inside_a_job() -> None:
    if _local.is_rank(os.environ):
        raise RuntimeError("this process is a rank of a job already, so horovod.run() cannot start others; call "
                           "hvd.init() and the function")
    if "SLURM_JOB_ID" in os.environ:
        raise RuntimeError("inside a Slurm job ranks are started by srun: srun --horovod python program.py")


def _named_hosts(hosts: Optional[str], hostfile: Optional[str]) -> List[str]:
    try:
        found = _hosts.parse_hosts("hosts", hosts) if hosts else []
        if hostfile:
            found = found + _hosts.parse_hostfile(hostfile, Path(hostfile).read_text(encoding="utf-8"))
    except _flags.Refusal as refusal:
        raise ValueError(str(refusal)) from None
    except OSError as error:
        raise ValueError(f"hostfile cannot be read: {error}") from None
    return [host for host, _ in found]


def _environment(extra: Dict[str, str]) -> Dict[str, str]:
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [package, os.getcwd(), *sys.path]))
    return {**os.environ, "PYTHONPATH": path, **extra}
