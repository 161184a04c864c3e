# SPDX-License-Identifier: Apache-2.0
"""horovodrun, as scripts call it, on srun --horovod: also ``python -m horovod.runner.launch``.

``plan`` decides, from arguments, environment and what is asked of Slurm, which command is run in which environment;
``main`` does it: it replaces itself by that command, so that signals, output and exit status are that command's.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable, Dict, List, Mapping, NamedTuple, NoReturn, Optional, Sequence, Tuple

import horovod
from horovod.runner import _config, _flags, _hosts, _local
from horovod.runner._flags import Refusal

PACKAGE = str(Path(__file__).resolve().parents[2])  # the folder that PYTHONPATH has to name
_INHERITED = "SLURM_SPANK__SLURM_SPANK_OPTION_horovod_horovod"  # where a job keeps its --horovod
_NO_STEP = 0xfffffff0  # from here on Slurm's step numbers are those of scripts and shells


class Machine(NamedTuple):
    """What is asked of the machine.

    Attributes:
        name: of this host.
        root: whether this is root.
        folder: the working directory.
        read: the text of a file, by its name; Refusal if it cannot be read.
        find: where a program is, by its name; None if it is not there.
        nodes: the names of the nodes of Slurm's list "node[0-3]".
    """

    name: str
    root: bool
    folder: str
    read: Callable[[str], str]
    find: Callable[[str], Optional[str]]
    nodes: Callable[[str], Sequence[str]]


class Plan(NamedTuple):
    """What is done: `notes` are told, `folders` made, and `command` run in `environment`."""

    command: List[str]
    environment: Dict[str, str]
    notes: List[str] = []
    folders: List[str] = []


def plan(request: _flags.Request, environment: Mapping[str, str], machine: Machine) -> Plan:
    """What a command line comes to; Refusal if to nothing."""
    if "check_build" in request.own:
        info = machine.find("hvd-info")
        if info is None:
            raise Refusal("hvd-info is neither beside horovodrun nor on PATH", 1)
        return Plan([info], dict(environment))
    if not request.program:
        raise Refusal("there is no program to run\n"
                      "usage: horovodrun -np N [-H HOST:SLOTS,...] [flag ...] program [argument ...]\n"
                      "horovodrun --help lists the flags")
    if "hosts" in request.own and "hostfile" in request.own:
        raise Refusal("-H and -hostfile exclude each other")
    _refuse_in_a_rank(environment)
    in_job = "SLURM_JOB_ID" in environment
    made = (_in_job if in_job else _on_this_machine)(request, environment, machine)
    if "verbose" in request.own:
        made.notes.append(" ".join(map(shlex.quote, made.command)))
    return made


def _refuse_in_a_rank(environment: Mapping[str, str]) -> None:
    tasks = environment.get("SLURM_STEP_NUM_TASKS", "1")
    if _local.is_rank(environment) or (_step(environment) is not None and tasks != "1"):
        what = "a rank of a job"
        if _step(environment) is not None:
            what = (f'task {environment.get("SLURM_PROCID", "?")} of step {environment.get("SLURM_JOB_ID", "?")}.'
                    f'{_step(environment)}')
        raise Refusal(f"this process is {what} already. Call horovodrun once, in the job script itself, and not "
                      "with srun or mpirun", 1)


def _step(environment: Mapping[str, str]) -> Optional[int]:
    number = environment.get("SLURM_STEP_ID", "")
    return int(number) if number.isdigit() and int(number) < _NO_STEP else None


def _named_hosts(request: _flags.Request, machine: Machine) -> Optional[_hosts.Hosts]:
    if "hosts" in request.own:
        return _hosts.parse_hosts("-H", str(request.own["hosts"]))
    if "hostfile" in request.own:
        name = str(request.own["hostfile"])
        return _hosts.parse_hostfile(name, machine.read(name))
    return None


# ---- in an allocation ---------------------------------------------------------------------------

def _in_job(request: _flags.Request, environment: Mapping[str, str], machine: Machine) -> Plan:
    if environment.get("SLURM_HET_SIZE", "1") != "1":
        raise Refusal("this is a heterogeneous job, whose components horovodrun cannot tell apart; start the program "
                      "with srun --horovod", 1)
    if machine.find("srun") is None:
        raise Refusal("this is a Slurm job, but there is no srun on PATH", 1)
    nodes = environment.get("SLURM_JOB_NODELIST", environment.get("SLURM_NODELIST", ""))
    job = _hosts.allocation(environment, machine.nodes(nodes), machine.name)
    placed = _hosts.place(_named_hosts(request, machine), _count(request), job, "SLURM_OVERCOMMIT" in environment)
    settings, variables = _settings(request, environment.get(_INHERITED, ""))
    command = ["srun", "--horovod=" + ",".join(settings) if settings else "--horovod"]
    command += _hosts.srun_arguments(placed, _count(request), job)
    command += _hosts.cpus_per_task(placed, job, environment)
    if _step(environment) is not None:
        command.append("--overlap")  # this shell is a step, which has all that the job has
    if "SLURM_STDINMODE" not in environment:
        command.append("--input=0")  # rank 0 reads, as with mpirun
    folders: List[str] = []
    ranks = sum(number for _, number in placed) if placed else _count(request) or job.count or 0
    if "output_filename" in request.own:
        folder, width = _output_folder(request, machine), len(str(ranks - 1))
        if "\\" in folder:
            raise Refusal(f'--output-filename is "{folder}"; srun does not take a backslash')
        folders = [f"{folder}/rank.{rank:0{width}}" for rank in range(ranks)]
        pattern = f"{folder.replace('%', '%%')}/rank.%{width if width > 1 else ''}t"
        command += [f"--output={pattern}/stdout", f"--error={pattern}/stderr"]
    notes = list(request.notes)
    if "timestamps" in request.own:
        notes.append("--prefix-output-with-timestamp has no effect: srun does not write times")
    made = {**environment, **variables}
    if placed is not None:  # what the script was given may say something else
        made.pop("SLURM_HOSTFILE", None)
        made.pop("SLURM_NTASKS_PER_NODE", None)
    return Plan(command + request.program, made, notes, folders)


def _count(request: _flags.Request) -> Optional[int]:
    count = request.own.get("num_proc")
    return count if isinstance(count, int) else None


def _settings(request: _flags.Request, inherited: str) -> Tuple[List[str], Dict[str, str]]:
    """Items of --horovod, and variables. What the job was given holds where no flag says something else."""
    kept = [item for item in inherited.split(",") if item and item != "(null)"]
    if "off" in kept:
        kept = []
    items = [item for item in kept if item not in ("inherited", "help")
             and item.split("=")[0].strip() not in request.settings]
    variables = dict(request.variables)
    for key, setting in request.settings.items():
        if "," in setting.value:  # no key can have one
            variables[setting.variable] = setting.variable_value
        else:
            items.append(f"{key}={setting.value}")
    return items, variables


def _output_folder(request: _flags.Request, machine: Machine) -> str:
    return os.path.normpath(os.path.join(machine.folder, str(request.own["output_filename"])))


# ---- elsewhere ----------------------------------------------------------------------------------

def _on_this_machine(request: _flags.Request, environment: Mapping[str, str], machine: Machine) -> Plan:
    hosts = _named_hosts(request, machine)
    for host, _ in hosts or []:
        if not _local.is_this_machine(host):
            raise Refusal(f'"{host}" is another machine, and this is no Slurm job; horovodrun starts ranks on this '
                          "machine alone. Submit a script that calls it with sbatch, or use srun --horovod")
    count = _count(request)
    if hosts is not None:
        count = sum(number for _, number in _hosts.fill(hosts, count))
    if count is None:
        raise Refusal("-np is missing: say how many ranks to start, as in horovodrun -np 2")
    if machine.find("mpirun") is None:
        raise Refusal(_local.NO_MPIRUN, 1)
    if machine.root and not (environment.get("OMPI_ALLOW_RUN_AS_ROOT") == "1"
                             and environment.get("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM") == "1"):
        raise Refusal("mpirun does not start programs as root. Be another user, or set OMPI_ALLOW_RUN_AS_ROOT=1 and "
                      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", 1)
    command = _local.command("mpirun", count)
    if "timestamps" in request.own:
        command.append("--timestamp-output")
    if "output_filename" in request.own:
        command += ["--output-filename", _output_folder(request, machine) + ":nojobid"]
    settings = {setting.variable: setting.variable_value for setting in request.settings.values()}
    made = {**environment, **request.variables, **settings}
    made["PYTHONPATH"] = _local.python_path(environment, PACKAGE)
    return Plan(command + request.program, made, list(request.notes))


# ---- doing it -----------------------------------------------------------------------------------

def main(arguments: Optional[Sequence[str]] = None, version: str = "") -> int:
    """Runs horovodrun; returns an exit status only if nothing was started.

    Args:
        arguments: None: those of this process.
        version: of slurm-horovod, for --version.
    """
    try:
        request = _flags.parse(sys.argv[1:] if arguments is None else arguments,
                               lambda name: _config.entries(name, _read(name)))
        if "help" in request.own:
            print(_flags.help_text(), end="")
            return 0
        if "version" in request.own:
            print(horovod.__version__ + (f" (slurm-horovod {version})" if version else ""))
            return 0
        machine = Machine(os.uname().nodename, os.geteuid() == 0, os.getcwd(), _read, _find, _nodes)
        _do(plan(request, os.environ, machine))
    except Refusal as refusal:
        print(f"horovodrun: {refusal}", file=sys.stderr)
        return refusal.status


def _do(made: Plan) -> NoReturn:
    for note in made.notes:
        print(f"horovodrun: {note}", file=sys.stderr)
    try:
        for folder in made.folders:
            os.makedirs(folder, exist_ok=True)
        sys.stdout.flush()
        sys.stderr.flush()
        os.execvpe(made.command[0], made.command, made.environment)
    except OSError as error:
        raise Refusal(f'"{error.filename}": {error.strerror}', 1) from None


def _read(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise Refusal(f'"{name}": {error.strerror}') from None
    except UnicodeDecodeError:
        raise Refusal(f'"{name}" is no text') from None


def _find(program: str) -> Optional[str]:
    """On PATH; hvd-info beside horovodrun, if it is there."""
    beside = Path(sys.argv[0]).resolve().parent / program
    return str(beside) if program == "hvd-info" and os.access(beside, os.X_OK) else shutil.which(program)


def _nodes(names: str) -> Sequence[str]:
    try:
        done = subprocess.run(["scontrol", "show", "hostnames", names], stdout=subprocess.PIPE, check=False,
                              stdin=subprocess.DEVNULL, universal_newlines=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refusal(f"the nodes of this job are not known, for scontrol does not run: {error}", 1) from None
    if done.returncode != 0 or not done.stdout.split():
        raise Refusal(f'the nodes of this job are not known: "scontrol show hostnames {names}" ended with status '
                      f"{done.returncode}", 1)
    return done.stdout.split()


if __name__ == "__main__":
    sys.exit(main())
